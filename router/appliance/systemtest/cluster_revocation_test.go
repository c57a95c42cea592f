package systemtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// revocations are topics to which a user may subscribe, each by a role of its own.
// A permission is revoked once, by deleting its role. A node that has refused the topic
// must never allow it again, however the node ends and restarts.
type revocations struct {
	random *rand.Rand

	mu        sync.Mutex // guards the fields below
	batches   int
	topics    []string        // that may still be subscribed to
	revoked   []revocation    // acknowledged revocations
	batchSeen map[string]bool // by machine: batches that were allowed there
	refused   map[string]bool // by machine: topics that were refused since
	checks    int
	latest    map[int]time.Duration // by machine: longest time after the acknowledgement that a topic was allowed
}

// revocation is when a permission was revoked.
type revocation struct {
	batch, topic string
	at           time.Time
}

const (
	revocationUser = "subscriber" // the client that subscribes
	batchSize      = 100
)

func newRevocations(random *rand.Rand) *revocations {
	return &revocations{random: random, batchSeen: map[string]bool{}, refused: map[string]bool{}, latest: map[int]time.Duration{}}
}

func at(m *machine, what string) string { return fmt.Sprint(m.id, " ", what) }

// grantBatch creates a batch of topics, and one that stays allowed to show the batch.
func (d *revocations) grantBatch(t testing.TB, m *machine) bool {
	d.batches++
	batch := fmt.Sprintf("batch-%d", d.batches)
	roles := []object{{"rolename": batch}}
	names := []string{batch}
	for i := range batchSize {
		names = append(names, fmt.Sprintf("%s-%d", batch, i))
		roles = append(roles, object{"rolename": names[i+1]})
	}
	for _, name := range names {
		if !do(t, m, "POST", "/roles", object{"rolename": name, "acls": []object{
			{"acltype": "subscribePattern", "topic": name, "priority": 0, "allow": true}}}) {
			return false
		}
	}
	if !do(t, m, "PUT", "/clients", object{"username": revocationUser, "roles": roles}) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.topics = names[1:]
	return true
}

// do reports whether a machine acknowledges a change.
func do(t testing.TB, m *machine, method, path string, body any) bool {
	status, _, err := m.api.do(t.Context(), method, m.api.at(path), body)
	return err == nil && status < 300
}

// maySubscribe reports whether the user may subscribe at a machine. That is unknown if
// the user cannot connect, or is disconnected because its rights change.
func maySubscribe(t testing.TB, m *machine, topic string) (open, known bool) {
	l, err := connectMQTT(t.Context(), m.mqtt, packet.Login{ClientID: fmt.Sprintf("%s-%d", revocationUser, rand.Int64()), Clean: true,
		Username: revocationUser, Password: passwordOf(revocationUser)})
	if err != nil {
		return false, false
	}
	defer l.Close()
	code, err := l.subscribe(topic, 1)
	return code != 0x80, err == nil
}

// revokeNext revokes the next permission through a machine, and checks it at all.
func (d *revocations) revokeNext(t testing.TB, m *machine, all []*machine) {
	d.mu.Lock()
	batch := fmt.Sprintf("batch-%d", d.batches)
	if len(d.topics) == 0 {
		d.mu.Unlock()
		d.grantBatch(t, m)
		return
	}
	s := revocation{batch: batch, topic: d.topics[0]}
	d.topics = d.topics[1:]
	d.mu.Unlock()
	if !do(t, m, "DELETE", "/roles?rolename="+s.topic, nil) {
		return // it may be allowed or not
	}
	s.at = time.Now()
	d.mu.Lock()
	d.revoked = append(d.revoked, s)
	d.mu.Unlock()
	if open, known := maySubscribe(t, m, s.topic); known && open {
		t.Errorf("node %d acknowledged that %s is revoked, and allows it", m.id, s.topic)
	}
	for _, m := range all {
		d.check(t, m, s)
	}
}

// recheck checks, at a machine, one of the revoked permissions, the last one more
// often.
func (d *revocations) recheck(t testing.TB, m *machine) {
	d.mu.Lock()
	if len(d.revoked) == 0 {
		d.mu.Unlock()
		return
	}
	s := d.revoked[len(d.revoked)-1]
	if d.random.IntN(2) == 0 {
		s = d.revoked[d.random.IntN(len(d.revoked))]
	}
	d.mu.Unlock()
	d.check(t, m, s)
}

func (d *revocations) check(t testing.TB, m *machine, s revocation) {
	if !d.sawBatch(t, m, s.batch) {
		return // the machine may not know the topic yet
	}
	d.mu.Lock()
	refused := d.refused[at(m, s.topic)] // before this check began: others may check at the same time
	d.mu.Unlock()
	began := time.Now()
	open, known := maySubscribe(t, m, s.topic)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.checks++
	switch {
	case known && open && refused:
		t.Errorf("node %d allows %s again, which it had refused", m.id, s.topic)
	case known && open:
		d.latest[m.id] = max(d.latest[m.id], began.Sub(s.at))
	case known:
		d.refused[at(m, s.topic)] = true
	}
}

// sawBatch reports whether a machine has applied a batch.
func (d *revocations) sawBatch(t testing.TB, m *machine, batch string) bool {
	d.mu.Lock()
	seen := d.batchSeen[at(m, batch)]
	d.mu.Unlock()
	if seen {
		return true
	}
	open, known := maySubscribe(t, m, batch)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.batchSeen[at(m, batch)] = open && known
	return open && known
}

// forget deletes what is known of a machine that lost its data.
func (d *revocations) forget(m *machine) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, known := range []map[string]bool{d.batchSeen, d.refused} {
		maps.DeleteFunc(known, func(what string, _ bool) bool { return what[:len(at(m, ""))] == at(m, "") })
	}
}

// checkAll checks the last revocations at all machines, where all must be applied now.
func (d *revocations) checkAll(t testing.TB, machines ...*machine) {
	t.Helper()
	if len(d.revoked) == 0 {
		t.Error("no permission was revoked")
	}
	for _, s := range slices.Backward(d.revoked[max(0, len(d.revoked)-10):]) {
		for _, m := range machines {
			suite.WaitFor(t, "the subscription is acknowledged", func() bool {
				open, known := maySubscribe(t, m, s.topic)
				if known && open {
					t.Errorf("node %d: %s is still allowed in the end", m.id, s.topic)
				}
				return known
			})
		}
	}
	t.Logf("%d permissions revoked, checked %d times; still allowed after the acknowledgement elsewhere, at most: %v", len(d.revoked), d.checks, d.latest)
}
