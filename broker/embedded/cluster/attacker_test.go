package cluster

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker/embedded/cluster/raftlog"
	"signalbox/scripts/suite"
)

// attacker has a copy of everything that a node had stored, and tries to use it.
type attacker struct {
	t     testing.TB
	uuid  string
	keys  []crypto.Signer
	certs []*x509.Certificate
}

// copyOf takes a copy of a node's directory while it is a member, and reads it.
func copyOf(t testing.TB, s *station) *attacker {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(filepath.Join(dir, "copy"), os.DirFS(filepath.Join(s.fleet.dir, fmt.Sprint("node", s.id), "cluster"))))
	store, err := raftlog.Open(t.Context(), filepath.Join(dir, "copy"), slog.New(slog.DiscardHandler))
	must(t, err)
	defer store.Close()
	a := &attacker{t: t, uuid: s.node.membership.Load().credentials.uuid}
	for _, name := range []string{nameIdentity, nameState} {
		text, err := store.Value(name)
		must(t, err)
		var v any
		must(t, json.Unmarshal(text, &v))
		a.search(v)
	}
	if len(a.keys) == 0 {
		t.Fatal("the node has stored no key at all")
	}
	return a
}

// search looks for keys and certificates in a document.
func (a *attacker) search(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			a.search(inner)
		}
	case []any:
		for _, inner := range v {
			a.search(inner)
		}
	case string:
		rest, _ := base64.StdEncoding.DecodeString(v)
		for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
			a.found(block)
		}
	}
}

func (a *attacker) found(block *pem.Block) {
	if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
		a.certs = append(a.certs, cert)
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		a.keys = append(a.keys, key.(crypto.Signer))
	}
}

// mint returns a certificate of a node for a key, signed by another key.
func (a *attacker) mint(r memberRef, of crypto.PublicKey, parent *x509.Certificate, signer crypto.Signer) []byte {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: fmt.Sprintf("node %v of cluster %s", r, a.uuid)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{{Scheme: scheme, Host: a.uuid, Path: "/node/" + r.String()}},
	}
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, of, signer)
	must(a.t, err)
	return der
}

// identities returns all certificates that can be made for the names of some nodes.
func (a *attacker) identities(names ...memberRef) map[string]tls.Certificate {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	all := map[string]tls.Certificate{}
	for _, r := range names {
		for i, k := range append(slices.Clone(a.keys), own) {
			by := fmt.Sprintf("%v by key %d", r, i)
			self := a.mint(r, k.Public(), nil, k)
			all[by+", self-signed"] = tls.Certificate{Certificate: [][]byte{self}, PrivateKey: k}
			leaf := a.mint(r, own.Public(), nil, k)
			all[by+", with a certificate of its own"] = tls.Certificate{Certificate: [][]byte{leaf, self}, PrivateKey: own}
			for j, parent := range a.certs {
				if pub, ok := k.Public().(*ecdsa.PublicKey); ok && pub.Equal(parent.PublicKey) {
					signed := a.mint(r, own.Public(), parent, k)
					all[fmt.Sprint(by, ", under certificate ", j)] = tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: own}
					all[fmt.Sprint(by, ", with certificate ", j)] = tls.Certificate{Certificate: [][]byte{signed, parent.Raw}, PrivateKey: own}
				}
			}
		}
	}
	return all
}

// connect opens a connection with a certificate. The other node may refuse it later.
func (a *attacker) connect(addr, protocol string, as tls.Certificate) (*tls.Conn, error) {
	raw, err := new(net.Dialer).DialContext(a.t.Context(), "tcp", addr)
	must(a.t, err)
	must(a.t, raw.SetDeadline(time.Now().Add(suite.HangLimit)))
	conn := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: a.uuid, InsecureSkipVerify: true, NextProtos: []string{protocol},
		Certificates: []tls.Certificate{as},
	})
	if err := conn.HandshakeContext(a.t.Context()); err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

// ask sends a request.
func (a *attacker) ask(addr string, as tls.Certificate, kind byte, payload string) (frame, error) {
	conn, err := a.connect(addr, protocolRPC, as)
	if err != nil {
		return frame{}, err
	}
	defer conn.Close()
	if _, err := conn.Write(frame{id: 1, kind: kind, number: 5000, payload: []byte(payload)}.append(nil)); err != nil {
		return frame{}, err
	}
	f, err := readFrame(bufio.NewReader(conn))
	if err != nil {
		return frame{}, err
	}
	return f, f.err()
}

// isLetIn reports whether a connection for raft or for data is accepted.
func (a *attacker) isLetIn(addr, protocol string, as tls.Certificate) bool {
	conn, err := a.connect(addr, protocol, as)
	if err != nil {
		return false
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// onlyReportsRemoval checks that a response reports only that the node was removed.
func onlyReportsRemoval(f frame) error {
	var got map[string]any
	if err := json.Unmarshal(f.payload, &got); err != nil {
		return err
	}
	for name, v := range got {
		empty := v == nil || v == false || v == "" || v == float64(0)
		if !empty && name != "removed" && name != "seeded" {
			return fmt.Errorf("it is told %s: %v", name, v)
		}
	}
	if f.number != 0 {
		return errors.New("it is told how far the cluster is")
	}
	return nil
}

// TestRemovedNodeHasNoPower copies everything that a node has, removes the node, and tries to
// connect with the copy: under its own name, those of members, and new ones.
func TestRemovedNodeHasNoPower(t *testing.T) {
	t.Parallel()
	received := make(chan NodeID, 100)
	f := newFleet(t)
	f.formWith(func(o *Options) {
		calm(o)
		o.Data = func(from NodeID, conn net.Conn) { received <- from; conn.Close() }
		o.Answer = func(context.Context, NodeID, []byte) ([]byte, error) { return []byte("an answer"), nil }
	}, 1, 2, 3)
	f.nodes[1].put(t, "k", "v")
	gone := f.follower()
	a := copyOf(t, gone)
	must(t, f.leader().node.RemoveNode(within(t, suite.HangLimit), gone.id))
	f.settled(2)
	f.atRest(gone)
	self := memberRef{gone.id, firstIndex}
	names := []memberRef{self, {99, firstIndex}, {gone.id, 1 << 40}, {99, 1 << 40}}
	for id, s := range f.nodes {
		if s != gone {
			names = append(names, memberRef{id, firstIndex}, memberRef{id, 1 << 40})
		}
	}
	for id, s := range f.nodes {
		if s == gone {
			continue
		}
		must(t, s.node.Await(within(t, suite.HangLimit), f.leader().node.membership.Load().fsm.appliedIndex())) // it knows of the removal
		addr, err := s.node.Addr(t.Context())
		must(t, err)
		for what, as := range a.identities(names...) {
			got, err := a.ask(addr, as, callStatus, "")
			if err != nil && got.kind == statusOK {
				continue // refused in the handshake, which is before any request and the same for all protocols
			}
			if err == nil {
				if err := onlyReportsRemoval(got); err != nil || !strings.HasPrefix(what, self.String()+" ") {
					t.Errorf("node %d, as %s: it is answered, %v", id, what, err)
				}
			}
			for kind, payload := range map[byte]string{callForward: string(write{"stolen", "yes"}.encode()), callAsk: "x", callRemove: `{"nodeid":1}`, callDissolved: "1", callRemoved: ""} {
				if got, err := a.ask(addr, as, kind, payload); err == nil {
					t.Errorf("node %d, as %s: request %d is answered %q", id, what, kind, got.payload)
				}
			}
			for _, protocol := range []string{protocolRaft, protocolData} {
				if a.isLetIn(addr, protocol, as) {
					t.Errorf("node %d, as %s: a connection for %s is kept", id, what, protocol)
				}
			}
			if t.Failed() {
				return // one is enough
			}
		}
	}
	if len(received) > 0 {
		t.Errorf("data of node %d is taken", <-received)
	}
	if got := f.leader().register.all(); got["stolen"] != "" {
		t.Error("the removed node has written")
	}
	if _, err := f.leader().node.Info(); err != nil {
		t.Errorf("the cluster is not what it was: %v", err)
	}
}

// TestRemovedNodeHoldsNothing connects a removed node: it learns of its removal by one response,
// and can neither keep the connection nor send a large request.
func TestRemovedNodeHoldsNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(calm, 1, 2, 3)
	l := f.leader()
	gone := f.follower()
	as, err := gone.node.membership.Load().credentials.show()
	must(t, err)
	a := &attacker{t: t, uuid: gone.node.membership.Load().credentials.uuid}
	must(t, l.node.RemoveNode(within(t, suite.HangLimit), gone.id))
	f.atRest(gone)
	addr, err := l.node.Addr(t.Context())
	must(t, err)
	suite.WaitFor(t, "a removed node is answered", func() bool { // unless the leader closes its former connections at that moment
		conn, err := a.connect(addr, protocolRPC, *as)
		if err != nil {
			return false
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		request := func(id uint64) (frame, error) {
			conn.Write(frame{id: id, kind: callStatus, number: 5000}.append(nil)) //nolint:errcheck // reading fails if it was not sent
			return readFrame(r)
		}
		got, err := request(0)
		if err != nil {
			return false
		}
		if err := onlyReportsRemoval(got); err != nil {
			t.Errorf("it is answered %+v: %v", got, err)
		}
		if _, err := request(1); err == nil {
			t.Error("a second request on one connection is answered")
		}
		return true
	})
	big, err := a.connect(addr, protocolRPC, *as)
	must(t, err)
	defer big.Close()
	begun := frame{id: 1, kind: callForward, number: 5000, payload: make([]byte, 1<<20)}.append(nil)
	if _, err := big.Write(begun[:64<<10]); err == nil { // the rest never comes
		_, err := readFrame(bufio.NewReader(big))
		if timeout, ok := errors.AsType[net.Error](err); err == nil || ok && timeout.Timeout() {
			t.Errorf("a request of 1 MiB is read: %v", err)
		}
	}
}

// TestUnknownConnectionsKeepNoMemberOut opens as many connections as there may be, and more. A
// member is accepted at once, and a connection that is not a member's is closed for it.
func TestUnknownConnectionsKeepNoMemberOut(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2)
	member := f.nodes[2].node.membership.Load().credentials
	p := f.nodes[1].node.port
	addr := p.listener.Addr().String()
	for range maxConns + 50 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		must(t, err)
		defer conn.Close()
	}
	as, err := member.show()
	must(t, err)
	a := &attacker{t: t, uuid: member.uuid}
	if _, err := a.ask(addr, *as, callStatus, ""); err != nil {
		t.Errorf("a member is not answered: %v", err)
	}
	unknown := 0
	p.mu.Lock()
	for g := range p.conns {
		if !g.isMember {
			unknown++
		}
	}
	p.mu.Unlock()
	if unknown < maxConns/2 {
		t.Errorf("%d unknown connections are left: more than necessary for the member were closed", unknown)
	}
}

// TestMemberSendsNoLongKey requests an invalid key, which would stay in the log, in the state of
// all nodes and in their messages.
func TestMemberSendsNoLongKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1)
	s := f.nodes[1].node.membership.Load()
	own := s.fsm.state.Load().Keys[s.credentials.self.String()].Key
	for _, key := range []string{strings.Repeat("a", 1<<20), "zz" + own[2:]} {
		if err := s.orderKey(within(t, suite.HangLimit), s.credentials.self, keyChange{Was: own, Key: key}); err == nil {
			t.Errorf("a key of %d bytes is taken", len(key))
		}
	}
}
