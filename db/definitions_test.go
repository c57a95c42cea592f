package db_test

import (
	"crypto/rand"
	"database/sql"
	"log/slog"
	"path/filepath"
	"testing"

	"signalbox/db"
	"signalbox/db/dbtest"
)

// TestDefinitions stores, replaces and deletes the definitions of a broker connection.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	stream := db.Definition{Kind: db.StreamDefinition, BrokerID: "b", Name: "levels", Rev: 1, Document: []byte(`{"a":1}`)}
	bridge := db.Definition{Kind: db.BridgeDefinition, BrokerID: "b", Name: "kafka-bridge", Rev: 5, Document: []byte("sealed")}
	missing := stream
	missing.BrokerID = "none"
	must(t, d.PutDefinition(ctx, stream, 0), d.PutDefinition(ctx, bridge, 0))
	wantErr(t, d.PutDefinition(ctx, missing, 0), db.ErrNotFound)
	wantErr(t, d.PutDefinition(ctx, stream, 0), db.ErrConflict)
	changed := stream
	changed.Rev, changed.Document = 2, []byte(`{"a":2}`)
	wantErr(t, d.PutDefinition(ctx, changed, 7), db.ErrConflict)
	must(t, d.PutDefinition(ctx, changed, 1))
	wantErr(t, d.PutDefinition(ctx, changed, 1), db.ErrConflict)
	all, err := d.ListDefinitions(ctx, db.StreamDefinition, "b")
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Definition{changed})
	wantErr(t, d.DeleteDefinition(ctx, stream), db.ErrConflict)
	must(t, d.DeleteDefinition(ctx, changed))
	wantErr(t, d.DeleteDefinition(ctx, changed), db.ErrConflict)
	all, err = d.AllDefinitions(ctx)
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Definition{bridge})
	must(t, d.DeleteBroker(ctx, "p", "b"))
	all, err = d.AllDefinitions(ctx)
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Definition{})
	_, err = d.ListDefinitions(ctx, db.StreamDefinition, "b")
	wantErr(t, err, db.ErrNotFound)
}

// TestImportDefinitions replaces what a node of its own has stored, and leaves out what belongs to no connection.
func TestImportDefinitions(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	wantEqual(t, d.HasImported(), false)
	stream := db.Definition{Kind: db.StreamDefinition, BrokerID: "b", Name: "levels", Rev: 3, Document: []byte("{}")}
	other, missing := stream, stream
	other.Name, missing.BrokerID = "other", "none"
	must(t, d.PutDefinition(ctx, other, 0))
	changed := d.DefinitionsChanged()
	defined, err := d.ImportDefinitions(ctx, "me", []db.Definition{stream, missing})
	wantErr(t, err, nil)
	wantEqual(t, len(defined), 0)
	wantEqual(t, d.HasImported(), true)
	all, err := d.AllDefinitions(ctx)
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Definition{stream})
	select {
	case <-changed:
	default:
		t.Error("who waits for a change does not know of it")
	}
}

// TestHost checks who runs streams and bridges: a node of its own, and none that has left others.
func TestHost(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	wantEqual(t, d.Hosts(), true)
	must(t, d.BecomeHost(ctx), d.Unshare(ctx))
	wantEqual(t, d.Hosts(), true)
	stream := db.Definition{Kind: db.StreamDefinition, BrokerID: "b", Name: "levels", Rev: 3, Document: []byte("{}")}
	must(t, d.PutDefinition(ctx, stream, 0))
	stream.Rev, stream.Document = 4, []byte(`{"active":false}`)
	must(t, d.UnshareLeft(ctx, []db.Definition{stream}))
	wantEqual(t, d.Hosts(), false)
	all, err := d.AllDefinitions(ctx)
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Definition{stream})
	must(t, d.RestoreHost(ctx, false))
	wantEqual(t, d.Hosts(), true)
	must(t, d.RestoreHost(ctx, true))
	wantEqual(t, d.Hosts(), false)
}

// TestConfigurationsAreSecrets checks that configurations of bridges are among the secrets, and streams are not.
func TestConfigurationsAreSecrets(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.DeleteBroker(ctx, "p", "b"))
	row := connection("b", "p")
	row.Secrets = nil
	stream := db.Definition{Kind: db.StreamDefinition, BrokerID: "b", Name: "levels", Rev: 1, Document: []byte("{}")}
	bridge := db.Definition{Kind: db.BridgeDefinition, BrokerID: "b", Name: "kafka-bridge", Rev: 1, Document: []byte("sealed")}
	must(t, d.CreateBroker(ctx, row), d.PutDefinition(ctx, stream, 0))
	has, err := d.HasSecrets(ctx)
	wantErr(t, err, nil)
	wantEqual(t, has, false)
	must(t, d.PutDefinition(ctx, bridge, 0))
	has, err = d.HasSecrets(ctx)
	wantErr(t, err, nil)
	wantEqual(t, has, true)
	all, err := d.ListSealed(ctx)
	wantErr(t, err, nil)
	if len(all) != 1 || all[0].ID != bridge.ID() || string(all[0].Secrets) != "sealed" {
		t.Fatalf("secrets: %+v", all)
	}
	all[0].Secrets = []byte("sealed anew")
	must(t, d.PutSealed(ctx, all))
	stored, err := d.ListDefinitions(ctx, db.BridgeDefinition, "b")
	wantErr(t, err, nil)
	if len(stored) != 1 || string(stored[0].Document) != "sealed anew" || stored[0].Rev != 1 {
		t.Fatalf("stored: %+v", stored)
	}
}

// TestDefinitionsAreShared has two nodes that share a database import what each of them has defined, and run them in turn.
func TestDefinitionsAreShared(t *testing.T) {
	t.Parallel()
	f, ctx := newFleet(t, 2), t.Context()
	one, two := f.nodes[0].d, f.nodes[1].d
	of := func(name string, rev int64) db.Definition {
		return db.Definition{Kind: db.StreamDefinition, BrokerID: "b", Name: name, Rev: rev, Document: []byte("{}")}
	}
	defined, err := one.ImportDefinitions(ctx, "one", []db.Definition{of("both", 1), of("one", 2)})
	wantErr(t, err, nil)
	wantEqual(t, len(defined), 0)
	must(t, two.CatchUp(ctx))
	wantEqual(t, two.HasImported(), false)
	defined, err = two.ImportDefinitions(ctx, "two", []db.Definition{of("both", 3), of("two", 4)})
	wantErr(t, err, nil)
	wantEqual(t, defined, []db.Definition{of("both", 3)})
	must(t, one.CatchUp(ctx))
	all, err := one.AllDefinitions(ctx)
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Definition{of("both", 1), of("one", 2), of("two", 4)})

	for _, d := range []*db.DB{one, two} {
		owner, err := d.BridgeOwner(ctx)
		wantErr(t, err, nil)
		wantEqual(t, owner, "one")
	}

	for _, n := range []struct{ host, other *db.DB }{{one, two}, {two, one}, {one, two}} {
		must(t, n.host.BecomeHost(ctx), n.other.CatchUp(ctx))
		wantEqual(t, n.host.Hosts(), true)
		wantEqual(t, n.other.Hosts(), false)
	}
}

// TestEmbeddedDefinitions has a node store the definitions of its embedded broker in the database, join another one, which has others, and
// put back what it had.
func TestEmbeddedDefinitions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	of := func(name string, rev int64) db.Definition {
		return db.Definition{Kind: db.StreamDefinition, Name: name, Rev: rev, Document: []byte("{}")}
	}
	nodes := [2]*db.DB{dbtest.New(t), dbtest.New(t)}
	own := [2]db.Definition{of("first", 1), of("second", 2)}
	for i, d := range nodes {
		if _, state, err := d.ListEmbedded(ctx, db.StreamDefinition); err != nil || state.Stored {
			t.Fatalf("before the import: %+v %v", state, err)
		}
		_, err := d.ImportDefinitions(ctx, []string{"one", "two"}[i], nil)
		wantErr(t, err, nil)
		_, err = d.ImportEmbedded(ctx, []db.Definition{of("other", 9)})
		wantErr(t, err, nil)
		defined, err := d.ImportEmbedded(ctx, []db.Definition{own[i]})
		wantErr(t, err, nil)
		wantEqual(t, len(defined), 0)
	}
	want := func(d *db.DB, all []db.Definition, isFirst bool) {
		t.Helper()
		got, state, err := d.ListEmbedded(ctx, db.StreamDefinition)
		wantErr(t, err, nil)
		wantEqual(t, got, all)
		if state != d.EmbeddedState() || !state.Stored || (state.Content == "") != isFirst {
			t.Errorf("the state is %+v, and in memory %+v", state, d.EmbeddedState())
		}
	}
	joined := nodes[1]
	kept, err := joined.Snapshot(ctx)
	wantErr(t, err, nil)
	defer kept.Release()
	must(t, restoreFrom(t, nodes[0], nodes[0], 1)) // as when a cluster is created
	want(nodes[0], []db.Definition{own[0]}, true)
	must(t, restoreFrom(t, nodes[0], joined, 1))
	want(joined, []db.Definition{own[0]}, false)
	content := joined.EmbeddedState()
	must(t, restoreFrom(t, nodes[0], joined, 2)) // a later snapshot of the same log
	wantEqual(t, joined.EmbeddedState(), content)
	must(t, joined.Unshare(ctx), restoreSnapshot(ctx, kept, joined, 0))
	want(joined, []db.Definition{own[1]}, true)

	must(t, joined.ReleaseEmbedded(ctx))
	if all, state, err := joined.ListEmbedded(ctx, db.StreamDefinition); err != nil || state.Stored || len(all) > 0 {
		t.Errorf("after they were released: %v %+v %v", all, state, err)
	}
	must(t, restoreFrom(t, nodes[0], joined, 1))
	wantEqual(t, joined.EmbeddedState(), db.EmbeddedState{}) // it keeps its own, elsewhere
}

// TestEmbeddedDefinitionsOfOthers has a node of the release before the one that stores them receive the content of a node of this
// release: where the other node has its definitions does not count for it.
func TestEmbeddedDefinitionsOfOthers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	first, sender := dbtest.New(t), dbtest.New(t)
	for _, d := range []*db.DB{first, sender} {
		_, err := d.ImportDefinitions(ctx, rand.Text(), nil)
		wantErr(t, err, nil)
		_, err = d.ImportEmbedded(ctx, nil)
		wantErr(t, err, nil)
	}
	must(t, restoreFrom(t, first, sender, 1))
	if state := sender.EmbeddedState(); !state.Stored || state.Content == "" {
		t.Fatalf("the sender has %+v", state)
	}

	path := filepath.Join(t.TempDir(), "former.db")
	d, err := db.Open(ctx, path, slog.New(slog.DiscardHandler))
	must(t, err)
	must(t, d.Close(ctx))
	raw, err := sql.Open("sqlite", path)
	must(t, err)
	for _, q := range []string{"ALTER TABLE local_state DROP COLUMN embedded", "ALTER TABLE local_state DROP COLUMN embedded_content",
		"DELETE FROM goose_db_version WHERE version_id = 17", "UPDATE shared_state SET applied = 1"} {
		_, err := raw.ExecContext(ctx, q)
		must(t, err)
	}
	must(t, raw.Close())
	d, err = db.Open(ctx, path, slog.New(slog.DiscardHandler))
	must(t, err)
	defer d.Close(ctx)
	if !d.IsOutdated() {
		t.Fatal("it has the schema of this release")
	}
	must(t, restoreFrom(t, sender, d, 2))
	wantEqual(t, d.EmbeddedState(), db.EmbeddedState{})
}
