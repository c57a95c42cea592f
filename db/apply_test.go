package db_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
)

// captured returns the entry of a write to a database like world.
func captured(t *testing.T, write func(*db.DB) error) []byte {
	t.Helper()
	f := newFleet(t, 1)
	must(t, write(f.nodes[0].d))
	return f.log[len(f.log)-1]
}

// TestApplyTwice applies entries again, as after a crash between two stores.
func TestApplyTwice(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	entry := captured(t, func(d *db.DB) error { return d.CreateProject(ctx, project("x", "owner")) })
	d := world(t)
	for i := range 2 {
		result, err := d.Apply(ctx, 5, entry)
		if err != nil || len(result) != 1-i {
			t.Errorf("time %d: got %v, %v", i+1, result, err)
		}
	}
	wantEqual(t, d.AppliedIndex(), uint64(5))
	result, err := d.Apply(ctx, 6, entry) // of a content that is not the present one
	if err != nil || len(result) != 1 || result[0] != 2 {
		t.Errorf("got %v, %v for an entry that is late", result, err)
	}
	wantEqual(t, d.AppliedIndex(), uint64(6))
}

// TestApplyRefused applies entries that this copy cannot have the effect of. Nothing changes.
func TestApplyRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	create := captured(t, func(d *db.DB) error { return d.CreateProject(ctx, project("x", "owner")) })
	touch := captured(t, func(d *db.DB) error { return d.DeleteUser(ctx, "guest") })
	second := captured(t, func(d *db.DB) error {
		must(t, d.CreateUser(ctx, user("first")))
		return d.CreateUser(ctx, user("second"))
	})
	empty := dbtest.New(t)
	for name, entry := range map[string][]byte{"a missing row": create, "fewer rows": touch, "a later content": second} {
		if _, err := empty.Apply(ctx, 1, entry); err == nil || !strings.Contains(err.Error(), "join it again") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := empty.Apply(ctx, 1, create[:len(create)-1]); err == nil || !strings.Contains(err.Error(), "newer release") {
		t.Errorf("got %v for an entry that is damaged", err)
	}
	wantEqual(t, empty.AppliedIndex(), uint64(0))
	all, err := empty.AllProjects(ctx)
	must(t, err)
	wantEqual(t, all, []db.Project{})
}

// TestApplyLeavesOwnWritesDurable checks that only entries are not flushed: what is written alone afterwards is.
func TestApplyLeavesOwnWritesDurable(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	entry := captured(t, func(d *db.DB) error { return d.CreateProject(ctx, project("x", "owner")) })
	d := world(t)
	wantDurable := func() {
		t.Helper()
		level, err := d.Synchronous(ctx)
		must(t, err)
		const full = 2
		wantEqual(t, level, full)
	}
	for pause := time.Duration(0); d.AppliedIndex() == 0; pause += 2 * time.Microsecond { // ends in all its steps
		soon, cancel := context.WithTimeout(ctx, pause)
		d.Apply(soon, 5, entry) //nolint:errcheck // mostly that of the context
		cancel()
		wantDurable()
	}
	_, err := d.Apply(ctx, 6, entry) // of a content that is not the present one
	must(t, err)
	must(t, d.Flush(ctx))
	wantDurable()
}

// BenchmarkApply applies entries that were captured, as a node that catches up does.
func BenchmarkApply(b *testing.B) {
	ctx := b.Context()
	f := newFleet(b, 1)
	for i := range b.N {
		must(b, f.nodes[0].d.CreateUser(ctx, user(fmt.Sprint("bench-", i))))
	}
	d := world(b)
	b.ResetTimer()
	for i, entry := range f.log {
		if _, err := d.Apply(ctx, uint64(i+1), entry); err != nil { //nolint:gosec // small
			b.Fatal(err)
		}
	}
}
