package systemtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/bench/packet"
	"signalbox/scripts/suite"
)

// doors are filters to which a visitor may subscribe, each by a role of its own.
// A door is closed once, by deleting its role. Where it is refused from then on it
// must never be open again, however the node ends and comes back.
type doors struct {
	random *rand.Rand

	mu     sync.Mutex // guards the fields below
	rows   int
	row    []string        // doors that are open
	closed []shut          // doors whose closing was acknowledged
	seen   map[string]bool // at machines: rows that the visitor has seen open
	shut   map[string]bool // at machines: doors that were refused to it since
	looked int
	late   map[int]time.Duration // by machine: longest after the acknowledgement that a door was open
}

// shut is when a door was closed.
type shut struct {
	row, door string
	at        time.Time
}

const (
	visitor = "visitor" // the client that tries the doors
	rowSize = 100
)

func newDoors(random *rand.Rand) *doors {
	return &doors{random: random, seen: map[string]bool{}, shut: map[string]bool{}, late: map[int]time.Duration{}}
}

func at(m *machine, what string) string { return fmt.Sprint(m.id, " ", what) }

// build makes a row of doors, beside one that stays open to show the row.
func (d *doors) build(t testing.TB, m *machine) bool {
	d.rows++
	row := fmt.Sprintf("row-%d", d.rows)
	roles := []object{{"rolename": row}}
	names := []string{row}
	for i := range rowSize {
		names = append(names, fmt.Sprintf("%s-%d", row, i))
		roles = append(roles, object{"rolename": names[i+1]})
	}
	for _, name := range names {
		if !do(t, m, "POST", "/roles", object{"rolename": name, "acls": []object{
			{"acltype": "subscribePattern", "topic": name, "priority": 0, "allow": true}}}) {
			return false
		}
	}
	if !do(t, m, "PUT", "/clients", object{"username": visitor, "roles": roles}) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.row = names[1:]
	return true
}

// do tells whether a machine acknowledges a change.
func do(t testing.TB, m *machine, method, path string, body any) bool {
	status, _, err := m.api.do(t.Context(), method, m.api.at(path), body)
	return err == nil && status < 300
}

// knock tells whether the visitor may subscribe at a machine. It is not known
// where the visitor cannot come that far, or is cut off because its rights change.
func knock(t testing.TB, m *machine, door string) (open, known bool) {
	l, err := attachAs(t.Context(), m.mqtt, packet.Login{ClientID: fmt.Sprintf("%s-%d", visitor, rand.Int64()), Clean: true,
		Username: visitor, Password: passwordOf(visitor)})
	if err != nil {
		return false, false
	}
	defer l.close()
	code, err := l.subscribe(door, 1)
	return code != 0x80, err == nil
}

// turn closes the next door through a machine, and tries it at all of them.
func (d *doors) turn(t testing.TB, m *machine, all []*machine) {
	d.mu.Lock()
	row := fmt.Sprintf("row-%d", d.rows)
	if len(d.row) == 0 {
		d.mu.Unlock()
		d.build(t, m)
		return
	}
	s := shut{row: row, door: d.row[0]}
	d.row = d.row[1:]
	d.mu.Unlock()
	if !do(t, m, "DELETE", "/roles?rolename="+s.door, nil) {
		return // it may be open or not
	}
	s.at = time.Now()
	d.mu.Lock()
	d.closed = append(d.closed, s)
	d.mu.Unlock()
	if open, known := knock(t, m, s.door); known && open {
		t.Errorf("node %d acknowledged that %s is closed, and it is open there", m.id, s.door)
	}
	for _, m := range all {
		d.try(t, m, s)
	}
}

// again tries, at a machine, one of the doors that were closed, the last one more
// often.
func (d *doors) again(t testing.TB, m *machine) {
	d.mu.Lock()
	if len(d.closed) == 0 {
		d.mu.Unlock()
		return
	}
	s := d.closed[len(d.closed)-1]
	if d.random.IntN(2) == 0 {
		s = d.closed[d.random.IntN(len(d.closed))]
	}
	d.mu.Unlock()
	d.try(t, m, s)
}

func (d *doors) try(t testing.TB, m *machine, s shut) {
	if !d.hasSeen(t, m, s.row) {
		return // the machine may not have heard of the door at all
	}
	began := time.Now()
	open, known := knock(t, m, s.door)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looked++
	switch {
	case known && open && d.shut[at(m, s.door)]:
		t.Errorf("node %d lets the visitor through %s again, which was closed there", m.id, s.door)
	case known && open:
		d.late[m.id] = max(d.late[m.id], began.Sub(s.at))
	case known:
		d.shut[at(m, s.door)] = true
	}
}

// hasSeen tells whether a machine has heard of a row of doors.
func (d *doors) hasSeen(t testing.TB, m *machine, row string) bool {
	d.mu.Lock()
	seen := d.seen[at(m, row)]
	d.mu.Unlock()
	if seen {
		return true
	}
	open, known := knock(t, m, row)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[at(m, row)] = open && known
	return open && known
}

// forget gives up what is known of a machine that lost its data.
func (d *doors) forget(m *machine) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, known := range []map[string]bool{d.seen, d.shut} {
		maps.DeleteFunc(known, func(what string, _ bool) bool { return what[:len(at(m, ""))] == at(m, "") })
	}
}

// judge tries the last doors at all machines, where all must be closed now.
func (d *doors) judge(t testing.TB, machines ...*machine) {
	t.Helper()
	if len(d.closed) == 0 {
		t.Error("no door was closed")
	}
	for _, s := range slices.Backward(d.closed[max(0, len(d.closed)-10):]) {
		for _, m := range machines {
			suite.WaitFor(t, "the visitor is answered", func() bool {
				open, known := knock(t, m, s.door)
				if known && open {
					t.Errorf("node %d: %s is open at last", m.id, s.door)
				}
				return known
			})
		}
	}
	t.Logf("%d doors closed, tried %d times; still open after the acknowledgement elsewhere, at most: %v", len(d.closed), d.looked, d.late)
}
