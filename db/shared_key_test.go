package db_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"signalbox/db"
	"signalbox/db/dbtest"
)

// machine seals by a letter before and after, which stands for its key.
type machine string

func (m machine) seal(plain []byte) []byte { return []byte(string(m) + string(plain) + string(m)) }

func (m machine) Export(stored []byte) ([]byte, error) { return bytes.Trim(stored, string(m)), nil }

func (m machine) Import(carried []byte) ([]byte, error) { return m.seal(carried), nil }

// TestSharedKey stores a key of the database and joins another node to it. There the key is
// sealed by that node, and the secrets are the same; both nodes can replace their own keys.
func TestSharedKey(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "signalbox.db")
	creator, joiner := world(t), dbtest.Open(t, path)
	creator.SetKeyCarrier(machine("A"))
	joiner.SetKeyCarrier(machine("B"))
	populateAs := func(d *db.DB) {
		must(t, d.CreateUser(ctx, user("own")), d.CreateProject(ctx, project("mine", "own")), d.CreateBroker(ctx, connection("old", "mine")))
	}
	populateAs(joiner)

	all, err := creator.ListSealed(ctx)
	must(t, err)
	wantEqual(t, len(all), 1)
	all[0].Secrets = []byte("by the shared key")
	must(t, creator.PutSharedKey(ctx, machine("A").seal([]byte("shared")), all))
	wantErr(t, creator.PutSharedKey(ctx, []byte("other"), nil), db.ErrNotFound) // there is one
	before, err := joiner.Snapshot(ctx)
	must(t, err, restoreFrom(t, creator, joiner, 9))
	defer before.Release()
	for d, m := range map[*db.DB]machine{creator: "A", joiner: "B"} {
		key, err := d.SharedKey(ctx)
		must(t, err)
		wantEqual(t, string(key), string(m)+"shared"+string(m))
		b, err := d.GetBroker(ctx, "p", "b")
		must(t, err)
		wantEqual(t, string(b.Secrets), "by the shared key")
		own, err := d.ListSealed(ctx)
		must(t, err)
		if len(own) != 1 || own[0].ID != db.SharedKeyID {
			t.Fatalf("%s seals %v", m, own)
		}
		own[0].Secrets = []byte("rotated")
		must(t, d.PutSealed(ctx, own))
		if has, err := d.HasSecrets(ctx); err != nil || !has {
			t.Errorf("got %t, %v", has, err)
		}
	}
	must(t, joiner.Unshare(ctx), restoreSnapshot(ctx, before, joiner, 0))
	key, err := joiner.SharedKey(ctx)
	must(t, err)
	wantEqual(t, key, []byte(nil))
	b, err := joiner.GetBroker(ctx, "mine", "old")
	must(t, err)
	wantEqual(t, b.Secrets, connection("old", "mine").Secrets)
}

// TestSharedKeyWithoutCarrier neither sends nor receives a key in the clear.
func TestSharedKeyWithoutCarrier(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	from, to := world(t), dbtest.New(t)
	must(t, from.PutSharedKey(ctx, []byte("sealed"), nil))
	if _, err := from.Snapshot(ctx); err == nil {
		t.Error("a snapshot was made without the key")
	}
	from.SetKeyCarrier(machine("A"))
	if err := restoreFrom(t, from, to, 1); err == nil {
		t.Error("a snapshot was restored without the key")
	}
	wantEqual(t, to.AppliedIndex(), uint64(0))
}

// TestSealedOfOlderSchema lists secrets of a database that was not migrated yet.
func TestSealedOfOlderSchema(t *testing.T) {
	t.Parallel()
	path, ctx := filepath.Join(t.TempDir(), "signalbox.db"), t.Context()
	d, err := db.Open(ctx, path, slog.New(slog.DiscardHandler))
	must(t, err)
	populate(t, d)
	must(t, d.DropSharing(ctx), d.Close(ctx))
	must(t, db.View(ctx, path, func(d *db.DB) error {
		all, err := d.ListSealed(context.WithoutCancel(ctx))
		wantEqual(t, len(all), 1)
		return err
	}))
}
