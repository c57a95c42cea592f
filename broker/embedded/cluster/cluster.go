// Package cluster is one node of a cluster: it replicates commands to the other nodes (with
// hashicorp/raft), lets its machine apply them, and manages the members of the cluster. Nodes
// communicate on one port with mutual TLS; the log has the keys of the members.
//
// It does not interpret the commands. Of this module it must import only
// broker/embedded/cluster/raftlog and broker/storage: no dynsec, no MQTT, no HTTP.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"signalbox/broker/embedded/cluster/raftlog"
	"signalbox/broker/latency"
	"signalbox/broker/storage"
)

// NodeID is the number of a node in its cluster, at least 1.
type NodeID int

// Machine is the replicated state machine: every node applies the same commands in the same
// order. All methods except Applied are called by one goroutine at a time, without locks.
type Machine interface {
	// Apply applies a command and returns its result, which must depend only on the
	// machine's state and the command. So passwords must be hashed, and times and random
	// values chosen, before a command is proposed. The change and its index are stored
	// atomically; they need not be on the disk, because what a loss of power undoes is
	// applied again. A command may have 8 MiB; a machine should split one of more than
	// 512 KiB. A machine that cannot apply returns an ApplyError.
	Apply(index uint64, command []byte) (answer any)

	// Applied returns the index of the last command that was applied, or of the snapshot
	// that was restored since. Commands up to it are not applied again.
	Applied() uint64

	// Snapshot returns a snapshot of the state, which later commands do not change.
	Snapshot(ctx context.Context) (Snapshot, error)

	// Restore replaces the whole state by a snapshot, and Applied by index, whatever it
	// was. The result is on the disk when it returns nil; otherwise nothing has changed.
	Restore(ctx context.Context, index uint64, r io.Reader) error
}

// Snapshot is a machine's state at one moment. WriteTo is called at most once, concurrently
// with Apply; Release is always called last.
type Snapshot interface {
	io.WriterTo
	Release()
}

// ApplyError is the result of a machine that cannot apply a command now, for example because
// its disk is full or a newer release made the command. Its node suspends its participation,
// without leaving the cluster, and tries again after Timing.Retry.
type ApplyError struct{ Err error }

// Options configure a node. All except Dir, Listen and Machine have defaults.
type Options struct {
	Dir     string // a directory of its own
	Listen  string // host:port of the cluster port, which is open while the node is in a cluster; see dialer
	Version string // of the program, reported to the other nodes
	Machine Machine
	Shared  Shared // nil for a node that cannot take part in clusters that have it

	// Serve handles requests that nodes forward to the leader, concurrently. If it returns
	// ErrNotLeader or ErrNoLeader nothing has been done, and the request goes to the next
	// leader.
	Serve func(ctx context.Context, from NodeID, request []byte) ([]byte, error)

	// Answer handles requests that other nodes send with Ask, concurrently.
	Answer func(ctx context.Context, from NodeID, request []byte) ([]byte, error)

	// Data handles a connection that another node has opened with Dial. It is called on a
	// goroutine of its own, and may leave the connection open when it returns. The
	// connection must be closed once reading or writing fails: Close waits for that.
	// Without Data such connections are refused.
	Data func(from NodeID, conn net.Conn)

	// MQTT is Data for connections that another node has opened with DialMQTT. Close does not wait for
	// them.
	MQTT func(from NodeID, conn net.Conn)

	// HTTP is like MQTT, for connections that another node has opened with DialHTTP.
	HTTP func(from NodeID, conn net.Conn)

	// Changed is called after the node has joined or left a cluster, and when the leader or
	// the members have changed; several changes may be one call. It may be called with the
	// transition lock, so it must not block, nor change the membership.
	Changed func()

	// Beyond these bounds Healthy returns an error. 0 means no bound.
	MaxLag      uint64 // entries that may be committed and not applied here
	MinFreeDisk int64  // bytes that should be free on the disk that Dir is on

	// Warning returns what does not keep this node from working, and should not remain; nil for nothing.
	// The leader reports that of all nodes.
	Warning func() error

	// Incomplete reports whether this node lacks what it needs to replace a node that is lost: it gets no
	// vote until it has that. Without it a node is complete.
	Incomplete func() bool

	// Allowed returns the check of the addresses to which the host and port of another node
	// resolve. Without it every address is allowed.
	Allowed func(hostPort string) Control

	// Seal encrypts the node's stored key. Without it the key is stored in plain text.
	Seal Sealer

	Log    *slog.Logger
	Now    func() time.Time
	Timing Timing

	dial func(ctx context.Context, hostPort string) (net.Conn, error) // to other nodes, over TCP
	logs func(raft.LogStore) raft.LogStore                            // wraps raft's log

	diskFree func(dir string) int64 // bytes, below 0 if not known

	handshake time.Duration // of the cluster port; see port
}

// Control checks an address that is about to be dialled, as [net.Dialer.ControlContext].
type Control = func(ctx context.Context, network, address string, c syscall.RawConn) error

// Timing is the timeouts and intervals of a node. Zero values mean the defaults.
type Timing struct {
	Heartbeat time.Duration // without contact with the leader until an election; 700 ms
	Election  time.Duration // until an undecided election is repeated; as Heartbeat
	Lease     time.Duration // without contact with the majority until a leader steps down; 3/4 of Heartbeat
	Commit    time.Duration // until followers get the commit index without another entry; 50 ms
	Transport time.Duration // for one message of raft; 10 s
	Probe     time.Duration // between a leader's status requests to the members; 1 s
	Call      time.Duration // for the response to a status request, and for a connection; 2 s
	Request   time.Duration // for a proposal or a forwarded request whose context has no deadline; 10 s
	NoLeader  time.Duration // without a leader until forwarded requests are refused at once; 5 s
	Dissolve  time.Duration // for members to learn that the cluster is dissolved; 5 s
	Announce  time.Duration // between announcements of a dissolution to members that were away; 15 s
	Retry     time.Duration // until a suspended node tries again; 5 s

	Certificate time.Duration // validity of a certificate of connections, in the cluster's time; 7 days

	SnapshotEvery time.Duration // between checks whether a snapshot is due; 30 s
	SnapshotAfter uint64        // entries since the last snapshot until one is due; 8192
	SnapshotBytes int64         // bytes of these entries until one is due, if the last snapshot is smaller; 64 MiB
	Trailing      uint64        // maximum of entries that stay for followers that are behind; 10240
	TrailingBytes int64         // bytes of the entries that stay, or twice those of the last snapshot; 64 MiB
}

func (o *Options) fill() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Warning == nil {
		o.Warning = func() error { return nil }
	}
	if o.Incomplete == nil {
		o.Incomplete = func() bool { return false }
	}
	if o.Serve == nil {
		o.Serve = func(context.Context, NodeID, []byte) ([]byte, error) { return nil, errors.ErrUnsupported }
	}
	if o.Answer == nil {
		o.Answer = func(context.Context, NodeID, []byte) ([]byte, error) { return nil, errors.ErrUnsupported }
	}
	if o.diskFree == nil {
		o.diskFree = storage.DiskFree
	}
	if o.dial == nil {
		o.dial = dialer(o.Listen, o.Allowed)
	}
	if o.logs == nil {
		o.logs = func(s raft.LogStore) raft.LogStore { return s }
	}
	o.Timing.fill()
}

func (t *Timing) fill() {
	t.Heartbeat = cmp.Or(t.Heartbeat, 700*time.Millisecond)
	t.Election = cmp.Or(t.Election, t.Heartbeat)
	t.Lease = cmp.Or(t.Lease, t.Heartbeat*3/4)
	t.Commit = cmp.Or(t.Commit, 50*time.Millisecond)
	t.Transport = cmp.Or(t.Transport, 10*time.Second)
	t.Probe = cmp.Or(t.Probe, time.Second)
	t.Call = cmp.Or(t.Call, 2*time.Second)
	t.Request = cmp.Or(t.Request, 10*time.Second)
	t.NoLeader = cmp.Or(t.NoLeader, 5*time.Second)
	t.Dissolve = cmp.Or(t.Dissolve, 5*time.Second)
	t.Announce = cmp.Or(t.Announce, 15*time.Second)
	t.Retry = cmp.Or(t.Retry, 5*time.Second)
	t.Certificate = cmp.Or(t.Certificate, certificateLife)
	t.SnapshotEvery = cmp.Or(t.SnapshotEvery, 30*time.Second)
	t.SnapshotAfter = cmp.Or(t.SnapshotAfter, 8192)
	t.SnapshotBytes = cmp.Or(t.SnapshotBytes, 64<<20)
	t.Trailing = cmp.Or(t.Trailing, 10240)
	t.TrailingBytes = cmp.Or(t.TrailingBytes, 64<<20)
}

// Node is this process as a node of a cluster, or at rest if it is in none. All methods are
// safe for concurrent use.
type Node struct {
	options Options
	log     *slog.Logger
	store   *raftlog.Store
	figures counters
	clock   *clock

	stop context.CancelFunc // ends the node's goroutines
	wg   sync.WaitGroup
	wake chan struct{} // holds one entry while maintain has something to check

	transition chan struct{}              // the transition lock: holds one entry while the membership starts or stops; guards port
	membership atomic.Pointer[membership] // nil at rest
	port       *port                      // nil without a membership or tombstone

	mu           sync.Mutex // guards the fields below
	closed       bool
	departure    departure                  // from the cluster that the node has to leave
	tombstones   []*tombstone               // clusters that were dissolved while members were away; replaced, not changed
	acknowledged map[string]map[NodeID]bool // the nodes that know that a cluster is dissolved, by its UUID
	errmsg       string                     // why the node is not taking part, though it should
}

// Open opens a node in its directory. If it is in a cluster, it takes part again.
func Open(ctx context.Context, o Options) (*Node, error) {
	o.fill()
	store, err := raftlog.Open(ctx, o.Dir, o.Log)
	if err != nil {
		return nil, err
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	n := &Node{
		options: o, log: o.Log, store: store, stop: stop,
		wake: make(chan struct{}, 1), transition: make(chan struct{}, 1), acknowledged: map[string]map[NodeID]bool{},
	}
	n.figures.applied = latency.New(applyBounds...)
	err = n.loadClock()
	if err == nil {
		err = n.resume(background)
	}
	if err != nil {
		stop()
		return nil, errors.Join(err, n.closePort(), store.Close())
	}
	n.wg.Go(func() { n.maintain(background) })
	return n, nil
}

// resume takes part again in the cluster that the node was in when it was closed.
func (n *Node) resume(ctx context.Context) error {
	tombstones, err := n.loadTombstones()
	if err != nil {
		return err
	}
	n.tombstones = tombstones
	id, err := n.loadIdentity()
	if err != nil {
		return err
	}
	if id != nil {
		if err := n.loadDeparture(id.UUID); err != nil {
			return err
		}
		return n.startMembership(ctx, id)
	}
	if len(tombstones) > 0 {
		return n.openPort(ctx)
	}
	return nil
}

// Close stops the node, without leaving the cluster. A leader transfers its leadership first.
// The context bounds the wait for that, and for the outcome of proposals.
func (n *Node) Close(ctx context.Context) error { return n.shut(ctx, true) }

// shut closes the node, with or without a transfer of the leadership.
func (n *Node) shut(ctx context.Context, handOver bool) error {
	n.mu.Lock()
	again := n.closed
	n.closed = true
	n.mu.Unlock()
	if again {
		return nil
	}
	if s := n.membership.Load(); s != nil && handOver {
		s.handOver(ctx)
	}
	n.stop()
	n.wg.Wait()
	n.transition <- struct{}{} // the present holder ends soon, and no other caller gets it any more
	defer func() { <-n.transition }()
	n.stopMembership(ctx)
	return errors.Join(n.closePort(), n.store.Close())
}

// lock takes the transition lock. The caller unlocks it.
func (n *Node) lock(ctx context.Context) error {
	select {
	case n.transition <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		<-n.transition
		return ErrClosed
	}
	return nil
}

// unlock releases the transition lock.
func (n *Node) unlock() { <-n.transition }

// notify makes maintain check the membership soon.
func (n *Node) notify() { notify(n.wake) }

// Addr returns the address at which the cluster port listens, "" while it is closed.
func (n *Node) Addr(ctx context.Context) (string, error) {
	if err := n.lock(ctx); err != nil {
		return "", err
	}
	defer n.unlock()
	if n.port == nil {
		return "", nil
	}
	return n.port.listener.Addr().String(), nil
}

// running returns the running membership, or why there is none: ErrNotClustered at rest,
// ErrNoLeader while the node cannot take part.
func (n *Node) running() (*membership, error) {
	if s := n.membership.Load(); s != nil {
		return s, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil, ErrClosed
	case n.errmsg != "":
		return nil, fmt.Errorf("%w: %s", ErrNoLeader, n.errmsg)
	}
	return nil, ErrNotClustered
}

// setErrMsg sets why the node does not take part though it should, "" when it does.
func (n *Node) setErrMsg(why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.errmsg = why
}
