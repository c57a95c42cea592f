package cluster

import (
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crypto/rand"

	"github.com/hashicorp/raft"

	"signalbox/broker/embedded/cluster/raftlog"
	"signalbox/scripts/suite"
)

// authority returns the authority of a cluster of an earlier release, whose key all members have.
func authority(t testing.TB, s *state) {
	t.Helper()
	key, err := newKey()
	must(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster " + s.UUID}, NotBefore: notBefore, NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	must(t, err)
	s.Format, s.CACert, s.Keys = authorityFormat, encodeCerts(der), nil
	s.CAKey, err = encodeKey(key)
	must(t, err)
}

// formOld stores, in the directories of some nodes, a cluster as an earlier release has created it:
// of one voter, which adds the others.
func (f *fleet) formOld(ids ...NodeID) *state {
	f.t.Helper()
	known, err := newClusterState(spec(ids[0], ids...))
	must(f.t, err)
	authority(f.t, known)
	for _, m := range known.Members {
		id, err := known.identify(m)
		must(f.t, err)
		id.Keys = nil
		f.storeOld(known, id, m.NodeID == ids[0])
	}
	return known
}

func (f *fleet) storeOld(known *state, id *identity, first bool) {
	f.t.Helper()
	dir := filepath.Join(f.dir, fmt.Sprint("node", id.Self.NodeID))
	must(f.t, os.MkdirAll(dir, 0o700))
	store, err := raftlog.Open(f.t.Context(), filepath.Join(dir, "cluster"), slog.New(slog.DiscardHandler))
	must(f.t, err)
	defer store.Close()
	if !first {
		must(f.t, store.Clear(raftlog.Changes{nameIdentity: id.encode(nil)}))
		return
	}
	r := openRegister(f.t, filepath.Join(dir, "register.db"))
	n := &Node{options: Options{Machine: r}, store: store}
	must(f.t, n.bootstrap(context.Background(), known, id), r.close())
}

var _ raft.FSM = (*fsm)(nil)

// TestUpgrade starts the nodes of a cluster that an earlier release has created, one after the
// other. Once all of them run, the authority's key is not trusted, each node has a key of its own,
// and the cluster continues.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.formOld(1, 2, 3)
	f.start(1)
	f.leader()
	f.start(2)
	eventually(t, func() error {
		if got := f.leader(1, 2).node.Figures().Voters; got != 2 {
			return fmt.Errorf("there are %d voters", got)
		}
		return nil
	})
	f.nodes[2].put(t, "k", "v")
	if f.nodes[1].node.membership.Load().fsm.state.Load().Keys != nil {
		t.Fatal("members are known by their keys though one has not answered yet")
	}
	a := copyOf(t, f.nodes[2])
	f.start(3)
	f.settled(3)
	f.nodes[3].put(t, "l", "w")
	f.agree(map[string]string{"k": "v", "l": "w"})
	for id, s := range f.nodes {
		if known := s.node.membership.Load().fsm.state.Load(); known.CAKey != nil || known.Format != keyedFormat {
			t.Errorf("node %d still has the authority's key", id)
		}
	}
	addr, err := f.nodes[1].node.Addr(t.Context())
	must(t, err)
	for what, as := range a.identities(memberRef{2, firstIndex}, memberRef{3, firstIndex}, memberRef{9, 1 << 40}) {
		if _, err := a.ask(addr, as, callForward, string(write{"stolen", "yes"}.encode())); err == nil {
			t.Errorf("with what node 2 knew before, %s is served", what)
		}
	}
	for _, s := range f.nodes {
		s.close()
	}
	for id := range f.nodes {
		f.start(id)
	}
	f.settled(3)
	f.agree(map[string]string{"k": "v", "l": "w", "stolen": ""})
}

// TestUpgradeWhileAway restarts a node that was away when the others replaced the authority by keys,
// and changed their keys since.
func TestUpgradeWhileAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.formOld(1, 2, 3)
	for id := range NodeID(3) {
		f.start(id + 1)
	}
	f.settled(3)
	away := f.follower()
	before := filepath.Join(t.TempDir(), "before")
	away.kill()
	dir := filepath.Join(f.dir, fmt.Sprint("node", away.id))
	must(t, os.CopyFS(before, os.DirFS(dir)))
	store, err := raftlog.Open(t.Context(), filepath.Join(dir, "cluster"), slog.New(slog.DiscardHandler))
	must(t, err)
	text, err := store.Value(nameIdentity)
	must(t, err)
	if !bytes.Contains(text, []byte(`"own":true`)) {
		t.Errorf("the node has stored %s", text)
	}
	must(t, store.Close())
	f.start(away.id)
	f.settled(3)
}

// TestInvitationEnds checks that the key of an invitation is refused once the invited node takes
// part.
func TestInvitationEnds(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1)
	f.start(2)
	invitation, err := f.nodes[1].node.AddNode(within(t, suite.HangLimit), member(2))
	must(t, err, f.nodes[2].node.Join(within(t, suite.HangLimit), spec(2, 1, 2), invitation))
	f.settled(2)
	must(t, f.nodes[1].node.Await(within(t, suite.HangLimit), f.nodes[2].node.membership.Load().fsm.appliedIndex())) // it knows of the node's own key
	id, err := invitation.accept(spec(2, 1, 2))
	must(t, err)
	b, err := id.credentials()
	must(t, err)
	as, err := b.show()
	must(t, err)
	addr, err := f.nodes[1].node.Addr(t.Context())
	must(t, err)
	a := &attacker{t: t, uuid: invitation.UUID}
	if got, err := a.ask(addr, *as, callStatus, ""); err == nil {
		t.Errorf("the invitation is still good, and answered %s", got.payload)
	}
}

// reversed is a Sealer that only reverses the bytes.
type reversed struct{ key byte }

func (r reversed) Seal(plain, aad []byte) []byte {
	out := append([]byte{r.key, byte(len(aad))}, aad...)
	for _, b := range plain {
		out = append(out, b^0x55)
	}
	return out
}

func (r reversed) Unseal(sealed, aad []byte) ([]byte, error) {
	front := append([]byte{r.key, byte(len(aad))}, aad...)
	rest, ok := bytes.CutPrefix(sealed, front)
	if !ok {
		return nil, fmt.Errorf("another key")
	}
	var out []byte
	for _, b := range rest {
		out = append(out, b^0x55)
	}
	return out, nil
}

// TestKeyIsSealed seals the node's stored key, also one that was stored in plain text.
func TestKeyIsSealed(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1)
	s := f.nodes[1]
	if text, err := s.node.store.Value(nameIdentity); err != nil || !bytes.Contains(text, []byte(`"key":`)) {
		t.Fatalf("without a sealer, %q is stored, %v", text, err)
	}
	s.close()
	sealed := func(key byte) func(*Options) { return func(o *Options) { o.Seal = reversed{key} } }
	s = f.start(1, sealed(7))
	f.settled(1)
	for _, name := range []string{nameIdentity, nameState} {
		text, err := s.node.store.Value(name)
		must(t, err)
		a := &attacker{t: t}
		a.search(strings.Trim(string(text), `"`))
		if len(a.keys) > 0 || bytes.Contains(text, []byte(`"key":"LS0t`)) {
			t.Errorf("a key is stored as it is: %s", text)
		}
	}
	s.close()
	n, err := Reseal(t.Context(), filepath.Join(f.dir, "node1", "cluster"), func(sealed, aad []byte) ([]byte, error) {
		plain, err := reversed{7}.Unseal(sealed, aad)
		return reversed{9}.Seal(plain, aad), err
	})
	if err != nil || n != 1 {
		t.Errorf("%d keys are sealed in another way: %v", n, err)
	}
	f.start(1, sealed(9))
	f.settled(1)
	f.nodes[1].close()
	o := Options{Dir: filepath.Join(f.dir, "node1", "cluster"), Listen: "127.0.0.1:0", Machine: openRegister(t, filepath.Join(f.dir, "node1", "register.db")), Seal: reversed{8}}
	opened, err := Open(t.Context(), o)
	if err == nil {
		must(t, opened.Close(t.Context()))
		t.Fatal("a key that was sealed with another one is opened")
	}
	must(t, o.Machine.(*register).close())
	if !strings.Contains(err.Error(), "put the key file back") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}
