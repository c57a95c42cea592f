package cluster

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// wire connects raft nodes of one process, without the system's network, so that
// they can run in virtual time.
type wire struct {
	mu       sync.Mutex
	cut      raft.ServerAddress // this one is cut off; "" for none
	incoming map[raft.ServerAddress]chan net.Conn
	conns    map[net.Conn]raft.ServerAddress // their other ends
	closed   chan struct{}
}

func newWire() *wire {
	return &wire{incoming: map[raft.ServerAddress]chan net.Conn{}, conns: map[net.Conn]raft.ServerAddress{}, closed: make(chan struct{})}
}

// wireEnd is the wire at one node.
type wireEnd struct {
	*wire
	at raft.ServerAddress
}

var errCut = errors.New("the node is cut off")

func (w wireEnd) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == to || w.cut == w.at {
		w.mu.Unlock()
		<-time.After(min(timeout, 2*time.Second)) // as a connection that is not answered
		w.mu.Lock()
		return nil, errCut
	}
	near, far := net.Pipe()
	w.conns[near], w.conns[far] = to, w.at
	select {
	case w.incoming[to] <- far:
		return near, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w wireEnd) Accept() (net.Conn, error) {
	select {
	case c := <-w.incoming[w.at]:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w wireEnd) Close() error   { return nil }
func (w wireEnd) Addr() net.Addr { return address(w.at) }

// isolate cuts a node off, "" none.
func (w *wire) isolate(at raft.ServerAddress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = at
	for c, to := range w.conns {
		if at != "" && to == at {
			c.Close()
			delete(w.conns, c)
		}
	}
}

func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.closed)
	for c := range w.conns {
		c.Close()
	}
}

// nothing is a machine without state.
type nothing struct{}

func (nothing) Apply(*raft.Log) any                 { return nil }
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.ErrUnsupported }
func (nothing) Restore(r io.ReadCloser) error       { return r.Close() }

// wired starts raft nodes on a wire, with the timing and the transport of the
// product; a heartbeat timeout of 0 is the default.
func wired(t *testing.T, w *wire, heartbeat time.Duration, all ...raft.ServerAddress) (nodes []*raft.Raft) {
	var servers []raft.Server
	for _, at := range all {
		w.incoming[at] = make(chan net.Conn, 16)
		servers = append(servers, raft.Server{ID: raft.ServerID(at), Address: at})
	}
	for _, at := range all {
		o := Options{Log: slog.New(slog.DiscardHandler), Timing: Timing{Heartbeat: heartbeat}}
		o.fill()
		s := &membership{node: &Node{options: o, log: o.Log}, ctx: t.Context()}
		log := raftLog(o.Log, time.Now)
		s.trans = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: wireEnd{w, at}, MaxPool: 3, Timeout: o.Timing.Transport, Logger: log, MaxRPCsInFlight: 1,
		})
		c := raft.DefaultConfig()
		c.LocalID, c.Logger = raft.ServerID(at), log
		c.HeartbeatTimeout, c.ElectionTimeout = o.Timing.Heartbeat, o.Timing.Election
		c.LeaderLeaseTimeout, c.CommitTimeout = o.Timing.Lease, o.Timing.Commit
		store, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
		trans := transport{s.trans, s, s.trans.Consumer()}
		must(t, raft.BootstrapCluster(c, store, store, snapshots, trans, raft.Configuration{Servers: servers}))
		var err error
		s.raft, err = raft.NewRaft(c, nothing{}, store, store, snapshots, trans)
		must(t, err)
		nodes = append(nodes, s.raft)
	}
	return nodes
}

// TestReplicationAfterPartition isolates a follower for minutes. It receives the log as soon as it is
// in contact again: raft's own pauses would be up to ten seconds.
func TestReplicationAfterPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		all := []raft.ServerAddress{"1", "2", "3"}
		nodes := wired(t, w, 0, all...)
		<-time.After(10 * time.Second)
		for round := range 4 {
			leader, other := leaderAmong(t, nodes)
			w.isolate(all[other])
			<-time.After(time.Minute + time.Duration(round)*1700*time.Millisecond) // raft's pause has grown to 10 s by then
			if now, _ := leaderAmong(t, nodes); now != leader {
				t.Fatal("another node leads")
			}
			must(t, nodes[leader].Apply([]byte("x"), time.Minute).Error())
			w.isolate("")
			began := time.Now()
			for nodes[other].AppliedIndex() < nodes[leader].AppliedIndex() && time.Since(began) < time.Minute {
				<-time.After(10 * time.Millisecond)
			}
			// A connection that was begun before takes two seconds to fail, the pause
			// behind that half a heartbeat timeout.
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("round %d: the follower received the log %v after the partition", round, took)
			}
			<-time.After(10 * time.Second)
		}
		for _, n := range nodes {
			must(t, n.Shutdown().Error())
		}
		w.close()
	})
}

// TestReplicationAfterClosedConnections closes the connections to a follower, as when the key of a
// node was replaced. Where heartbeats are rare, the follower still receives the log at once.
func TestReplicationAfterClosedConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		all := []raft.ServerAddress{"1", "2", "3"}
		nodes := wired(t, w, time.Minute, all...)
		<-time.After(5 * time.Minute)
		for range 20 {
			leader, other := leaderAmong(t, nodes)
			w.isolate(all[other])
			w.isolate("")
			must(t, nodes[leader].Apply([]byte("x"), time.Minute).Error())
			began := time.Now()
			for nodes[other].AppliedIndex() < nodes[leader].AppliedIndex() && time.Since(began) < time.Minute {
				<-time.After(10 * time.Millisecond)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("the follower received the log %v later", took)
			}
			<-time.After(7 * time.Second)
		}
		for _, n := range nodes {
			must(t, n.Shutdown().Error())
		}
		w.close()
	})
}

// leaderAmong returns which node leads, and one that does not.
func leaderAmong(t *testing.T, nodes []*raft.Raft) (leader, other int) {
	t.Helper()
	leader, other = -1, -1
	for i, n := range nodes {
		if n.State() == raft.Leader {
			leader = i
		} else {
			other = i
		}
	}
	if leader < 0 {
		t.Fatal("no node leads")
	}
	return leader, other
}
