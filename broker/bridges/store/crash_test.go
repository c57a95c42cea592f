package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/storage"
	"signalbox/broker/storage/storagetest"
)

const (
	crashPath   = "BRIDGES_CRASH_PATH"  // set in the process that is killed
	crashKills  = "BRIDGES_CRASH_KILLS" // number of kills by TestCampaignKill; six by default
	crashQueues = 3                     // queues of the process
)

// reported is what the processes reported about a queue before they were killed. An entry's ID is
// the number of its message.
type reported struct {
	settled  uint64 // all up to here are stored
	taken    uint64 // all up to here may have been removed or rejected
	removed  uint64 // all up to here were removed or rejected durably
	rejected []uint64
	unused   []idRange // reserved by a process that was killed, but for some that were not settled
}

// isUnused reports whether no settled entry had an ID.
func (x *reported) isUnused(id uint64) bool {
	return slices.ContainsFunc(x.unused, func(s idRange) bool { return s.from <= id && id < s.to })
}

// TestCampaignKill repeatedly kills a process that puts, removes and rejects entries and changes
// the configuration, on the same file. Entries that it reported as settled must exist when the
// file is opened again, in order, and entries that it reported as removed must not.
func TestCampaignKill(t *testing.T) {
	t.Parallel()
	kills := 6
	if s := os.Getenv(crashKills); s != "" {
		n, err := strconv.Atoi(s)
		must(t, err)
		kills = n
	}
	path := filepath.Join(t.TempDir(), "bridges.db")
	var all [crashQueues]reported
	for range kills {
		runAndKill(t, path, &all)
		verifyAll(t, path, all)
		if t.Failed() {
			return
		}
	}
	s := open(t, filepath.Dir(path), Options{})
	defer shut(t, s)
	checkStore(t, s)
	t.Logf("%d kills, %+v settled and %+v removed of a queue", kills, all[0].settled, all[0].removed)
}

// runAndKill runs a process until it has reported some events, and kills it.
func runAndKill(t *testing.T, path string, all *[crashQueues]reported) {
	t.Helper()
	said, killAfter := 0, 1+rand.IntN(400)+max(0, rand.IntN(8000)-6000)
	storagetest.Kill(t, crashPath+"="+path, func(line string) (kill bool) {
		var what string
		var queue int
		var id uint64
		if _, err := fmt.Sscanf(line, "%s %d %d", &what, &queue, &id); err != nil {
			t.Fatalf("the process says %q", line)
		}
		x := &all[queue]
		switch what {
		case "begun":
			if id <= x.taken {
				t.Errorf("queue %d: ID %d is used again, and %d was delivered", queue, id, x.taken)
			}
			x.unused = append(x.unused, idRange{x.settled + 1, id})
		case "settled":
			x.settled = max(x.settled, id)
		case "taken":
			x.taken = max(x.taken, id)
		case "removed":
			x.removed = max(x.removed, id)
		case "rejected":
			x.rejected = append(x.rejected, id)
		}
		said++
		return said == killAfter
	})
}

// verifyAll opens the file after a kill and checks it.
func verifyAll(t *testing.T, path string, all [crashQueues]reported) {
	t.Helper()
	s := open(t, filepath.Dir(path), Options{})
	defer shut(t, s)
	for i, x := range all {
		verify(t, s, i, x)
	}
	verifyConfig(t, s)
	checkMemory(t, s)
}

// verify checks a queue.
func verify(t *testing.T, s *Store, i int, x reported) {
	t.Helper()
	o, err := s.Queue(t.Context(), "b", "x", fmt.Sprint("q", i), unbounded)
	if err != nil {
		if x.settled > 0 {
			t.Errorf("queue %d had messages and is gone: %v", i, err)
		}
		return
	}
	q := o.(*Queue)
	_, dead, err := q.DeadLetters(t.Context(), 0, 1<<20)
	must(t, err)
	where := map[uint64]string{}
	for _, d := range dead {
		id, _ := strconv.ParseUint(d.ID, 10, 64)
		where[id] = "a dead letter"
	}
	for _, e := range peek(t, q, 0) {
		if string(e.Payload) != fmt.Sprint("payload ", e.ID) || where[e.ID] != "" || e.ID <= x.removed {
			t.Errorf("queue %d, %d removed: entry %d holds %q and is %s", i, x.removed, e.ID, e.Payload, where[e.ID])
		}
		where[e.ID] = "held"
	}
	for id := x.taken + 1; id <= x.settled; id++ {
		if where[id] != "held" && id%crashRejects != 0 && !x.isUnused(id) {
			t.Errorf("queue %d: entry %d was settled and is lost", i, id)
		}
	}
	for _, id := range x.rejected {
		if where[id] != "a dead letter" {
			t.Errorf("queue %d: entry %d was rejected and is %q", i, id, where[id])
		}
	}
	wantNoGap(t, i, where, &x)
}

// wantNoGap checks that no entry is missing between the first and the last one.
func wantNoGap(t *testing.T, i int, where map[uint64]string, x *reported) {
	t.Helper()
	var held []uint64
	for id, w := range where {
		if w == "held" {
			held = append(held, id)
		}
	}
	slices.Sort(held)
	for n := 1; n < len(held); n++ {
		for id := held[n-1] + 1; id < held[n]; id++ {
			if where[id] == "" && id%crashRejects != 0 && !x.isUnused(id) {
				t.Errorf("queue %d: entry %d is missing between %d and %d", i, id, held[n-1], held[n])
			}
		}
	}
}

// verifyConfig checks that exactly the queues of the configuration exist.
func verifyConfig(t *testing.T, s *Store) {
	t.Helper()
	configs, err := s.Configs(t.Context(), "b")
	must(t, err)
	var want []string
	if configs["x"] != nil {
		must(t, json.Unmarshal(configs["x"], &want))
	}
	rows, err := s.reader.db.QueryContext(t.Context(), `SELECT connection FROM queue WHERE gone = 0 ORDER BY connection`)
	must(t, err)
	defer rows.Close()
	var got []string
	for rows.Next() {
		var name string
		must(t, rows.Scan(&name))
		got = append(got, name)
	}
	must(t, rows.Err())
	if !slices.Equal(got, want) {
		t.Errorf("the configuration names %v, and there are %v", want, got)
	}
}

// crashRejects determines which entries are rejected.
const crashRejects = 97

// unbounded are bounds that are never reached.
var unbounded = bridges.Bounds{DeadLetters: 1 << 40}

// worker is the process that TestCampaignKill kills.
type worker struct {
	*Store
	ctx context.Context
}

// workUntilKilled continues after the stored entries, and reports what it does.
func workUntilKilled(path string) {
	ctx := context.Background()
	s, err := Open(ctx, path, Options{Durability: storage.Process, Seal: newSealer(1)})
	try(err)
	w := &worker{s, ctx}
	w.configure(crashQueues)
	for i := range crashQueues {
		q, err := s.Queue(ctx, "b", "x", fmt.Sprint("q", i), unbounded)
		try(err)
		slots := make(chan struct{}, 5000)
		for range q.Usage().Messages {
			slots <- struct{}{}
		}
		go w.put(i, q.(*Queue), slots)
		go w.deliver(i, q.(*Queue), slots)
	}
	for n := 0; ; n++ {
		w.configure(crashQueues + n%3)
		if n%3 == 0 {
			continue
		}
		q, err := s.Queue(ctx, "b", "x", fmt.Sprint("q", crashQueues+n%3-1), unbounded)
		try(err)
		for range 100 {
			q.Put(entry(1), nil)
		}
		try(q.Close(ctx))
	}
}

func try(err error) {
	if err != nil {
		panic(err)
	}
}

// configure configures n connections.
func (w *worker) configure(n int) {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("q", i))
	}
	doc, err := json.Marshal(names)
	try(err)
	try(w.PutConfig(w.ctx, "b", "x", doc, names))
}

func report(what string, queue int, id uint64) { fmt.Fprintln(os.Stdout, what, queue, id) }

// put puts entries whose number is their ID, as long as deliver keeps up.
func (w *worker) put(i int, q *Queue, slots chan<- struct{}) {
	t, _ := q.state.snapshot()
	report("begun", i, t.next)
	for id := t.next; ; id++ {
		slots <- struct{}{}
		e := entry(int(id))
		if rand.IntN(50) == 0 {
			e.ClientID = strings.Repeat("c", 20_000)
		}
		q.Put(e, func(err error) {
			try(err)
			if id%20 == 0 {
				report("settled", i, id)
			}
		})
	}
}

// deliver removes entries in order, or makes dead letters from them.
func (w *worker) deliver(i int, q *Queue, slots <-chan struct{}) {
	for {
		list, err := q.Peek(w.ctx, 0, 1+rand.IntN(200), 1<<20)
		try(err)
		if len(list) == 0 {
			<-q.Ready()
			continue
		}
		last := list[len(list)-1].ID
		report("taken", i, last)
		var ids []uint64
		for _, e := range list {
			if e.ID%crashRejects != 0 {
				ids = append(ids, e.ID)
				continue
			}
			try(q.Reject(w.ctx, []bridges.Rejection{{ID: e.ID, Reason: "no", At: time.Now()}}))
			report("rejected", i, e.ID)
		}
		q.Remove(ids)
		for range list {
			<-slots
		}
		if rand.IntN(3) == 0 {
			try(q.do(w.ctx, func(*committer) error { return nil }))
			report("removed", i, last)
		}
	}
}
