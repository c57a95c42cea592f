package cluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// visitor is a client that connects to a cluster port.
type visitor struct {
	t    testing.TB
	addr string
}

// ask connects with a configuration and requests the node's status. It returns the error.
func (v visitor) ask(c *tls.Config) error {
	v.t.Helper()
	raw, err := new(net.Dialer).DialContext(v.t.Context(), "tcp", v.addr)
	must(v.t, err)
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(suite.HangLimit))
	conn := tls.Client(raw, c)
	if err := conn.HandshakeContext(v.t.Context()); err != nil {
		return err
	}
	if _, err := conn.Write(frame{id: 1, kind: callStatus, number: 1000}.append(nil)); err != nil {
		return err
	}
	f, err := readFrame(bufio.NewReader(conn))
	if err != nil {
		return err
	}
	return f.err()
}

// TestUnknownConnections refuses every client that is not a node of the cluster.
func TestUnknownConnections(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2)
	s := f.nodes[1]
	addr, err := s.node.Addr(t.Context())
	must(t, err)
	v := visitor{t, addr}
	uuid := s.node.membership.Load().credentials.uuid
	visit := func(show func() (*tls.Certificate, error), protocol string) *tls.Config {
		return &tls.Config{
			MinVersion: tls.VersionTLS13, ServerName: uuid, InsecureSkipVerify: true, NextProtos: []string{protocol},
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return show() },
		}
	}
	member := f.nodes[2].node.membership.Load().credentials
	named := func(uuid string, r memberRef) func() (*tls.Certificate, error) {
		i := &identity{UUID: uuid, Self: Member{NodeID: r.id, Generation: r.generation}}
		key, err := newKey()
		must(t, err, i.setKey(key, key))
		b, err := i.credentials()
		must(t, err)
		return b.show
	}
	if err := v.ask(visit(member.show, protocolRPC)); err != nil {
		t.Fatalf("a member is refused: %v", err)
	}
	anonymous := visit(member.show, protocolRPC)
	anonymous.GetClientCertificate = nil
	elsewhere := visit(member.show, protocolRPC)
	elsewhere.ServerName = "01234567-89ab-7def-8123-456789abcdef"
	old := visit(member.show, protocolRPC)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for name, c := range map[string]*tls.Config{
		"another key of a member's name":   visit(named(uuid, memberRef{2, firstIndex}), protocolRPC),
		"another cluster's node":           visit(named("other", memberRef{2, firstIndex}), protocolRPC),
		"a node that was never added":      visit(named(uuid, memberRef{9, 1 << 40}), protocolRPC),
		"no certificate":                   anonymous,
		"to another cluster":               elsewhere,
		"TLS 1.2":                          old,
		"an unknown protocol":              visit(member.show, "http/1.1"),
		"a removed node, for data":         visit(named(uuid, memberRef{3, firstIndex}), protocolData),
		"a removed node, for MQTT":         visit(named(uuid, memberRef{3, firstIndex}), protocolMQTT),
		"a removed node, to the consensus": visit(named(uuid, memberRef{3, firstIndex}), protocolRaft),
	} {
		if err := v.ask(c); err == nil {
			t.Errorf("%s may speak", name)
		}
	}
}

// TestRemovedMayOnlyAsk notifies a removed node of its removal, and of nothing else.
func TestRemovedMayOnlyAsk(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1)
	n := f.nodes[1].node
	s := n.membership.Load()
	gone := &presented{memberRef: memberRef{9, firstIndex}, name: "9.1", keys: []string{"x"}}
	for kind, want := range map[byte]bool{callStatus: true, callForward: false, callRemove: false, callDissolved: false, callRemoved: false, callKey: false} {
		a := n.answer(t.Context(), s.credentials, gone, frame{kind: kind, payload: []byte(`{}`)})
		if got := a.err() == nil; got != want {
			t.Errorf("request %d: answered %v, want %v", kind, got, want)
		}
		if kind == callStatus {
			must(t, onlyReportsRemoval(a))
		}
	}
	if st := s.statusFor(gone.memberRef); !st.Removed {
		t.Errorf("it is told %+v", st)
	}
	if st := s.statusFor(memberRef{9, s.fsm.appliedIndex() + 1}); st.Removed {
		t.Error("who was added later than is known here counts as removed")
	}
}

// TestAnswerBeforeEnd sends a request because of which a node leaves its cluster: the request is
// still answered.
func TestAnswerBeforeEnd(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2)
	member := f.nodes[2].node.membership.Load().credentials
	p := &port{
		log: slog.New(slog.DiscardHandler), refusals: &refusals{}, handshake: suite.HangLimit,
		credentials: func(string) *credentials { return f.nodes[1].node.membership.Load().credentials },
	}
	p.answer = func(context.Context, *credentials, *presented, frame) frame {
		p.finish(member.uuid)
		return reply([]byte("done"), nil)
	}
	must(t, p.open(t.Context(), "127.0.0.1:0"))
	defer p.close()
	as, err := member.show()
	must(t, err)
	a := &attacker{t: t, uuid: member.uuid}
	got, err := a.ask(p.listener.Addr().String(), *as, callDissolved, "1")
	if err != nil || string(got.payload) != "done" {
		t.Errorf("got %q, %v", got.payload, err)
	}
}

// TestNoSecretsInLogs looks for keys in what is logged and printed.
func TestNoSecretsInLogs(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1)
	i, err := f.nodes[1].node.AddNode(within(t, suite.HangLimit), member(2))
	must(t, err)
	l := f.nodes[1].node.log
	l.Info("invited", "invitation", i)
	if said := f.log.String(); strings.Contains(said, "PRIVATE KEY") || !strings.Contains(said, "invited") {
		t.Error("a key is logged")
	}
	if strings.Contains(i.String()+i.GoString(), "PRIVATE") {
		t.Error("a key is printed")
	}
}

// TestFrames writes frames and reads them back.
func TestFrames(t *testing.T) {
	t.Parallel()
	var b []byte
	for i := range 3 {
		b = frame{id: uint64(i), kind: byte(i), number: 1 << 40, payload: bytes.Repeat([]byte{byte(i)}, i*1000)}.append(b)
	}
	r := bytes.NewReader(b)
	for i := range 3 {
		f, err := readFrame(r)
		if err != nil || f.id != uint64(i) || f.kind != byte(i) || f.number != 1<<40 || len(f.payload) != i*1000 {
			t.Errorf("frame %d is %+v, %v", i, f, err)
		}
	}
	if _, err := readFrame(r); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want %v", err, io.EOF)
	}
}

// FuzzFrame reads anything: what can be read is what would be written.
func FuzzFrame(f *testing.F) {
	f.Add(frame{id: 1, kind: callForward, number: 5, payload: []byte("request")}.append(nil))
	f.Add([]byte{0, 0, 0, 17})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		got, err := readFrame(r)
		if err != nil {
			return
		}
		if again := got.append(nil); !bytes.Equal(again, b[:len(b)-r.Len()]) {
			t.Errorf("%x is written as %x", b, again)
		}
	})
}

// FuzzHeader reads anything as the header of a snapshot.
func FuzzHeader(f *testing.F) {
	var b bytes.Buffer
	must(f, header{State: state{Format: stateFormat, UUID: "u", Members: []Member{member(1)}}, Machine: 7}.write(&b))
	f.Add(b.Bytes())
	f.Add([]byte(magic + "\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHeader(bytes.NewReader(b))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		must(t, h.write(&first))
		again, err := readHeader(&first)
		must(t, err, again.write(&second))
		must(t, h.write(&first))
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%+v is read back as %+v", h, again)
		}
	})
}

// FuzzOrder applies any order to a state: what comes of it is a state that would
// be accepted.
func FuzzOrder(f *testing.F) {
	for _, o := range []order{
		{Op: opPut, Member: member(4)}, {Op: opPut, Member: member(2), Was: 1}, {Op: opRemove, Member: Member{NodeID: 3}, Was: 1}, {Op: opDissolve},
	} {
		f.Add(o.encode()[1:])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := decodeOrder(text)
		if err != nil {
			return
		}
		old := &state{Format: stateFormat, UUID: "u", Name: "c", SyncMode: "m", Members: spec(1, 1, 2, 3).Members, Index: 1}
		for i := range old.Members {
			old.Members[i].Generation = 1
		}
		next, _, err := old.apply(9, o)
		if err != nil {
			if next != old {
				t.Errorf("what is refused changes the state to %+v", next)
			}
			return
		}
		s := Spec{Name: next.Name, SyncMode: next.SyncMode, Members: next.Members, Self: next.Members[0].NodeID}
		if err := s.Check(); err != nil || next.Index != 9 || len(old.Members) != 3 {
			t.Errorf("%s makes %+v of it: %v", text, next, err)
		}
	})
}

// FuzzRef reads names of nodes: one node has one name.
func FuzzRef(f *testing.F) {
	f.Add("3.118@host:7000")
	f.Add("03.1@h:1")
	f.Add("1.18446744073709551616@h:1")
	f.Fuzz(func(t *testing.T, s string) {
		name, _, _ := strings.Cut(s, "@")
		if r, ok := parseMemberRef(name); ok && r.String() != name {
			t.Errorf("%q is read as %v", name, r)
		}
	})
}
