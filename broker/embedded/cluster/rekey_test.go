package cluster

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"signalbox/scripts/suite"
)

// stopping is a Sealer that notifies the test when a node is about to store its keys for the n-th
// time, and waits for the test.
type stopping struct {
	reversed
	calls   *atomic.Int64
	at      int64
	reached chan struct{}
	goOn    chan struct{}
}

func (s stopping) Seal(plain, aad []byte) []byte {
	if s.calls.Add(1) == s.at {
		close(s.reached)
		<-s.goOn
	}
	return s.reversed.Seal(plain, aad)
}

// TestKilledWhileKeyChanges kills a node at each step in which it replaces the key of its invitation
// by its own: it continues where it was.
func TestKilledWhileKeyChanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at       int64 // one key is stored when the node joins, two with the next one, one when that is used
		isStored bool
	}{
		"before the next key is stored": {at: 2}, "after the next key is stored": {at: 3, isStored: true},
		"before the next key is used": {at: 4}, "after the next key is used": {at: 4, isStored: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t).form(1)
			s := stopping{reversed{7}, new(atomic.Int64), test.at, make(chan struct{}), make(chan struct{})}
			sealed := func(o *Options) { o.Seal = s }
			f.start(2, sealed)
			invitation, err := f.nodes[1].node.AddNode(within(t, suite.HangLimit), member(2))
			must(t, err, f.nodes[2].node.Join(within(t, suite.HangLimit), spec(2, 1, 2), invitation))
			<-s.reached
			f.network.isolate(2) // so that nothing of what follows is heard of
			dir, before := filepath.Join(f.dir, "node2"), filepath.Join(t.TempDir(), "before")
			must(t, os.CopyFS(before, os.DirFS(dir)))
			close(s.goOn)
			if test.isStored {
				eventually(t, func() error {
					if id := f.nodes[2].node.membership.Load().current.Load(); id.Next == nil && !id.Own {
						return errors.New("nothing is stored yet")
					}
					return nil
				})
			}
			f.nodes[2].kill()
			if !test.isStored {
				f.nodes[2].lose()
				must(t, os.CopyFS(dir, os.DirFS(before)))
			}
			f.network.mend(2)
			f.start(2, sealed)
			f.settled(2)
			f.nodes[2].put(t, "k", "v")
		})
	}
}

// TestRequestsShowTheOwnKey checks that a node uses another connection for requests as soon as it has
// another key: the other node closes the one with the former key, even during a request.
func TestRequestsShowTheOwnKey(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(func(o *Options) { o.Timing.Call = suite.HangLimit }, 1, 2)
	s := f.nodes[2].node.membership.Load()
	eventually(t, func() error {
		if id := s.current.Load(); !id.Own || s.fsm.state.Load().Keys[s.credentials.self.String()].Former != "" {
			return errors.New("the former key has not ended")
		}
		return nil
	})
	connection := func() *rpcConn {
		l, err := s.askConns.get(within(t, suite.HangLimit), s.others()[0])
		must(t, err)
		return l
	}
	before := connection()
	if connection() != before {
		t.Fatal("each request has a connection of its own")
	}
	same := *s.credentials.own.Load()
	s.credentials.own.Store(&same)
	if connection() == before {
		t.Error("the connection on which the former key was shown is still used")
	}
}

// TestCertificateOfTheFormerKey signs a certificate of connections with the node's former key while
// that is replaced: it is not used afterwards, because no node trusts that key then.
func TestCertificateOfTheFormerKey(t *testing.T) {
	t.Parallel()
	c := newFleet(t).form(1).nodes[1].node.membership.Load().credentials
	former, err := c.newLeaf(c.clock.time())
	must(t, err)
	next := *c.own.Load()
	c.own.Store(&next)
	c.leaf.Store(former) // by a call that had begun before
	shown, err := c.show()
	must(t, err)
	if shown == &former.Certificate {
		t.Error("the certificate that the former key has signed is shown")
	}
}

// TestKeyReplacedAfterHandshake replaces the key of a node between the handshake of a connection and its
// first use: the connection continues, as each that was open before.
func TestKeyReplacedAfterHandshake(t *testing.T) {
	t.Parallel()
	s := newFleet(t).form(1, 2).nodes[1].node.membership.Load()
	other := s.others()[0]
	id := s.current.Load().withPins(s.fsm.state.Load())
	b, err := id.credentials()
	must(t, err)
	known := id.state()
	b.dial, b.known = s.credentials.dial, func() *state { return known }
	conn, err := dial(within(t, suite.HangLimit), b, other.ref(), other.hostPort(), protocolRPC)
	must(t, err)
	defer conn.Close()
	known.setKey(other, pin{Key: strings.Repeat("0", 64)})
	if _, err := conn.Write([]byte{0}); err != nil {
		t.Error(err)
	}
}

// TestMessageAfterKeyWasReplaced sends a message of raft's over a connection on which the other node has
// shown a key that was replaced long ago: it is answered, because a new connection is opened first.
func TestMessageAfterKeyWasReplaced(t *testing.T) {
	t.Parallel()
	s := newFleet(t).form(1, 2).nodes[1].node.membership.Load()
	layer := newStreamLayer(t.Context(), s.credentials, s.id.Self.serverAddress(), suite.HangLimit)
	transport := raft.NewNetworkTransport(layer, 1, suite.HangLimit, io.Discard)
	defer transport.Close()
	other := s.others()[0].server(raft.Voter)
	send := func() error {
		beat := heartbeat(raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, 0)
		return transport.AppendEntries(other.ID, other.Address, &beat, new(raft.AppendEntriesResponse))
	}
	must(t, send())
	former := map[*outboundConn]bool{}
	for c := range layer.out.all {
		peer := c.Conn.(*scaledConn).Conn.(checked).peer
		peer.keys = []string{strings.Repeat("0", 64)}
		peer.replaced.Store(new(time.Time))
		former[c] = true
	}
	must(t, send())
	for c := range layer.out.all {
		if former[c] || len(layer.out.all) != 1 {
			t.Errorf("the former connection is open still, of %d", len(layer.out.all))
		}
	}
}
