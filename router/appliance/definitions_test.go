package appliance

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"path/filepath"
	"testing"
	"time"

	"signalbox/broker"
	bridgestore "signalbox/broker/bridges/store"
	"signalbox/broker/streams"
	"signalbox/broker/streams/store"
	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/handlers/vault"
)

// openDefinitions opens the stores of streams and bridges in a directory, until the test ends.
func openDefinitions(t *testing.T, dir string, d *db.DB, keys *sharedKeys, machine *vault.Vault) *definitions {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(dir, streamsFile), store.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close(context.Background())) })
	b, err := bridgestore.Open(t.Context(), filepath.Join(dir, bridgesFile), bridgestore.Options{Seal: machine})
	must(t, err)
	t.Cleanup(func() { must(t, b.Close(context.Background())) })
	return &definitions{db: d, keys: keys, streams: s, bridges: b, log: slog.New(slog.DiscardHandler)}
}

// newDefinitions returns those of a machine of its own.
func newDefinitions(t *testing.T) *definitions {
	t.Helper()
	dir := t.TempDir()
	d := dbtest.Open(t, filepath.Join(dir, databaseFile))
	machine, err := vault.Open(filepath.Join(dir, keyFile), true)
	must(t, err)
	keys, err := openKeys(t.Context(), d, machine)
	must(t, err)
	return openDefinitions(t, dir, d, keys, machine)
}

// TestRegistry has the definitions of a machine move to the database when that becomes the one of several nodes, refuses a
// change of an older revision, and switches all off when the node has left the others.
func TestRegistry(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := newKeyFleet(t, 1)
	s := f.nodes[0].sharedDatabase
	must(t, s.CreateBroker(ctx, db.Broker{ID: "b", ProjectID: "p", Name: "b", Type: "self-hosted", CreatedAt: time.Now(), UpdatedAt: time.Now()}))
	streams, bridges := registry{s.definitions, db.StreamDefinition}, registry{s.definitions, db.BridgeDefinition}
	stored := 0
	store := func() error { stored++; return nil }

	rev, err := streams.Put(ctx, "b", "levels", []byte(`{"sourcetopic":"in","active":true,"uid":9223372036854775807}`), 0, store)
	must(t, err)
	_, err = bridges.Put(ctx, "b", "http-bridge", []byte(`{"version":"v1","connections":[{"name":"c","password":"secret"}]}`), 0, store)
	must(t, err)
	if _, err := streams.Put(ctx, "b", "levels", []byte(`{}`), rev+1, store); broker.KindOf(err) != broker.Conflict || stored != 2 {
		t.Errorf("a change of another revision: %v, stored %d times", err, stored)
	}
	if _, ok, err := streams.Definitions(ctx, "none"); ok || err != nil {
		t.Errorf("definitions of a connection that does not exist: %t %v", ok, err)
	}
	rows, err := s.AllDefinitions(ctx)
	must(t, err)
	for _, row := range rows {
		if bytes.Contains(row.Document, []byte("secret")) {
			t.Errorf("%s has a secret in plain text", row.ID())
		}
	}

	must(t, s.unshare(ctx, true))
	for _, tt := range []struct {
		registry
		name, want string
	}{
		{streams, "levels", `{"active":false,"sourcetopic":"in","uid":9223372036854775807}`},
		{bridges, "http-bridge", `{"connections":[{"enabled":false,"name":"c","password":"secret"}],"version":"v1"}`},
	} {
		all, ok, err := tt.Definitions(ctx, "b")
		if got := string(all[tt.name].Document); err != nil || !ok || got != tt.want {
			t.Errorf("got %s %t %v, want %s", got, ok, err, tt.want)
		}
	}

	// A cluster that could not be created afterwards leaves what was switched on again as it is.
	all, _, err := streams.Definitions(ctx, "b")
	must(t, err)
	_, err = streams.Put(ctx, "b", "levels", []byte(`{"active":true}`), all["levels"].Rev, store)
	must(t, err, s.Begin(ctx, f.nodes[0]), s.End(ctx))
	all, _, err = streams.Definitions(ctx, "b")
	if got := string(all["levels"].Document); err != nil || got != `{"active":true}` {
		t.Errorf("got %s %v", got, err)
	}
}

// TestDefinitionsMove has what a machine has defined be in the database when that becomes the one of several nodes.
func TestDefinitionsMove(t *testing.T) {
	t.Parallel()
	ctx, all := t.Context(), newDefinitions(t)
	d := all.db
	must(t, d.CreateUser(ctx, db.User{ID: "u", Email: "u", CreatedAt: time.Now()}),
		d.CreateProject(ctx, db.Project{ID: "p", OwnerID: "u", CreatedAt: time.Now()}),
		d.CreateBroker(ctx, db.Broker{ID: "b", ProjectID: "p", Name: "b", Type: "self-hosted", CreatedAt: time.Now(), UpdatedAt: time.Now()}))
	streams := registry{all, db.StreamDefinition}
	rev, err := streams.Put(ctx, "b", "levels", []byte(`{}`), 0, func() error {
		_, err := all.streams.Put(ctx, "b", levels)
		return err
	})
	if _, ok, failed := streams.Definitions(ctx, "b"); ok || failed != nil || err != nil || rev != 0 {
		t.Errorf("a machine of its own has them in its store: %t %v %v %d", ok, failed, err, rev)
	}
	must(t, all.bridges.PutConfig(ctx, "b", "http-bridge", []byte(`{"connections":[]}`), nil))
	begun := false
	must(t, all.begin(ctx, false, func() error { begun = true; return nil }))
	moved, ok, err := streams.Definitions(ctx, "b")
	if err != nil || !ok || !begun || moved["levels"].Rev == 0 || !bytes.Contains(moved["levels"].Document, []byte(`"uid":9223372036854775807`)) {
		t.Errorf("got %v %t %v", moved, ok, err)
	}
	moved, _, err = registry{all, db.BridgeDefinition}.Definitions(ctx, "b")
	if got := string(moved["http-bridge"].Document); err != nil || got != `{"connections":[]}` {
		t.Errorf("got %s %v", got, err)
	}
}

var levels = streams.Definition{UID: math.MaxInt64, Stream: broker.Stream{StreamName: "levels", SourceTopic: "in", Query: []byte("{}")}}

// TestDefinitionsWithoutKey has a node not know the definitions of bridges before it has the key with which they are sealed, and know the
// others if that is a former key, which it may never receive.
func TestDefinitionsWithoutKey(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := newKeyFleet(t, 2)
	first, second := f.nodes[0], f.nodes[1]
	must(t, first.CreateBroker(ctx, db.Broker{ID: "b", ProjectID: "p", Name: "b", Type: "self-hosted", CreatedAt: time.Now(), UpdatedAt: time.Now()}))
	bridges := registry{first.definitions, db.BridgeDefinition}
	_, err := bridges.Put(ctx, "b", "http-bridge", []byte(`{"version":"v1"}`), 0, func() error { return nil })
	must(t, err)
	f.join(second)
	bridges = registry{second.definitions, db.BridgeDefinition}
	if all, ok, err := bridges.Definitions(ctx, "b"); !errors.Is(err, db.ErrNoKey) || ok {
		t.Errorf("without the key: %v %t %v", all, ok, err)
	}
	second.definitions.awaitedSince = time.Now().Add(-keyTime)
	if all, ok, err := bridges.Definitions(ctx, "b"); err != nil || !ok || all["http-bridge"].Rev == 0 || all["http-bridge"].Document != nil {
		t.Errorf("after a while without the key: %v %t %v", all, ok, err)
	}
	must(t, second.maintain())
	all, ok, err := bridges.Definitions(ctx, "b")
	if got := string(all["http-bridge"].Document); err != nil || !ok || got != `{"version":"v1"}` {
		t.Errorf("with the key: %s %t %v", got, ok, err)
	}

	// No node has the key any more, and another one is made.
	for _, n := range f.nodes {
		n.loseKey()
	}
	first.leads = true
	must(t, first.maintain(), second.maintain())
	if all, ok, err = bridges.Definitions(ctx, "b"); err != nil || !ok || all["http-bridge"].Rev == 0 || all["http-bridge"].Document != nil {
		t.Errorf("without a former key: %v %t %v", all, ok, err)
	}
}

// TestEmbeddedDefinitions has what is defined for the embedded broker move to the database when its node shares messages with others,
// and back when it shares none; and has a stream that another node had defined in the same way be the same one here.
func TestEmbeddedDefinitions(t *testing.T) {
	t.Parallel()
	ctx, all := t.Context(), newDefinitions(t)
	d := all.db
	const id, replaced = "embedded", "embedded/before"
	for _, of := range []string{id, replaced} {
		_, err := all.streams.Put(ctx, of, levels)
		must(t, err, all.bridges.PutConfig(ctx, of, "http-bridge", []byte(`{"connections":[]}`), nil))
	}
	begin := func(sharesMessages bool) {
		t.Helper()
		must(t, all.begin(ctx, sharesMessages, func() error { return nil }))
	}
	want := func(stored bool) {
		t.Helper()
		for kind, name := range map[db.DefinitionKind]string{db.StreamDefinition: "levels", db.BridgeDefinition: "http-bridge"} {
			r := registry{all, kind}
			defined, ok, err := r.Definitions(ctx, id)
			if err != nil || ok != stored || stored && defined[name].Document == nil {
				t.Errorf("%s: got %v %t %v", name, defined, ok, err)
			}
			if defined, ok, err := r.Definitions(ctx, replaced); ok || err != nil {
				t.Errorf("what was replaced: got %v %t %v", defined, ok, err)
			}
			_, err = r.Put(ctx, replaced, "other", []byte(`{}`), 0, func() error { return nil })
			if stored != (broker.KindOf(err) == broker.Unavailable) {
				t.Errorf("a change of what was replaced: %v", err)
			}
		}
	}
	want(false)
	begin(false)
	want(false)
	begin(true)
	want(true)
	if ids, err := all.streams.Brokers(ctx); err != nil || len(ids) != 1 || ids[0] != id {
		t.Errorf("streams of %v are stored: %v", ids, err)
	}
	if ids, err := all.bridges.Brokers(ctx); err != nil || len(ids) != 1 || ids[0] != id {
		t.Errorf("bridges of %v are stored: %v", ids, err)
	}

	other, differs := levels, levels
	other.UID, differs.UID, differs.StreamName, differs.SourceTopic = 1, 2, "differs", "elsewhere"
	for _, s := range []streams.Definition{other, differs} {
		row := all.newDefinition(db.StreamDefinition, "", s.StreamName, streams.Encode(s))
		stored, _, err := d.ListEmbedded(ctx, db.StreamDefinition)
		must(t, err)
		rev := int64(0)
		for _, one := range stored {
			if one.Name == s.StreamName {
				rev = one.Rev
			}
		}
		must(t, d.PutDefinition(ctx, row, rev))
	}
	own := differs
	own.SourceTopic, own.UID = "here", 3
	_, err := all.streams.Put(ctx, id, own)
	must(t, err, all.adoptEqual(ctx, []db.Definition{{}}))
	stored, err := all.streams.Definitions(ctx, id)
	if err != nil || len(stored) != 2 || stored[0].UID != own.UID || stored[1].UID != other.UID {
		t.Errorf("got %+v %v", stored, err)
	}

	begin(false)
	want(false)
}
