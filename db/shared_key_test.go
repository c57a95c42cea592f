package db_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
)

// testKeys are keys of a database at one machine. What they seal can be read.
type testKeys struct {
	mu  sync.Mutex
	has map[string]bool
}

// sealedWith returns a secret as a key of the database seals it.
func sealedWith(key, plain string) []byte { return []byte("\x02" + key + ":" + plain) }

// brokenSecret is a secret that cannot be unsealed.
const brokenSecret = "broken"

var errBroken = errors.New("it cannot be unsealed")

func (k *testKeys) Reseal(to string, secret, _ []byte) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	from, plain := "", string(secret)
	if secret[0] == 2 {
		from, plain, _ = strings.Cut(plain[1:], ":")
	}
	if from != "" && !k.has[from] || !k.has[to] {
		return nil, db.ErrNoKey
	}
	if from == to {
		return secret, nil
	}
	if plain == brokenSecret {
		return nil, errBroken
	}
	return sealedWith(to, plain), nil
}

func (*testKeys) KeyOf(secret []byte) (key string) {
	if len(secret) > 0 && secret[0] == 2 {
		key, _, _ = strings.Cut(string(secret[1:]), ":")
	}
	return key
}

// receive has a machine know a key and store it.
func (k *testKeys) receive(t *testing.T, d *db.DB, machine, id string) {
	t.Helper()
	k.mu.Lock()
	k.has[id] = true
	k.mu.Unlock()
	must(t, d.StoreSharedKey(t.Context(), db.SharedKey{ID: id, Sealed: []byte(machine + " has " + id)}))
}

func withKeys(d *db.DB) *testKeys {
	k := &testKeys{has: map[string]bool{}}
	d.SetSecretKeys(k)
	return k
}

// reseal seals all secrets with the present key.
func reseal(ctx context.Context, d *db.DB) error {
	broken, err := d.ResealSecrets(ctx)
	return errors.Join(append(broken, err)...)
}

func wantSecrets(t *testing.T, d *db.DB, broker string, want []byte) {
	t.Helper()
	b, err := d.GetBroker(t.Context(), "p", broker)
	must(t, err)
	wantEqual(t, string(b.Secrets), string(want))
}

func wantKeys(t *testing.T, d *db.DB, state db.KeyState, want ...string) {
	t.Helper()
	s, keys, err := d.SharedKeys(t.Context())
	must(t, err)
	wantEqual(t, s, state)
	wantEqual(t, d.KeyState(), state)
	var ids []string
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	wantEqual(t, ids, want)
}

// TestSharedKey seals the content of one node with a key and has another node join it, which
// undoes that. No key is in what is sent, and the node's own former one is back.
func TestSharedKey(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "signalbox.db")
	creator, joiner := world(t), dbtest.Open(t, path)
	a, b := withKeys(creator), withKeys(joiner)
	populate(t, joiner)
	plain := string(connection("b", "p").Secrets)
	wantKeys(t, creator, db.KeyState{})

	a.receive(t, creator, "A", "one")
	b.receive(t, joiner, "B", "own")
	must(t, creator.BeginSharedKey(ctx, "one"), joiner.BeginSharedKey(ctx, "own"))
	wantSecrets(t, creator, "b", sealedWith("one", plain))
	before, err := joiner.Snapshot(ctx)
	must(t, err)
	defer before.Release()
	after, err := creator.Snapshot(ctx)
	must(t, err)
	var sent bytes.Buffer
	_, err = after.WriteTo(&sent)
	must(t, err)
	after.Release()
	if !bytes.Contains(sent.Bytes(), []byte("one")) || bytes.Contains(sent.Bytes(), []byte("A has one")) {
		t.Error("what is sent does not name the key, or has it")
	}
	must(t, joiner.Restore(ctx, 9, &sent))
	wantKeys(t, joiner, db.KeyState{ID: "one"}, "own")
	wantSecrets(t, joiner, "b", sealedWith("one", plain))
	b.receive(t, joiner, "B", "one")

	for d, ids := range map[*db.DB][]string{creator: {"one"}, joiner: {"one", "own"}} {
		all, err := d.ListSealed(ctx)
		must(t, err)
		wantEqual(t, len(all), len(ids))
		for i, id := range ids {
			wantEqual(t, all[i].ID, db.SharedKeyID+id)
			all[i].Secrets = []byte("rotated")
		}
		must(t, d.PutSealed(ctx, all)) // also while only the log may change the rest
		if has, err := d.HasSecrets(ctx); err != nil || !has {
			t.Errorf("got %t, %v", has, err)
		}
	}

	must(t, joiner.DropSharedKeys(ctx, time.Now().Add(time.Hour)))
	wantKeys(t, joiner, db.KeyState{ID: "one"}, "one", "own")
	must(t, joiner.Unshare(ctx))
	wantKeys(t, joiner, db.KeyState{ID: "one", Since: -1}, "one", "own")
	must(t, restoreSnapshot(ctx, before, joiner, 0))
	wantKeys(t, joiner, db.KeyState{ID: "own"}, "one", "own")
	wantSecrets(t, joiner, "b", sealedWith("own", plain))
	must(t, joiner.DropSharedKeys(ctx, time.Now().Add(3*time.Hour)))
	wantKeys(t, joiner, db.KeyState{ID: "own"}, "own")
}

// TestSharedKeyIsDropped keeps the key that a join has replaced for two hours.
func TestSharedKeyIsDropped(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	creator, joiner := world(t), world(t)
	k := withKeys(joiner)
	k.receive(t, joiner, "B", "own")
	must(t, joiner.BeginSharedKey(ctx, "own"), restoreFrom(t, creator, joiner, 3))
	must(t, joiner.DropSharedKeys(ctx, time.Now().Add(90*time.Minute)))
	wantKeys(t, joiner, db.KeyState{}, "own")
	must(t, joiner.DropSharedKeys(ctx, time.Now().Add(3*time.Hour)))
	wantKeys(t, joiner, db.KeyState{})
}

// TestChangeSharedKey changes the key of three copies, while secrets are stored that are sealed with
// the former one, and while another copy wants to change it for the same reason.
func TestChangeSharedKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	ctx := t.Context()
	var keys []*testKeys
	for i, n := range f.nodes {
		k := withKeys(n.d)
		keys = append(keys, k)
		for _, id := range []string{"one", "two0", "two1"} {
			if id != "one" || i < 2 { // the last copy has not received it
				k.receive(t, n.d, fmt.Sprint(i), id)
			}
		}
	}
	changed, err := f.nodes[0].d.ChangeSharedKey(ctx, "one", 5, "")
	must(t, err, reseal(ctx, f.nodes[0].d))
	wantEqual(t, changed, true)
	f.settle()
	b := connection("second", "p")
	b.Secrets = sealedWith("one", "x")
	must(t, f.nodes[1].d.CreateBroker(ctx, b))
	b.ID, b.Secrets = "foreign", []byte("sealed by the machine itself")
	wantErr(t, f.nodes[2].d.CreateBroker(ctx, b), db.ErrNoKey)
	must(t, f.nodes[2].d.CreateProject(ctx, project("works", "owner")))
	keys[2].receive(t, f.nodes[2].d, "2", "one")
	must(t, f.nodes[2].d.CreateBroker(ctx, b))
	f.settle()
	wantSecrets(t, f.nodes[0].d, "foreign", sealedWith("one", "sealed by the machine itself"))

	var writes sync.WaitGroup
	results := make([]bool, 2)
	for i, n := range f.nodes {
		for j := range 10 {
			writes.Go(func() {
				b := connection(fmt.Sprint("b", i, j), "p")
				b.Secrets = sealedWith("one", b.ID)
				if err := n.d.CreateBroker(ctx, b); err != nil {
					t.Error(err)
				}
			})
		}
		if i < len(results) {
			writes.Go(func() {
				var err error
				if results[i], err = n.d.ChangeSharedKey(ctx, fmt.Sprint("two", i), 7, ""); err != nil {
					t.Error(err)
				} else if err := reseal(ctx, n.d); err != nil {
					t.Error(err)
				}
			})
		}
	}
	writes.Wait()
	f.settle()
	now := f.nodes[0].d.KeyState()
	if results[0] == results[1] || now.Since != 7 || now.ID == "one" {
		t.Fatalf("the key was changed: %v, now it is %v", results, now)
	}
	for i, n := range f.nodes {
		wantKeys(t, n.d, now, "one", "two0", "two1")
		all, err := n.d.ListBrokers(ctx, "p")
		must(t, err)
		wantEqual(t, len(all), 1+2+30)
		for _, b := range all {
			if !bytes.HasPrefix(b.Secrets, sealedWith(now.ID, "")) {
				t.Errorf("the secret of %s is %q at copy %d", b.ID, b.Secrets, i)
			}
		}
		must(t, n.d.DropSharedKeys(ctx, time.Now().Add(3*time.Hour)))
		wantKeys(t, n.d, now, now.ID)
	}
	changed, err = f.nodes[2].d.ChangeSharedKey(ctx, "two0", 7, "")
	must(t, err)
	wantEqual(t, changed, false)
}

// TestManySecretsAreResealed changes the key of more secrets than fit into an entry of the log, while one is deleted. The
// copy that has begun loses the log: the former key stays until another copy has sealed all anew.
func TestManySecretsAreResealed(t *testing.T) {
	t.Parallel()
	const rows, size = 160, 64 << 10
	f := newFleet(t, 2)
	ctx := t.Context()
	first, second := f.nodes[0].d, f.nodes[1].d
	for _, n := range f.nodes {
		k := withKeys(n.d)
		k.receive(t, n.d, "", "one")
		k.receive(t, n.d, "", "two")
	}
	changed, err := first.ChangeSharedKey(ctx, "one", 5, "")
	must(t, err)
	wantEqual(t, changed, true)
	for i := range rows {
		b := connection(fmt.Sprint("b", i), "p")
		b.Secrets = sealedWith("one", strings.Repeat("x", size))
		must(t, first.CreateBroker(ctx, b))
	}
	must(t, reseal(ctx, first))
	f.settle()
	changed, err = first.ChangeSharedKey(ctx, "two", 6, "")
	must(t, err)
	wantEqual(t, changed, true)
	f.settle()
	f.set(func() {
		left := 4
		f.fault = func() fault {
			if left--; left < 0 {
				return unavailable
			}
			return none
		}
	})
	wantErr(t, reseal(ctx, first), db.ErrUnavailable)
	f.set(func() { f.fault = nil })
	f.settle()
	for _, d := range []*db.DB{first, second} {
		ids, err := d.KeysInUse(ctx)
		must(t, err, d.DropSharedKeys(ctx, time.Now().Add(3*time.Hour)))
		wantEqual(t, ids, []string{"one", "two"})
		wantKeys(t, d, db.KeyState{ID: "two", Since: 6}, "one", "two")
	}
	must(t, second.DeleteBroker(ctx, "p", "b1"), reseal(ctx, second))
	f.settle()
	for _, d := range []*db.DB{first, second} {
		ids, err := d.KeysInUse(ctx)
		must(t, err, d.DropSharedKeys(ctx, time.Now().Add(3*time.Hour)))
		wantEqual(t, ids, []string{"two"})
		wantKeys(t, d, db.KeyState{ID: "two", Since: 6}, "two")
		wantSecrets(t, d, "b159", sealedWith("two", strings.Repeat("x", size)))
	}
}

// TestBrokenSecretStays seals all secrets anew but one that cannot be unsealed.
func TestBrokenSecretStays(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	d, ctx := f.nodes[0].d, t.Context()
	k := withKeys(d)
	k.receive(t, d, "", "one")
	k.receive(t, d, "", "two")
	_, err := d.ChangeSharedKey(ctx, "one", 5, "")
	must(t, err, reseal(ctx, d))
	for _, plain := range []string{"a", brokenSecret, "z"} {
		b := connection(plain, "p")
		b.Secrets = sealedWith("one", plain)
		must(t, d.CreateBroker(ctx, b))
	}
	for i, lost := range []string{"other", "one", "one"} { // replaced if it is the present one
		changed, err := d.ChangeSharedKey(ctx, "two", 5, lost)
		must(t, err)
		wantEqual(t, changed, i == 1)
	}
	wantErr(t, reseal(ctx, d), errBroken)
	wantSecrets(t, d, "a", sealedWith("two", "a"))
	wantSecrets(t, d, "z", sealedWith("two", "z"))
	wantSecrets(t, d, brokenSecret, sealedWith("one", brokenSecret))
	must(t, d.DropSharedKeys(ctx, time.Now().Add(3*time.Hour)))
	wantKeys(t, d, db.KeyState{ID: "two", Since: 5}, "one", "two")
}

// TestSharedKeyIsLost changes a key that no copy has: what it has sealed stays as it is.
func TestSharedKeyIsLost(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	k := withKeys(d)
	k.receive(t, d, "A", "lost")
	must(t, d.BeginSharedKey(ctx, "lost"))
	delete(k.has, "lost")
	must(t, d.CreateBroker(ctx, connection("later", "p")))
	k.receive(t, d, "A", "new")
	must(t, d.BeginSharedKey(ctx, "new"))
	plain := string(connection("b", "p").Secrets)
	wantSecrets(t, d, "b", sealedWith("lost", plain))
	wantSecrets(t, d, "later", sealedWith("new", plain))
}

// TestSharedKeysAreBounded has another node send keys without end.
func TestSharedKeysAreBounded(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	withKeys(d).receive(t, d, "A", "first")
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = d.StoreSharedKey(ctx, db.SharedKey{ID: fmt.Sprint(i), Sealed: []byte("x")})
	}
	wantErr(t, err, db.ErrTooLarge)
	must(t, d.StoreSharedKey(ctx, db.SharedKey{ID: "first", Sealed: []byte("again")}), d.BeginSharedKey(ctx, "first"))
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
		_, keys, failed := d.SharedKeys(context.WithoutCancel(ctx))
		wantEqual(t, len(keys), 0)
		return errors.Join(err, failed)
	}))
}
