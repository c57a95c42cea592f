package appliance

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker/embedded"
	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/handlers/vault"
	"signalbox/router/appliance/doctor"
)

// keyNode is a node whose database is shared, with a machine key of its own.
type keyNode struct {
	sharedDatabase
	dir     string
	id      int
	of      *keyFleet
	leads   bool
	removal uint64 // as far as it has applied the cluster's own state
	away    bool   // it does not answer
	ended   bool   // it is in no cluster any more

	sharesMessages bool
}

// keyFleet are nodes that share a log, which is in memory.
type keyFleet struct {
	t     *testing.T
	nodes []*keyNode

	mu       sync.Mutex // guards what follows
	log      [][]byte
	refuse   bool // changes
	allowed  int  // changes before they are refused; 0 for any number
	members  []int
	readable [][]byte // keys that must be in no file
}

// newKeyFleet starts nodes with databases of their own; only the first one has joined.
func newKeyFleet(t *testing.T, size int) *keyFleet {
	t.Helper()
	f := &keyFleet{t: t}
	for i := range size {
		n := &keyNode{dir: t.TempDir(), id: i + 1, of: f}
		d := dbtest.Open(t, filepath.Join(n.dir, databaseFile))
		machine, err := vault.Open(filepath.Join(n.dir, keyFile), true)
		must(t, err)
		keys, err := openKeys(t.Context(), d, machine)
		must(t, err)
		n.sharedDatabase = sharedDatabase{d, keys, openDefinitions(t, n.dir, d, keys, machine), newLeading(d, slog.New(slog.DiscardHandler)), n.dir}
		must(t, d.CreateUser(t.Context(), db.User{ID: "u", Email: fmt.Sprint("u", i), CreatedAt: time.Now()}),
			d.CreateProject(t.Context(), db.Project{ID: "p", OwnerID: "u", CreatedAt: time.Now()}))
		f.nodes = append(f.nodes, n)
	}
	first := f.nodes[0]
	first.create("first")
	must(t, first.Begin(t.Context(), first))
	f.members = []int{1}
	first.restoreFrom(first)
	first.wantSecret("first")
	return f
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// join has a node receive the content, and not yet the key.
func (f *keyFleet) join(n *keyNode) {
	f.t.Helper()
	must(f.t, n.Begin(f.t.Context(), n))
	f.mu.Lock()
	f.members = append(f.members, n.id)
	f.mu.Unlock()
	n.restoreFrom(f.nodes[0])
	n.removal = f.nodes[0].removal
}

func (n *keyNode) restoreFrom(from *keyNode) {
	t := n.of.t
	t.Helper()
	s, err := from.Snapshot(t.Context())
	must(t, err)
	defer s.Release()
	var sent bytes.Buffer
	_, err = s.WriteTo(&sent)
	must(t, err)
	n.of.wantUnreadable("a snapshot", sent.Bytes())
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	must(t, n.Restore(t.Context(), uint64(len(n.of.log)+1), &sent))
}

// Propose implements embedded.SharedLog.
func (n *keyNode) Propose(ctx context.Context, entry []byte) (result []byte, err error) {
	f := n.of
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse {
		return nil, fmt.Errorf("%w: there is no leader", db.ErrUnavailable)
	}
	if f.allowed--; f.allowed == 0 {
		f.refuse = true
	}
	f.log = append(f.log, entry)
	for _, id := range f.members {
		of := f.nodes[id-1]
		r, err := of.Apply(ctx, uint64(len(f.log)+1), entry)
		if err != nil {
			return nil, err
		}
		if of == n {
			result = r
		}
	}
	return result, nil
}

// SharesMessages implements embedded.SharedLog.
func (n *keyNode) SharesMessages() bool { return n.sharesMessages }

// Sync implements embedded.SharedLog.
func (n *keyNode) Sync(context.Context) error { return nil }

// Leads implements embedded.SharedMembers, as those below.
func (n *keyNode) Leads() bool { return n.leads }

func (n *keyNode) Removal() uint64 { return n.removal }

func (n *keyNode) Others() (voters, others []int, err error) {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	if n.ended {
		return nil, nil, errors.New("the node is in no cluster")
	}
	others = slices.DeleteFunc(slices.Clone(n.of.members), func(id int) bool { return id == n.id })
	return others, others, nil
}

func (n *keyNode) Ask(ctx context.Context, nodeID int, request []byte) ([]byte, error) {
	to := n.of.nodes[nodeID-1]
	if to.away {
		return nil, errors.New("it cannot be reached")
	}
	return to.Answer(ctx, to, request)
}

// create stores a connection with a password.
func (n *keyNode) create(id string) {
	n.of.t.Helper()
	must(n.of.t, n.CreateBroker(n.of.t.Context(), db.Broker{ID: id, ProjectID: "p", Type: "self-hosted", Name: id, URL: "mqtt://x",
		Secrets: n.Seal([]byte("password of "+id), []byte(id)), CreatedAt: time.Now(), UpdatedAt: time.Now()}))
}

// createLong stores a connection with a secret of a size in bytes.
func (n *keyNode) createLong(id string, size int) {
	n.of.t.Helper()
	must(n.of.t, n.CreateBroker(n.of.t.Context(), db.Broker{ID: id, ProjectID: "p", Type: "self-hosted", Name: id, URL: "mqtt://x",
		Secrets: n.Seal(bytes.Repeat([]byte("x"), size), []byte(id)), CreatedAt: time.Now(), UpdatedAt: time.Now()}))
}

func (n *keyNode) wantKeysInUse(want ...string) {
	n.of.t.Helper()
	got, err := n.KeysInUse(n.of.t.Context())
	must(n.of.t, err)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		n.of.t.Errorf("node %d: secrets are sealed with the keys %v, want %v", n.id, got, want)
	}
}

// secret reads the password of a connection.
func (n *keyNode) secret(id string) (string, error) {
	b, err := n.GetBroker(n.of.t.Context(), "p", id)
	if err != nil {
		return "", err
	}
	plain, err := n.Unseal(b.Secrets, []byte(id))
	return string(plain), err
}

func (n *keyNode) wantSecret(ids ...string) {
	n.of.t.Helper()
	for _, id := range ids {
		if got, err := n.secret(id); err != nil || got != "password of "+id {
			n.of.t.Errorf("node %d: got %q, %v for %s", n.id, got, err, id)
		}
	}
}

// wantNoKey checks that a node reads no secret, and that everything else works.
func (n *keyNode) wantNoKey(id string) {
	n.of.t.Helper()
	if got, err := n.secret(id); !errors.Is(err, db.ErrNoKey) {
		n.of.t.Errorf("node %d: got %q, %v", n.id, got, err)
	}
	err := n.CreateBroker(n.of.t.Context(), db.Broker{ID: "refused", ProjectID: "p", Type: "self-hosted", Name: "x", URL: "mqtt://x", Secrets: n.Seal([]byte("x"), []byte("refused"))})
	if !errors.Is(err, db.ErrNoKey) {
		n.of.t.Errorf("node %d: got %v", n.id, err)
	}
	name := fmt.Sprint(n.id, " at ", n.AppliedIndex())
	must(n.of.t, n.CreateProject(n.of.t.Context(), db.Project{ID: name, OwnerID: "u", CreatedAt: time.Now()}))
}

func (n *keyNode) maintain() error { return n.Maintain(n.of.t.Context(), n) }

// key returns the present key of a node.
func (n *keyNode) key() []byte {
	n.of.t.Helper()
	key, err := n.ring.Export(n.KeyState().ID)
	must(n.of.t, err)
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	n.of.readable = append(n.of.readable, key)
	return key
}

// wantUnreadable checks that no key is in what is stored or sent.
func (f *keyFleet) wantUnreadable(what string, text []byte) {
	f.t.Helper()
	for _, key := range f.readable {
		for _, form := range []string{string(key), hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)),
			base64.RawStdEncoding.EncodeToString(key), base64.RawURLEncoding.EncodeToString(key)} {
			if bytes.Contains(text, []byte(form)) {
				f.t.Errorf("%s has a key", what)
			}
		}
	}
}

// check looks for the keys in all files of all nodes, and in the log.
func (f *keyFleet) check() {
	f.t.Helper()
	for _, entry := range f.log {
		f.wantUnreadable("an entry of the log", entry)
	}
	files := 0
	for _, n := range f.nodes {
		must(f.t, fs.WalkDir(os.DirFS(n.dir), ".", func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(filepath.Join(n.dir, path))
			f.wantUnreadable(path+fmt.Sprint(" of node ", n.id), text)
			files++
			return err
		}))
	}
	if files < 4*len(f.nodes) || len(f.readable) == 0 {
		f.t.Errorf("%d files were searched for %d keys", files, len(f.readable))
	}
}

// TestKeyIsReceived has nodes join that receive the key late, and from a node that is behind.
func TestKeyIsReceived(t *testing.T) {
	t.Parallel()
	f := newKeyFleet(t, 3)
	first, second, third := f.nodes[0], f.nodes[1], f.nodes[2]
	first.key()
	must(t, first.maintain())
	second.create("own")
	first.away = true
	f.join(second)
	if err := second.maintain(); err == nil || !strings.Contains(err.Error(), "has not received the key") {
		t.Errorf("got %v", err)
	}
	second.wantNoKey("first")

	// The process ends before it has the key.
	machine, err := vault.Open(filepath.Join(second.dir, keyFile), false)
	must(t, err)
	keys, err := openKeys(t.Context(), second.DB, machine)
	must(t, err)
	second.sharedKeys = keys
	second.wantNoKey("first")
	f.join(third)
	if err := third.maintain(); err == nil {
		t.Error("a node without the key has sent it")
	}
	first.away = false
	must(t, second.maintain())
	first.away = true
	must(t, third.maintain()) // from the second one
	for _, n := range f.nodes {
		must(t, n.maintain())
		n.create(fmt.Sprint("by", n.id))
	}
	for _, n := range f.nodes {
		n.wantSecret("first", "by1", "by2", "by3")
		if !bytes.Equal(n.key(), first.key()) {
			t.Errorf("node %d has another key", n.id)
		}
	}
	f.check()
}

// TestKeyIsReplaced removes a member while others are away, and while leaders end.
func TestKeyIsReplaced(t *testing.T) {
	t.Parallel()
	f := newKeyFleet(t, 4)
	first, second, third, gone := f.nodes[0], f.nodes[1], f.nodes[2], f.nodes[3]
	for _, n := range f.nodes[1:] {
		f.join(n)
		must(t, n.maintain())
	}
	before := first.key()
	f.members = []int{1, 2, 3}
	first.leads, first.removal = true, 7
	if err := first.maintain(); err == nil || !strings.Contains(err.Error(), "majority") {
		t.Errorf("nodes that do not know of the removal have stored the new key: %v", err)
	}
	second.removal, third.away = 7, true
	f.refuse = true
	if err := first.maintain(); !errors.Is(err, db.ErrUnavailable) {
		t.Errorf("got %v while nothing can be changed", err)
	}
	for _, n := range f.nodes {
		if !bytes.Equal(n.key(), before) {
			t.Errorf("node %d has another key", n.id)
		}
	}

	// The next leader goes on.
	f.refuse, first.leads, second.leads = false, false, true
	must(t, second.maintain())
	after := second.key()
	if bytes.Equal(after, before) || !bytes.Equal(after, first.key()) || second.KeyState().Since != 7 {
		t.Error("the key was not replaced")
	}
	third.wantNoKey("first")
	third.away, third.removal = false, 7
	must(t, third.maintain(), second.maintain(), first.maintain())
	for _, n := range []*keyNode{first, second, third} {
		n.wantSecret("first")
		n.create(fmt.Sprint("by", n.id))
		if !bytes.Equal(n.key(), after) {
			t.Errorf("node %d has another key than the next leader", n.id)
		}
	}
	first.leads, second.leads = true, false
	must(t, first.maintain()) // nothing is left to be done
	if !bytes.Equal(first.key(), after) {
		t.Error("the key was replaced twice")
	}
	must(t, gone.End(t.Context()))
	gone.wantSecret("first")
	gone.create("alone")
	gone.wantSecret("alone")
	if !bytes.Equal(gone.key(), before) {
		t.Error("the node that has left has another key")
	}
	if _, err := gone.ring.Export(second.KeyState().ID); !errors.Is(err, vault.ErrNoKey) {
		t.Errorf("the node that has left has the new key: %v", err)
	}
	f.check()

	// It begins anew with a key that the others do not know.
	must(t, gone.Begin(t.Context(), gone))
	if bytes.Equal(gone.key(), before) {
		t.Error("a new cluster begins with a key of another one")
	}
	gone.wantSecret("first", "alone")
	f.check()
}

// TestManySecretsAreResealed has a leader end while it seals secrets with a new key, which takes several changes. A node that
// joins then receives both keys, and seals the rest when it leads.
func TestManySecretsAreResealed(t *testing.T) {
	t.Parallel()
	f := newKeyFleet(t, 4)
	first, second, third, last := f.nodes[0], f.nodes[1], f.nodes[2], f.nodes[3]
	f.join(second)
	must(t, second.maintain())
	const size = 300 << 10 // bytes
	for i := range 10 {
		first.createLong(fmt.Sprint("long", i), size)
	}
	before := first.KeyState().ID
	first.leads, first.removal, second.removal = true, 7, 7
	f.allowed = 2
	if err := first.maintain(); !errors.Is(err, db.ErrUnavailable) || !strings.Contains(err.Error(), "not all secrets") {
		t.Errorf("got %v", err)
	}
	f.refuse, first.leads, first.away = false, false, true
	after := second.KeyState().ID
	if after == before {
		t.Fatal("the key was not replaced")
	}
	second.wantKeysInUse(before, after)
	f.join(third)
	second.away = true
	if err := third.maintain(); err == nil {
		t.Error("a node has keys that none has sent")
	}
	second.away = false
	must(t, third.maintain())
	third.wantSecret("first")
	third.wantKeysInUse(before, after)
	second.away, third.leads = true, true
	must(t, third.maintain())
	for _, n := range []*keyNode{first, second, third} {
		n.wantKeysInUse(after)
		n.wantSecret("first")
		if got, err := n.secret("long9"); err != nil || len(got) != size {
			t.Errorf("node %d: got a secret of %d bytes, %v", n.id, len(got), err)
		}
	}
	f.join(last)
	must(t, last.maintain())
	if _, err := last.ring.Export(before); !errors.Is(err, vault.ErrNoKey) {
		t.Errorf("a node has received a former key that it does not need: %v", err)
	}
}

// loseKey deletes the keys that a node has.
func (n *keyNode) loseKey() {
	t := n.of.t
	t.Helper()
	must(t, n.ring.Use(n.KeyState().ID, nil))
	file, err := sql.Open("sqlite", filepath.Join(n.dir, databaseFile))
	must(t, err)
	_, err = file.ExecContext(t.Context(), "DELETE FROM shared_keys")
	must(t, err, file.Close())
}

// TestKeyIsLost has a key that no node has any more. New secrets can be stored as soon as all have
// answered.
func TestKeyIsLost(t *testing.T) {
	t.Parallel()
	f := newKeyFleet(t, 3)
	first, second, third := f.nodes[0], f.nodes[1], f.nodes[2]
	f.join(second)
	first.loseKey()
	first.leads, second.away = true, true
	if err := first.maintain(); err == nil {
		t.Error("a key is replaced that another node may have")
	}
	first.wantNoKey("first")
	first.ended = true
	if err := first.maintain(); err == nil {
		t.Error("a key is replaced by a node that does not know the others")
	}
	first.ended, second.away = false, false
	must(t, first.maintain())
	if got, err := first.secret("first"); !errors.Is(err, db.ErrNoKey) {
		t.Errorf("got %q, %v", got, err)
	}
	first.create("new")
	must(t, second.maintain())
	second.wantSecret("new")
	f.join(third)
	must(t, third.maintain())
	third.wantSecret("new")
	removal := first.KeyState().Since + 1
	first.removal, second.removal, third.removal = uint64(removal), uint64(removal), uint64(removal)
	must(t, first.maintain())
	second.wantSecret("new")
	if first.KeyState().Since != removal {
		t.Errorf("the key was not replaced: %+v", first.KeyState())
	}
}

// TestKeyIsNotSentBehind asks a node that has the content, and not yet applied a removal.
func TestKeyIsNotSentBehind(t *testing.T) {
	t.Parallel()
	f := newKeyFleet(t, 2)
	first, second := f.nodes[0], f.nodes[1]
	f.join(second)
	must(t, second.maintain())
	first.leads, first.removal, second.removal = true, 7, 7
	must(t, first.maintain())
	id := first.KeyState().ID
	second.removal = 6
	if got, err := second.Answer(t.Context(), second, fmt.Appendf(nil, `{"id":%q}`, id)); err == nil {
		t.Errorf("got a response of %d bytes", len(got))
	}
	for _, request := range []string{"", "{}", `{"id":"x"}`, fmt.Sprintf(`{"id":%q,"key":"AAAA"}`, id), `{"id":"x","key":"AAAA","removal":9}`} {
		if got, err := first.Answer(t.Context(), first, []byte(request)); err == nil && string(got) != "{}" {
			t.Errorf("%q: got a response of %d bytes", request, len(got))
		}
	}
}

var _ interface {
	embedded.SharedLog
	embedded.SharedMembers
} = (*keyNode)(nil)

// TestSupportBundleKnowsSharedSecrets has a bundle know the passwords that are sealed with a key of the database, and
// doctor open them.
func TestSupportBundleKnowsSharedSecrets(t *testing.T) {
	t.Parallel()
	n := newKeyFleet(t, 1).nodes[0]
	c := DefaultConfig()
	c.DataDir = n.dir
	if all := storedSecrets(t.Context(), c); !slices.Contains(all, "password of first") {
		t.Errorf("%d secrets are known, and not that of the connection", len(all))
	}
	e := &examination{c: c}
	e.findings = e.databases(t.Context())
	if found := e.secrets(t.Context()); len(found) != 1 || found[0].Level != doctor.OK || !strings.Contains(found[0].Text, "all 2 secrets") {
		t.Errorf("doctor found %+v", found)
	}
}
