package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// box seals by adding its key.
type box struct{ key string }

func (b box) Seal(plain, _ []byte) []byte { return append([]byte(b.key), plain...) }

func (b box) Unseal(sealed, _ []byte) ([]byte, error) {
	plain, ok := strings.CutPrefix(string(sealed), b.key)
	if !ok {
		return nil, errors.New("sealed with another key")
	}
	return []byte(plain), nil
}

func open(t *testing.T, d *db.DB, key string, cfg Config) *Log {
	t.Helper()
	l, err := Open(t.Context(), d, box{key}, cfg, time.Now, slog.New(slog.DiscardHandler))
	must(t, err)
	return l
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func add(t *testing.T, d *db.DB, n int) {
	t.Helper()
	for i := range n {
		must(t, d.AddAudit(t.Context(), Event{Time: time.Now(), Operation: fmt.Sprint("op", i), Outcome: Done}))
	}
}

// A log that goes on after its key was lost is verified with both keys.
func TestKeyIsReplaced(t *testing.T) {
	t.Parallel()
	d, ctx := dbtest.New(t), t.Context()
	for _, key := range []string{"first", "first", "second"} {
		l := open(t, d, key, Config{})
		add(t, d, 3)
		must(t, l.Close(ctx))
	}
	keys, err := d.AuditKeys(ctx)
	must(t, err)
	if len(keys) != 2 || keys[1].Secrets != nil {
		t.Errorf("got keys %v, want two, the older one without its private part", keys)
	}
	v, err := Verify(ctx, d, "")
	must(t, err)
	if v.Last != 9 || v.Checkpoints != 3 {
		t.Errorf("got %+v, want 9 rows and 3 checkpoints", v)
	}
	if _, err := Verify(ctx, d, keys[0].Public); err == nil {
		t.Error("checkpoints of another key were accepted")
	}
}

// A checkpoint that was kept elsewhere finds rows that are missing at the end, and one of
// another log is refused.
func TestCheckpointKeptElsewhere(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "signalbox.db")
	d := dbtest.Open(t, path)
	l := open(t, d, "key", Config{})
	add(t, d, 5)
	c, err := l.Checkpoint(ctx)
	must(t, err)
	v, err := Verify(ctx, d, "", []byte(c.Note))
	must(t, err)
	if v.Last != 5 {
		t.Errorf("got %+v", v)
	}
	other := dbtest.New(t)
	m := open(t, other, "key", Config{})
	add(t, other, 3)
	if _, err := Verify(ctx, other, "", []byte(c.Note)); err == nil {
		t.Error("the checkpoint of another log was accepted")
	}
	keys, err := d.AuditKeys(ctx)
	must(t, err)
	must(t, other.AddAuditKey(ctx, keys[0]))
	if _, err := Verify(ctx, other, "", []byte(c.Note)); !isDamage(err, 4) {
		t.Errorf("got %v, want damage at row 4", err)
	}
	must(t, l.Close(ctx), m.Close(ctx))
}

func isDamage(err error, seq int64) bool {
	d, ok := errors.AsType[*db.AuditDamage](err)
	return ok && d.Seq == seq
}

// Old rows are deleted, what is left is verified, and an ordinary checkpoint cannot be made
// one that stands for deleted rows.
func TestOldRowsAreDeleted(t *testing.T) {
	t.Parallel()
	d, ctx := dbtest.New(t), t.Context()
	l := open(t, d, "key", Config{MaxRows: 4})
	add(t, d, 6)
	_, err := l.Checkpoint(ctx)
	must(t, err)
	add(t, d, 4)
	l.tidy(ctx)
	v, err := Verify(ctx, d, "")
	must(t, err)
	if v.First != 7 || v.Last != 10 {
		t.Errorf("got %+v, want rows 7 to 10", v)
	}
	c, err := l.Checkpoint(ctx)
	must(t, err)
	must(t, d.CutAudit(ctx, c))
	if _, err := Verify(ctx, d, ""); !isDamage(err, 10) {
		t.Errorf("got %v, want damage at row 10: the checkpoint does not stand for deleted rows", err)
	}
	l.stop()
	l.running.Wait()
}

// Equal refusals have one row at once, and one with their number after a minute; those of too
// many kinds are counted together, and callers that are not authenticated have fewer.
func TestRepeatsAreCounted(t *testing.T) {
	t.Parallel()
	for actor, most := range map[string]int{"user": maxRepeated, "": maxRepeatedAnonymous} {
		var r repeats
		stored := 0
		for i := range most + 5 {
			for range 3 {
				if r.first(Event{Time: time.Now(), ActorID: actor, Operation: fmt.Sprint("op", i), Outcome: Refused}) {
					stored++
				}
			}
		}
		if stored != most {
			t.Errorf("actor %q: %d rows were stored at once, want %d", actor, stored, most)
		}
		counts := map[string]int{}
		for _, e := range r.take() {
			counts[e.Operation] = e.Count
		}
		if len(counts) != most+1 || counts["op7"] != 2 || counts[OperationOthers] != 15 {
			t.Errorf("actor %q: got %d kinds, op7 %d times, others %d times; want %d, 2, 15", actor, len(counts), counts["op7"], counts[OperationOthers], most+1)
		}
		if !r.first(Event{ActorID: actor, Operation: "op7", Outcome: Refused}) || len(r.take()) != 0 {
			t.Errorf("actor %q: after a minute the first one is not stored at once", actor)
		}
	}
}

// A row that cannot be stored refuses the change, unless rows are not required.
func TestRowThatCannotBeStored(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{true, false} {
		d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "signalbox.db"), slog.New(slog.DiscardHandler))
		must(t, err)
		l := open(t, d, "key", Config{Required: required})
		must(t, l.Close(t.Context()), d.Close(t.Context()))
		_, row := Start(context.Background(), Event{Operation: "op"})
		if err := l.Begin(t.Context(), row); (err != nil) != required {
			t.Errorf("required %v: got %v", required, err)
		}
	}
}

// Events that cannot be stored are counted until they can be.
func TestRepeatsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signalbox.db")
	closed, err := db.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	must(t, err)
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "signalbox.db"), slog.New(slog.DiscardHandler))
	must(t, err, closed.Close(t.Context()))
	defer d.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // only read
	l := &Log{db: closed, now: time.Now, log: slog.New(slog.DiscardHandler)}
	e := Event{Time: time.Now(), Operation: "login", Outcome: Refused, Count: 1}
	for range 3 {
		l.Repeatable(t.Context(), e)
		if l.storeRepeated(t.Context()) == nil {
			t.Fatal("a closed database has stored an event")
		}
	}
	l.db = d
	must(t, l.storeRepeated(t.Context()))
	rows, err := d.ListAudit(t.Context(), db.AuditFilter{}, 10)
	if err != nil || len(rows) != 1 || rows[0].Count != 3 {
		t.Errorf("got %+v, %v; want one row of three events", rows, err)
	}
}

func FuzzCheckpoint(f *testing.F) {
	d, err := db.Open(context.Background(), filepath.Join(f.TempDir(), "signalbox.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { d.Close(context.Background()) }) //nolint:errcheck // the test is over
	l := &Log{db: d, sealer: box{"key"}, now: time.Now, log: slog.New(slog.DiscardHandler)}
	if err := l.createKey(context.Background()); err != nil {
		f.Fatal(err)
	}
	c, err := l.sign(context.Background(), noteTitle, db.AuditHead{Seq: 7, Hash: []byte{1, 2}})
	if err != nil {
		f.Fatal(err)
	}
	verifiers, err := verifiersOf(context.Background(), d, "")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(c.Note))
	f.Add([]byte("signalbox audit\n7\n\n\n\n— x y\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := openNote(text, verifiers); err == nil && string(text) != c.Note {
			t.Errorf("%q is accepted", text)
		}
	})
}

// TestVerifyOneAtATime verifies the log while another verification reads it, which takes longer than the caller
// waits.
func TestVerifyOneAtATime(t *testing.T) {
	t.Parallel()
	l := open(t, dbtest.New(t), "key", Config{})
	defer l.Close(t.Context())
	l.verifying <- struct{}{}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller is gone")
	cancel(gone)
	if _, err := l.Verify(ctx); !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
	<-l.verifying
	_, err := l.Verify(t.Context())
	must(t, err)
}
