package storage

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// errTestClosed is the error of submissions after Close.
var errTestClosed = errors.New("closed")

// testCommitter is a committer of notes. A note is stored under its number; one
// that begins with "owed" is deferred while nothing can be stored.
type testCommitter struct {
	*Committer[note]
	t        *testing.T
	file     *File
	conn     *Conn
	deferred []note
	log      strings.Builder // read after the committer has ended, or within a bubble

	mu       sync.Mutex
	outcomes []string
	groups   []int // sizes of the groups that were written
}

type note struct {
	in   *testCommitter
	id   int
	body string
}

// Committed records the outcome.
func (n note) Committed(err error) {
	n.in.mu.Lock()
	defer n.in.mu.Unlock()
	n.in.outcomes = append(n.in.outcomes, fmt.Sprint(n.body, " ", err))
}

// The indexes of the committer's statements.
const (
	insertNote = iota
	probeInsert
	probeDelete
)

func newTestCommitter(t *testing.T, l Limits) *testCommitter {
	t.Helper()
	f := open(t, filepath.Join(t.TempDir(), "notes.db"))
	conn, err := f.Connect(t.Context(), Process, []string{
		insertNote:  `INSERT INTO note (id, body) VALUES (?, ?)`,
		probeInsert: `INSERT INTO note (id, body) VALUES (0, zeroblob(?))`,
		probeDelete: `DELETE FROM note WHERE id = 0`,
	})
	must(t, err)
	c := &testCommitter{t: t, file: f, conn: conn}
	c.Committer = NewCommitter[note](Config{
		Conn: conn, Log: slog.New(slog.NewTextHandler(&c.log, nil)), Now: time.Now, Contents: "the notes",
		Limits: l, ProbeInsert: probeInsert, ProbeDelete: probeDelete, Closed: errTestClosed,
	})
	c.Start(Callbacks[note]{Write: c.write, Omit: c.omit, Refuse: c.refuse, Resume: c.resume, End: c.end})
	return c
}

func (c *testCommitter) write(tx Tx, group []note) error {
	c.groups = append(c.groups, len(group))
	for _, n := range group {
		if err := tx.Exec(insertNote, []driver.Value{int64(n.id), n.body}...); err != nil {
			return err
		}
	}
	return nil
}

func (c *testCommitter) omit([]note, error) error { return errors.New("omitted") }

func (c *testCommitter) refuse(group []note) (refused []note) {
	for _, n := range group {
		if strings.HasPrefix(n.body, "owed") {
			c.deferred = append(c.deferred, n)
		} else {
			refused = append(refused, n)
		}
	}
	return refused
}

func (c *testCommitter) resume() error {
	if err := c.Probe(); err != nil {
		return err
	}
	rest, err := c.Commit(c.deferred)
	c.deferred = rest
	return err
}

func (c *testCommitter) end() error {
	if len(c.deferred) > 0 {
		return fmt.Errorf("%d notes are lost", len(c.deferred))
	}
	return nil
}

func (c *testCommitter) put(id int, body string) {
	c.Put(Submission[note]{Entry: note{c, id, body}, Weight: 1})
}

// close closes the committer and the file.
func (c *testCommitter) close() error {
	return errors.Join(c.Close(context.Background(), c.conn.Close), c.file.Close())
}

// wantOutcomes compares what was reported, in order.
func (c *testCommitter) wantOutcomes(want ...string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.outcomes, want) {
		c.t.Errorf("reported %q, want %q", c.outcomes, want)
	}
	c.outcomes = nil
}

// TestCommitGroups submits while the file is locked: what waits then is one
// transaction, in order, after what was put first. A task runs alone.
func TestCommitGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestCommitter(t, Limits{GroupEntries: 3})
		must(t, c.file.Lock(t.Context()))
		c.put(1, "alone")
		synctest.Wait()
		for id := range 4 {
			c.put(id+2, fmt.Sprint("n", id))
		}
		c.Put(Submission[note]{Task: func() { c.Finish([]note{{in: c, body: "task"}}, nil) }})
		c.put(6, "behind")
		c.PutFirst(note{c, 7, "first"})
		c.file.Unlock()
		must(t, c.close())
		c.wantOutcomes("alone <nil>", "first <nil>", "n0 <nil>", "n1 <nil>", "n2 <nil>", "n3 <nil>", "task <nil>", "behind <nil>")
		if want := []int{1, 4, 1, 1}; !slices.Equal(c.groups, want) {
			t.Errorf("wrote groups of %v, want %v", c.groups, want)
		}
	})
}

// TestCommitContradiction omits the one note that contradicts what is stored.
func TestCommitContradiction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestCommitter(t, Limits{GroupEntries: 10})
		must(t, c.file.Lock(t.Context()))
		c.put(1, "a")
		synctest.Wait()
		c.put(2, "b")
		c.put(1, "again")
		c.put(3, "c")
		c.file.Unlock()
		synctest.Wait()
		c.put(2, "alone")
		synctest.Wait()
		c.wantOutcomes("a <nil>", "b <nil>", "again omitted", "c <nil>", "alone omitted")
		must(t, c.Err(), c.close())
	})
}

// TestCommitFailure refuses notes while nothing can be stored, stores the
// deferred ones when the failure has passed, and logs both once.
func TestCommitFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTestCommitter(t, Limits{GroupEntries: 10})
		set := func(q string) {
			_, err := c.conn.SQL().ExecContext(t.Context(), q)
			must(t, err)
		}
		c.put(1, "a")
		synctest.Wait()
		set(`PRAGMA query_only = 1`)
		for id, body := range []string{"b", "owed d", "owed e", "f"} {
			c.put(id+2, body)
			synctest.Wait()
		}
		cause := c.Err()
		if cause == nil || !strings.Contains(cause.Error(), "permissions") {
			t.Errorf("got %v, want a sentence about permissions", cause)
		}
		<-time.After(3 * ProbeInterval)
		c.wantOutcomes("a <nil>", fmt.Sprint("b ", cause), fmt.Sprint("f ", cause))
		set(`PRAGMA query_only = 0`)
		c.Retry()
		synctest.Wait()
		c.wantOutcomes("owed d <nil>", "owed e <nil>")
		must(t, c.Err())
		set(`PRAGMA query_only = 1`)
		c.put(10, "owed g")
		synctest.Wait()
		if err := c.close(); err == nil || !strings.Contains(err.Error(), "1 notes are lost") {
			t.Errorf("closed with %v", err)
		}
		if got := strings.Count(c.log.String(), "the notes cannot be stored"); got != 2 {
			t.Errorf("the log has %d failures, want 2:\n%s", got, c.log.String())
		}
		if got := strings.Count(c.log.String(), "the notes can be stored again"); got != 1 {
			t.Errorf("the log has %d recoveries, want 1:\n%s", got, c.log.String())
		}
	})
}

// TestCommitBounds waits for capacity in entries and in weight, until there is
// some, the context ends or the committer is closed.
func TestCommitBounds(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]Limits{
		"entries": {GroupEntries: 10, Entries: 2}, "weight": {GroupEntries: 10, Pending: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { commitBounds(t, l) })
		})
	}
}

func commitBounds(t *testing.T, l Limits) {
	c := newTestCommitter(t, l)
	must(t, c.file.Lock(t.Context()))
	c.put(1, "a")
	if c.WaitForCapacity(); c.Full() {
		t.Error("one entry fills the queue")
	}
	c.put(2, "b")
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.Reserve(ended, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("reserved with %v", err)
	}
	waiting := make(chan error, 2)
	go func() { waiting <- c.Reserve(t.Context(), 1) }()
	go func() { c.WaitForCapacity(); waiting <- nil }()
	synctest.Wait()
	if len(waiting) > 0 {
		t.Error("there is capacity although nothing was committed")
	}
	c.file.Unlock()
	must(t, <-waiting, <-waiting)
	if !c.PutReserved(Submission[note]{Entry: note{c, 3, "c"}, Weight: 1}) {
		t.Error("what was reserved is refused")
	}
	synctest.Wait()
	must(t, c.Reserve(t.Context(), 2))
	c.Release(2)
	if c.Full() {
		t.Error("what was released still counts")
	}
	must(t, c.close())
	if c.Put(Submission[note]{}) || !errors.Is(c.Reserve(t.Context(), 1), errTestClosed) {
		t.Error("takes more after it was closed")
	}
	c.wantOutcomes("a <nil>", "b <nil>", "c <nil>")
}

// TestCommitDeferred commits what is deferred when it is due, with what is not deferred, when there
// is much of it, and before the committer ends.
func TestCommitDeferred(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const gather = 10 * time.Millisecond
		c := newTestCommitter(t, Limits{GroupEntries: 10})
		c.config.Gather = gather
		id := 0
		put := func(body string, weight int) {
			id++
			c.Put(Submission[note]{Entry: note{c, id, body}, Weight: weight, Deferred: true})
			synctest.Wait()
		}
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		put("a", 1)
		wait(gather - 1)
		put("b", 1)
		c.wantOutcomes()
		wait(1)
		c.wantOutcomes("a <nil>")
		wait(gather)
		c.wantOutcomes("b <nil>")
		c.PutFirst(note{c, 10, "first"})
		wait(gather / 2)
		put("c", 1)
		c.wantOutcomes()
		c.put(11, "now")
		synctest.Wait()
		c.wantOutcomes("first <nil>", "c <nil>", "now <nil>")
		put("d", 1)
		put("much", gatherWeight)
		c.wantOutcomes("d <nil>", "much <nil>")
		put("e", 1)
		c.Put(Submission[note]{Task: func() {}})
		synctest.Wait()
		c.wantOutcomes("e <nil>")
		put("f", 1)
		c.PutFirst(note{c, 12, "last"})
		must(t, c.close())
		c.wantOutcomes("last <nil>", "f <nil>")
		if want := []int{1, 1, 3, 2, 1, 2}; !slices.Equal(c.groups, want) {
			t.Errorf("wrote groups of %v, want %v", c.groups, want)
		}
	})
}

// TestCommitDeferredBesideFirst submits a deferred entry when another one, submitted by PutFirst, is due and
// not taken yet.
func TestCommitDeferredBesideFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCommitter[note](Config{Gather: time.Millisecond, Limits: Limits{GroupEntries: 10}})
		c.PutFirst(note{id: 1})
		taken := 0
		for range 5 {
			select {
			case <-c.gather.C:
				c.ripen()
			case <-time.After(time.Second):
			}
			if taken == 0 {
				c.Put(Submission[note]{Entry: note{id: 2}, Weight: 1, Deferred: true})
			}
			taken += len(c.take().group)
		}
		if taken != 2 {
			t.Errorf("%d of 2 entries were taken", taken)
		}
	})
}

// TestTally returns the sum at first and then once a minute.
func TestTally(t *testing.T) {
	t.Parallel()
	var sum Tally
	at := time.Unix(1000, 0)
	for _, step := range []struct {
		after   time.Duration
		n, want int64
	}{{0, 0, 0}, {0, 2, 2}, {time.Second, 3, 0}, {58 * time.Second, 0, 0}, {time.Second, 1, 4}, {time.Hour, 0, 0}} {
		at = at.Add(step.after)
		if got := sum.Add(step.n, func() time.Time { return at }); got != step.want {
			t.Errorf("%d after %v: got %d, want %d", step.n, step.after, got, step.want)
		}
	}
}
