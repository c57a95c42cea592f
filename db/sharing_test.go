package db_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/scripts/suite"
)

// gate is a log that keeps proposals until it is opened, for a copy of a fleet.
type gate struct {
	db.Log
	arrived chan int      // the length of each entry
	open    chan struct{} // one element for each that may go on
}

func newGate(log db.Log) *gate {
	return &gate{Log: log, arrived: make(chan int, 1000), open: make(chan struct{}, 1000)}
}

func (g *gate) Propose(ctx context.Context, entry []byte) ([]byte, error) {
	g.arrived <- len(entry)
	select {
	case <-g.open:
		return g.Log.Propose(ctx, entry)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestSharedGroup writes several things while an entry is proposed: they share the next one.
func TestSharedGroup(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	g := newGate(f.nodes[0])
	d := f.nodes[0].d
	must(t, d.Share(t.Context(), g))
	var writes sync.WaitGroup
	write := func(what string, fn func() error) {
		writes.Go(func() {
			if err := fn(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	write("first", func() error { return d.CreateProject(t.Context(), project("first", "owner")) })
	<-g.arrived
	for i := range 20 {
		id := fmt.Sprint("next", i)
		write(id, func() error { return d.CreateProject(t.Context(), project(id, "owner")) })
		write("row", func() error { return d.AddAudit(t.Context(), db.AuditEvent{Time: time.Now(), Operation: id}) })
	}
	writes.Go(func() {
		if err := d.CreateProject(t.Context(), project("first", "owner")); !errors.Is(err, db.ErrExists) {
			t.Errorf("got %v for a project that exists", err)
		}
	})
	suite.Eventually(t, func() error {
		if n := d.WaitingWrites(); n != 41 {
			return fmt.Errorf("%d writes wait", n)
		}
		return nil
	})
	close(g.open)
	writes.Wait()
	if n := f.proposals(); n != 2 {
		t.Errorf("42 writes took %d entries, want 2", n)
	}
	must(t, d.Share(t.Context(), f.nodes[0]))
	f.settle()
}

// TestSharedLeave ends contexts of writes: one that is in the log may have happened, one that
// waits has not.
func TestSharedLeave(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	g := newGate(f.nodes[0])
	d := f.nodes[0].d
	must(t, d.Share(t.Context(), g))
	ctx, cancel := context.WithCancel(t.Context())
	var writes sync.WaitGroup
	outcome := map[string]error{}
	var mu sync.Mutex
	write := func(id string, fn func() error) {
		writes.Go(func() {
			err := fn()
			mu.Lock()
			defer mu.Unlock()
			outcome[id] = err
		})
	}
	write("proposed", func() error { return d.CreateProject(ctx, project("proposed", "owner")) })
	<-g.arrived
	write("waiting", func() error { return d.CreateProject(ctx, project("waiting", "owner")) })
	write("nothing", func() error { return d.DeleteSession(ctx, "none") })
	suite.Eventually(t, func() error {
		if n := d.WaitingWrites(); n != 2 {
			return fmt.Errorf("%d writes wait", n)
		}
		return nil
	})
	cancel()
	writes.Wait()
	wantErr(t, outcome["proposed"], db.ErrUnconfirmed)
	wantErr(t, outcome["waiting"], context.Canceled)
	wantErr(t, outcome["nothing"], context.Canceled)
	if errors.Is(outcome["waiting"], db.ErrUnconfirmed) {
		t.Errorf("got %v for a write that waited", outcome["waiting"])
	}
	close(g.open)
	must(t, d.CreateProject(t.Context(), project("later", "owner")))
	must(t, d.Share(t.Context(), f.nodes[0]))
	f.settle()
	_, err := d.GetProject(t.Context(), "proposed")
	wantErr(t, err, nil) // it was on its way
	_, err = d.GetProject(t.Context(), "waiting")
	wantErr(t, err, db.ErrNotFound)
}

// TestSharedRefusalIsCurrent asks a copy that is behind for what would fail on its content, and
// for what would change nothing there.
func TestSharedRefusalIsCurrent(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	ctx := t.Context()
	f.set(func() { f.nodes[1].hold = true })
	must(t, f.nodes[0].d.CreateSession(ctx, session("s", "owner")), f.nodes[0].d.CreateToken(ctx, token("t", "p")))
	errs := make(chan error, 2)
	before := f.proposals()
	go func() { errs <- f.nodes[1].d.DeleteSession(ctx, "s") }()
	f.wait("the proposal", func() bool { return len(f.log) > before })
	f.set(func() { f.nodes[1].hold = false })
	must(t, <-errs)
	if _, _, err := f.nodes[1].d.SessionUser(ctx, "s", at(8)); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("got %v for a session that was deleted", err)
	}
	f.set(func() { f.nodes[1].hold = true })
	must(t, f.nodes[0].d.CreateUser(ctx, user("new")))
	before = f.proposals()
	go func() { errs <- f.nodes[1].d.DeleteUser(ctx, "new") }()
	f.wait("the proposal", func() bool { return len(f.log) > before })
	f.set(func() { f.nodes[1].hold = false })
	must(t, <-errs)
	f.settle()
}

// slowLog proposes entries of a copy only after others have changed the content.
type slowLog struct {
	*copyNode
	other *copyNode
	tries int
}

func (s *slowLog) Propose(ctx context.Context, entry []byte) ([]byte, error) {
	s.tries++
	f := s.f
	f.mu.Lock()
	from := len(f.log)
	stop := context.AfterFunc(ctx, func() { f.set(func() {}) })
	for !s.reservedSince(from) && len(f.log) < from+3 && ctx.Err() == nil {
		f.cond.Wait()
	}
	f.mu.Unlock()
	stop()
	return s.copyNode.Propose(ctx, entry)
}

// reservedSince reports whether the other copy was refused a change.
func (s *slowLog) reservedSince(from int) bool {
	for i := from; i < len(s.f.log); i++ {
		if r := s.other.results[uint64(i+1)]; len(r) == 1 && r[0] == 3 {
			return true
		}
	}
	return false
}

// TestSharedFairness writes without end at one copy, and once at another one, which is slower.
func TestSharedFairness(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	slow := &slowLog{copyNode: f.nodes[1], other: f.nodes[0]}
	must(t, f.nodes[1].d.Share(t.Context(), slow))
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := f.nodes[0].d.AddAudit(t.Context(), db.AuditEvent{Time: time.Now(), Operation: fmt.Sprint(i)}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	must(t, f.nodes[1].d.CreateProject(t.Context(), project("slow", "owner")))
	close(stop)
	busy.Wait()
	if slow.tries > 8 {
		t.Errorf("the slow copy tried %d times", slow.tries)
	}
	must(t, f.nodes[1].d.Share(t.Context(), f.nodes[1]))
	f.settle()
}

// TestSharedMember opens a database that is shared: it cannot be changed without the log. One
// whose sharing has ended can.
func TestSharedMember(t *testing.T) {
	t.Parallel()
	path, ctx := filepath.Join(t.TempDir(), "signalbox.db"), t.Context()
	f := newFleet(t, 1)
	d, err := db.Open(ctx, path, slog.New(slog.DiscardHandler))
	must(t, err, restoreFrom(t, f.nodes[0].d, d, 7))
	wantEqual(t, d.AppliedIndex(), uint64(7))
	wantErr(t, d.CreateUser(ctx, user("u")), db.ErrUnavailable)
	wantErr(t, d.AddAudit(ctx, db.AuditEvent{Time: at(1)}), db.ErrUnavailable)
	must(t, d.Close(ctx))
	d = dbtest.Open(t, path)
	wantEqual(t, d.AppliedIndex(), uint64(7))
	wantErr(t, d.CreateUser(ctx, user("u")), db.ErrUnavailable)
	_, err = d.OpenAuditSinks(ctx, []string{"a"})
	must(t, err, d.Ping(ctx), d.PutAuditSink(ctx, db.AuditSink{Name: "a"}, db.AuditSink{Name: "a", Seq: 7}))
	must(t, d.Unshare(ctx), d.CreateUser(ctx, user("u")))
	wantEqual(t, d.AppliedIndex(), uint64(0))
}

// TestSharedEnd ends the sharing while writes wait.
func TestSharedEnd(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	g := newGate(f.nodes[0])
	d := f.nodes[0].d
	must(t, d.Share(t.Context(), g))
	errs := make(chan error, 2)
	go func() { errs <- d.CreateProject(t.Context(), project("proposed", "owner")) }()
	<-g.arrived
	must(t, d.Unshare(t.Context()))
	wantErr(t, <-errs, db.ErrUnconfirmed)
	must(t, d.CreateProject(t.Context(), project("later", "owner")))
	_, err := d.GetProject(t.Context(), "proposed")
	wantErr(t, err, db.ErrNotFound)
}

// TestSharedTooLarge stores more than an entry holds.
func TestSharedTooLarge(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	b := connection("large", "p")
	b.Secrets = make([]byte, 8<<20)
	wantErr(t, f.nodes[0].d.CreateBroker(t.Context(), b), db.ErrTooLarge)
	b.Secrets = make([]byte, 6<<20)
	must(t, f.nodes[0].d.CreateBroker(t.Context(), b))
	got, err := f.nodes[0].d.GetBroker(t.Context(), "p", "large")
	must(t, err)
	wantEqual(t, len(got.Secrets), len(b.Secrets))
}
