package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
)

func event(operation string) db.AuditEvent {
	return db.AuditEvent{Time: at(10), ActorKind: "user", ActorID: "owner", ActorName: "Owner", Address: "192.0.2.1",
		RequestID: "r-" + operation, Operation: operation, Outcome: db.AuditRefused, Status: 403, Code: "FORBIDDEN", Count: 1}
}

// audit returns the rows of the log, the oldest first.
func audit(t *testing.T, d *db.DB, f db.AuditFilter) []db.AuditEvent {
	t.Helper()
	rows, err := d.ListAudit(t.Context(), f, 1000)
	must(t, err)
	slices.Reverse(rows)
	return rows
}

// outcomes returns operation and outcome of each row of the log, the oldest first.
func outcomes(t *testing.T, d *db.DB) (all []string) {
	t.Helper()
	for _, e := range audit(t, d, db.AuditFilter{}) {
		all = append(all, e.Operation+" "+e.Outcome)
	}
	return all
}

// A write stores the row of its operation in the same transaction, once.
func TestAuditWithTheChange(t *testing.T) {
	t.Parallel()
	d := world(t)
	ctx, a := db.WithAudit(t.Context(), event("createUser"))
	must(t, d.CreateUser(ctx, user("new")), d.CreateUser(ctx, user("newer")))
	must(t, d.EndAudit(ctx, a, db.AuditDone, 200, ""))
	wantEqual(t, outcomes(t, d), []string{"createUser done"})
	ctx, a = db.WithAudit(t.Context(), event("createUser"))
	wantErr(t, d.CreateUser(ctx, user("new")), db.ErrExists)
	if a.Stored() {
		t.Error("a write that failed has stored its row")
	}
	must(t, d.EndAudit(ctx, a, db.AuditFailed, 400, "ALREADY_EXISTS"))
	wantEqual(t, outcomes(t, d), []string{"createUser done", "createUser failed"})
}

// An operation that fails after its first write has a row for that, too.
func TestAuditOfAFailureAfterTheChange(t *testing.T) {
	t.Parallel()
	d := world(t)
	ctx, a := db.WithAudit(t.Context(), event("createUser"))
	must(t, d.CreateUser(ctx, user("new")), d.EndAudit(ctx, a, db.AuditFailed, 500, "INTERNAL_ERROR"))
	wantEqual(t, outcomes(t, d), []string{"createUser done", "createUser failed"})
}

// What was begun is in the chain once it has ended; as unknown if its process did not end it.
func TestAuditOfWhatIsNotHere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signalbox.db")
	d := dbtest.Open(t, path)
	for _, name := range []string{"ended", "lost"} {
		e := event(name)
		e.ProjectID = "p"
		ctx, a := db.WithAudit(t.Context(), e)
		must(t, d.BeginAudit(ctx, a))
		if name == "ended" {
			must(t, d.EndAudit(ctx, a, db.AuditDone, 204, ""))
		}
	}
	wantEqual(t, outcomes(t, d), []string{"ended done"})
	open, err := d.OpenAudits(t.Context(), "p", 10)
	must(t, err)
	if len(open) != 1 || open[0].Operation != "lost" || open[0].Outcome != db.AuditBegun {
		t.Errorf("got open rows %v", open)
	}
	for n, d := range []*db.DB{d, dbtest.Open(t, path)} { // its process may end it yet, the next one cannot
		got, err := d.CloseAudits(t.Context())
		must(t, err)
		wantEqual(t, got, n)
	}
	wantEqual(t, outcomes(t, d), []string{"ended done", "lost unknown"})
}

func TestAuditRow(t *testing.T) {
	t.Parallel()
	d := world(t)
	e := event("modifyClient")
	e.ProjectID, e.BrokerID, e.Object, e.UserAgent = "p", "b", "pump-7", strings.Repeat("x", 600)+"\xff"
	e.Change, e.Duration, e.Count, e.Time = []byte(`{"after":{"disabled":true}}`), 1500*time.Microsecond, 3, at(10).Add(time.Microsecond)
	must(t, d.AddAudit(t.Context(), e))
	got := audit(t, d, db.AuditFilter{Object: "pump-7", ProjectID: "p", BrokerID: "b", Since: at(10), Until: at(10), ActorID: "owner",
		ActorKind: "user", Address: "192.0.2.1", RequestID: "r-modifyClient", Operation: "modifyClient", Outcome: db.AuditRefused, Code: "FORBIDDEN"})
	if len(got) != 1 {
		t.Fatalf("got %d rows, want 1", len(got))
	}
	e.Seq, e.Hash, e.UserAgent, e.Time = 1, got[0].Hash, strings.Repeat("x", 512), at(10)
	wantEqual(t, got[0], e)
	for _, f := range []db.AuditFilter{{Object: "other"}, {Since: at(11)}, {Until: at(9)}, {Below: 1}} {
		if got := audit(t, d, f); len(got) != 0 {
			t.Errorf("%+v: got %v", f, got)
		}
	}
}

// Rows of many callers at once form one chain without gaps.
func TestAuditOfManyCallers(t *testing.T) {
	t.Parallel()
	d := world(t)
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			for k := range 10 {
				id := fmt.Sprintf("u%d-%d", i, k)
				ctx, a := db.WithAudit(t.Context(), event(id))
				if err := errors.Join(d.BeginAudit(ctx, a), d.CreateUser(ctx, user(id)), d.EndAudit(ctx, a, db.AuditDone, 200, "")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	v, err := d.VerifyAudit(t.Context(), nil)
	must(t, err)
	wantEqual(t, [2]int64{v.First, v.Last}, [2]int64{1, 160})
}

// chain returns a log of ten rows, and its signed states at rows 4 and 10.
func chain(t *testing.T, path string) (d *db.DB, notes []db.CheckedNote) {
	t.Helper()
	d = dbtest.Open(t, path)
	for i := range 10 {
		must(t, d.AddAudit(t.Context(), event(fmt.Sprint("op", i+1))))
		if i+1 == 4 || i+1 == 10 {
			head, err := d.AuditState(t.Context())
			must(t, err)
			notes = append(notes, db.CheckedNote{AuditHead: head})
		}
	}
	return d, notes
}

// Each kind of tampering is found at the row that it concerns.
func TestAuditTampering(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, damage string
		seq          int64
	}{
		{"changed", "UPDATE audit SET object = 'other' WHERE seq = 6", 6},
		{"removed", "DELETE FROM audit WHERE seq = 6", 6},
		{"first removed", "DELETE FROM audit WHERE seq = 1", 1},
		{"tail cut off", "DELETE FROM audit WHERE seq > 7", 8},
		{"inserted", "UPDATE audit SET seq = -seq WHERE seq > 6; UPDATE audit SET seq = 1 - seq WHERE seq < 0; INSERT INTO audit SELECT 7, time, actor_kind, actor_id, actor_name, address, user_agent, request_id, operation, project_id, broker_id, object, outcome, status, code, change, duration, count, hash FROM audit WHERE seq = 6", 7},
		{"swapped", "UPDATE audit SET operation = CASE seq WHEN 6 THEN 'op7' ELSE 'op6' END, request_id = CASE seq WHEN 6 THEN 'r-op7' ELSE 'r-op6' END WHERE seq IN (6, 7)", 6},
		{"swapped with hashes", "UPDATE audit SET seq = 1000 WHERE seq = 6; UPDATE audit SET seq = 6 WHERE seq = 7; UPDATE audit SET seq = 7 WHERE seq = 1000", 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "signalbox.db")
			d, notes := chain(t, path)
			v, err := d.VerifyAudit(t.Context(), notes)
			must(t, err)
			wantEqual(t, [3]int64{v.First, v.Last, int64(v.Checkpoints)}, [3]int64{1, 10, 2})
			raw, err := sql.Open("sqlite", path)
			must(t, err)
			_, err = raw.ExecContext(t.Context(), "PRAGMA ignore_check_constraints = 1; "+c.damage)
			must(t, err, raw.Close())
			_, err = d.VerifyAudit(t.Context(), notes)
			damage, ok := errors.AsType[*db.AuditDamage](err)
			if !ok || damage.Seq != c.seq {
				t.Errorf("got %v, want damage at row %d", err, c.seq)
			}
		})
	}
}

// A log that was written anew as a whole differs from a signed state.
func TestAuditWrittenAnew(t *testing.T) {
	t.Parallel()
	_, notes := chain(t, filepath.Join(t.TempDir(), "signalbox.db"))
	d := world(t)
	for range 10 {
		must(t, d.AddAudit(t.Context(), event("other")))
	}
	_, err := d.VerifyAudit(t.Context(), notes)
	if damage, ok := errors.AsType[*db.AuditDamage](err); !ok || damage.Seq != 4 {
		t.Errorf("got %v, want damage at row 4", err)
	}
}

// Old rows go, and the chain goes on from the state that stands for them.
func TestAuditCut(t *testing.T) {
	t.Parallel()
	d := world(t)
	for i := range 10 {
		e := event(fmt.Sprint("op", i+1))
		e.Time = at(int64(i))
		must(t, d.AddAudit(t.Context(), e))
	}
	_, err := d.AuditCut(t.Context(), at(-1), 10)
	wantErr(t, err, db.ErrNotFound)
	var anchors []db.CheckedNote
	cut := func(before time.Time, rows, want int64) {
		t.Helper()
		head, err := d.AuditCut(t.Context(), before, rows)
		must(t, err)
		wantEqual(t, head.Seq, want)
		must(t, d.CutAudit(t.Context(), db.AuditCheckpoint{AuditHead: head, Time: at(20), Note: "signed"}))
		anchors = append(anchors, db.CheckedNote{AuditHead: head, Anchor: true})
	}
	cut(at(3), 100, 3)
	cut(at(0), 5, 5)
	v, err := d.VerifyAudit(t.Context(), anchors)
	must(t, err)
	wantEqual(t, [2]int64{v.First, v.Last}, [2]int64{6, 10})
	cut(at(100), 100, 10)
	must(t, d.AddAudit(t.Context(), event("next")))
	v, err = d.VerifyAudit(t.Context(), anchors)
	must(t, err)
	wantEqual(t, [2]int64{v.First, v.Last}, [2]int64{11, 11})
	points, err := d.AuditCheckpoints(t.Context())
	must(t, err)
	if len(points) != 1 || !points[0].Anchor || points[0].Seq != 10 {
		t.Errorf("got %+v", points)
	}
}

// A context that ends does not leave the outcome of a row open.
func TestAuditOfACallerWhoLeaves(t *testing.T) {
	t.Parallel()
	d := world(t)
	ctx, cancel := context.WithCancel(t.Context())
	ctx, a := db.WithAudit(ctx, event("op"))
	cancel()
	must(t, d.BeginAudit(ctx, a), d.EndAudit(ctx, a, db.AuditUnknown, 503, ""))
	wantEqual(t, outcomes(t, d), []string{"op unknown"})
}
