package db_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/db"
)

// laterMigration depends on the content: a copy with other content would have another result.
const laterMigration = `
	ALTER TABLE projects ADD COLUMN label TEXT NOT NULL DEFAULT '';
	UPDATE projects SET label = id || ' of ' || (SELECT count(*) FROM projects);`

// labels are what laterMigration has made.
const labels = "SELECT coalesce(group_concat(label, ','), '') FROM (SELECT label FROM projects WHERE label <> '' ORDER BY id)"

// releases is a fleet whose copies are opened by different releases.
type releases struct {
	*fleet
	paths []string
}

func newReleases(t *testing.T, size int) *releases {
	t.Helper()
	r := &releases{}
	var copies []*db.DB
	for range size {
		path := filepath.Join(t.TempDir(), "signalbox.db")
		d, err := db.Open(t.Context(), path, slog.New(slog.DiscardHandler))
		must(t, err)
		r.paths, copies = append(r.paths, path), append(copies, d)
	}
	r.fleet = newFleetOf(t, copies)
	t.Cleanup(func() {
		r.stop()
		for _, n := range r.nodes {
			must(t, n.d.Close(context.WithoutCancel(t.Context())))
		}
	})
	return r
}

// restart opens a copy anew with the later release. It goes on to apply the log.
func (r *releases) restart(i int, migration string) *db.DB {
	r.t.Helper()
	n, ctx := r.nodes[i], r.t.Context()
	failed := false
	r.set(func() { n.hold, failed, n.err = true, n.err != nil, nil })
	r.wait("the copy rests", func() bool { return !n.busy })
	must(r.t, n.d.Close(ctx))
	d, err := db.OpenLater(ctx, r.paths[i], migration)
	must(r.t, err)
	must(r.t, d.Share(ctx, n))
	r.set(func() { n.d, n.hold = d, false })
	if failed {
		r.ends.Go(n.run)
	}
	return d
}

// failure waits until a copy has failed, and returns its error.
func (r *releases) failure(i int) string {
	r.t.Helper()
	var err error
	r.wait("the copy fails", func() bool {
		if err == nil {
			err, r.nodes[i].err = r.nodes[i].err, nil // so that the others are waited for
		}
		return err != nil
	})
	r.set(func() { r.nodes[i].err = err })
	return err.Error()
}

// TestSharedUpgrade upgrades the nodes of a cluster one after the other, to a release with another schema, while
// the others go on to write. All copies are the same afterwards, and one that missed it follows.
func TestSharedUpgrade(t *testing.T) {
	t.Parallel()
	r := newReleases(t, 3)
	ctx := t.Context()
	wantSchema := func(i int, outdated bool) {
		t.Helper()
		if got := r.nodes[i].d.IsOutdated(); got != outdated {
			stored, release := r.nodes[i].d.Schema()
			t.Fatalf("copy %d has schema %d of %d", i, stored, release)
		}
	}
	must(t, r.nodes[0].d.CreateProject(ctx, project("before", "owner")))
	first := r.restart(0, laterMigration)
	wantSchema(0, true)
	must(t, r.nodes[1].d.CreateProject(ctx, project("meanwhile", "owner")))
	r.settle()
	second := r.restart(1, laterMigration)
	must(t, r.nodes[2].d.CreateProject(ctx, project("last", "owner")))

	// A write of the former release that is proposed before the upgrade, and in the log behind it.
	g := newGate(r.nodes[1])
	must(t, second.Share(ctx, g))
	late := make(chan error, 1)
	go func() { late <- second.CreateProject(ctx, project("late", "owner")) }()
	<-g.arrived

	must(t, first.Upgrade(ctx, 9000), first.AwaitSchema(ctx))
	wantSchema(0, false)
	close(g.open)
	must(t, <-late, second.AwaitSchema(ctx), second.Share(ctx, r.nodes[1]))
	if got := r.failure(2); !strings.Contains(got, "install the release that the other nodes run") {
		t.Errorf("the node with the former release stops with %q", got)
	}
	third := r.restart(2, laterMigration)
	must(t, third.AwaitSchema(ctx), third.CreateProject(ctx, project("after", "owner")))
	r.settle()
	for i, n := range r.nodes {
		got, err := n.d.Query(ctx, labels)
		must(t, err)
		if want := "before of 5,last of 5,meanwhile of 5,p of 5,q of 5"; got != want {
			t.Errorf("copy %d: got labels %q, want %q", i, got, want)
		}
		before, err := db.OpenLater(ctx, r.paths[i]+".before-v9000", laterMigration)
		must(t, err)
		if !before.IsOutdated() {
			t.Errorf("copy %d: what was kept before the upgrade has the new schema", i)
		}
		must(t, before.Close(ctx))
	}
	must(t, first.Upgrade(ctx, 9000)) // again, as by another leader
	r.settle()
	if d := r.restart(0, laterMigration); d.IsOutdated() {
		t.Error("the database is outdated after a restart")
	}
	must(t, r.nodes[0].d.AddAudit(ctx, db.AuditEvent{Time: at(1)}))
	r.settle()
}

// TestSharedUpgradeFails has a migration that cannot run on the content: nothing is proposed, and the nodes
// go on.
func TestSharedUpgradeFails(t *testing.T) {
	t.Parallel()
	r := newReleases(t, 2)
	ctx := t.Context()
	must(t, r.nodes[1].d.CreateProject(ctx, project("first", "owner")))
	r.settle()
	d := r.restart(0, "CREATE TABLE more (id TEXT) STRICT; INSERT INTO more (id) SELECT id + 1 FROM projects; INSERT INTO absent (id) VALUES (1);")
	if err := d.Upgrade(ctx, 9000); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Fatalf("got %v", err)
	}
	must(t, r.nodes[1].d.CreateProject(ctx, project("later", "owner")))
	r.settle()
	if !d.IsOutdated() {
		t.Error("the schema was changed")
	}
}

// TestSharedUpgradeAlone opens a shared database with a later release, and makes it the node's own: its schema is
// brought up to date then.
func TestSharedUpgradeAlone(t *testing.T) {
	t.Parallel()
	r := newReleases(t, 1)
	ctx := t.Context()
	must(t, r.nodes[0].d.CreateProject(ctx, project("x", "owner")))
	d := r.restart(0, laterMigration)
	must(t, d.Ping(ctx))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	wantErr(t, d.AwaitSchema(ended), context.Canceled)
	must(t, d.Unshare(ctx), d.AwaitSchema(ctx), d.CreateProject(ctx, project("y", "owner")))
	got, err := d.Query(ctx, labels)
	must(t, err)
	wantEqual(t, got, "p of 3,q of 3,x of 3")
	if matches, err := filepath.Glob(r.paths[0] + ".before-v*"); err != nil || len(matches) != 1 {
		t.Errorf("got copies %v (%v), want one", matches, err)
	}
}

// TestSnapshotOfAnotherRelease restores snapshots of the former release in the later one, and the other way round.
func TestSnapshotOfAnotherRelease(t *testing.T) {
	t.Parallel()
	r := newReleases(t, 3)
	ctx := t.Context()
	must(t, r.nodes[1].d.CreateProject(ctx, project("first", "owner")))
	r.settle()
	former, err := r.nodes[2].d.Snapshot(ctx)
	must(t, err)
	defer former.Release()
	restoreFormer := func(to *db.DB, index uint64) error { return restoreSnapshot(ctx, former, to, index) }

	own, err := db.OpenLater(ctx, filepath.Join(t.TempDir(), "own.db"), laterMigration)
	must(t, err)
	defer own.Close(ctx)
	if err := restoreFormer(own, 7); err == nil || !strings.Contains(err.Error(), "have the other nodes run the release of this one") {
		t.Errorf("got %v for a snapshot of the cluster", err)
	}
	// What was kept before a join is restored after it.
	must(t, restoreFrom(t, r.nodes[2].d, own, 0))
	if got, err := own.Query(ctx, labels); err != nil || got != "first of 3,p of 3,q of 3" {
		t.Errorf("got labels %q (%v)", got, err)
	}
	must(t, own.CreateProject(ctx, project("own", "owner")))

	// A node that was away meets the snapshot of one that has upgraded.
	away := r.restart(0, laterMigration)
	must(t, r.nodes[1].d.CreateProject(ctx, project("entry", "owner")))
	r.settle()
	r.set(func() { r.nodes[0].hold = true })
	other := r.restart(1, laterMigration)
	upgraded := make(chan error, 1)
	go func() { upgraded <- other.Upgrade(ctx, 9000) }()
	must(t, other.AwaitSchema(ctx), <-upgraded)
	index := other.AppliedIndex()
	if err := restoreFrom(t, other, r.nodes[2].d, index); err == nil || !strings.Contains(err.Error(), "install the release that the other nodes run") {
		t.Errorf("got %v for a snapshot of the later release", err)
	}
	must(t, restoreFrom(t, other, away, index), away.AwaitSchema(ctx))
	r.set(func() { r.nodes[0].index, r.nodes[0].hold = index, false })
	r.failure(2)
	must(t, away.CreateProject(ctx, project(fmt.Sprint("after", index), "owner")))
}
