package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"signalbox/broker/embedded/cluster/raftlog"
)

// recent is how many bytes of the last entries are kept in memory for those who
// are sent them: what may be under way, and as much again for who is behind.
const recent = 2 * maxUnderwayBytes

// seat is the node's place in a cluster while it takes part.
type seat struct {
	node        *Node
	id          *identity
	credentials *credentials
	fsm         *fsm
	raft        *raft.Raft
	trans       *raft.NetworkTransport
	layer       *layer
	exchange    *exchange // for what keeps the cluster together
	asking      *exchange // for what its nodes ask each other with Ask, however long that takes
	streams     *outbound // connections for data
	agenda      *agenda
	log         *watchedLog
	observed    atomic.Pointer[observedLeader]

	dissolvedAt atomic.Uint64 // up to which command the cluster went, as others tell

	barrierTerm atomic.Uint64 // the term in which this node leads and has applied everything that was committed before

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
	last sync.WaitGroup // for those who may have to wait for raft's end
	kick chan struct{}  // holds one entry while there is something to look at before the time

	changed chan struct{} // holds one entry while the members may have changed
	awaited chan struct{} // holds one entry while another node waits for what is applied here

	given vote // of watch alone

	reached      reachability  // by the consensus' heartbeats
	leaderCommit atomic.Uint64 // up to which entry the leader has said that the log is committed

	keysKick  chan struct{}            // holds one entry while the keys are to be looked at
	current   atomic.Pointer[identity] // id, with the key that the node has now
	asked     chan struct{}            // closed when the others were asked once
	warned    atomic.Int64             // when a member was last logged that others say was removed
	vouching  sync.Mutex               // guards vouchedAt; held while others are asked
	vouchedAt time.Time

	toldUpTo       atomic.Uint64 // up to which command a member has said that it knows the members
	reliesOnOthers atomic.Bool   // a node is let in because another member says that it is one

	acknowledged atomic.Pointer[position] // nil where the node has all that it has acknowledged

	mu        sync.Mutex // guards the fields below
	closed    bool
	proposals sync.WaitGroup // in raft's hands
	contacts  map[ref]contact
}

// sitDown takes the node's place in its cluster. The caller has the turn, or
// nobody else has the node yet.
func (n *Node) sitDown(ctx context.Context, id *identity) (err error) {
	s := &seat{node: n, id: id, kick: make(chan struct{}, 1), changed: make(chan struct{}, 1), awaited: make(chan struct{}, 1), keysKick: make(chan struct{}, 1), asked: make(chan struct{}), contacts: map[ref]contact{}}
	if s.credentials, err = n.credentials(id); err != nil {
		return err
	}
	s.current.Store(id)
	known, err := n.loadState()
	if err != nil {
		return err
	}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.observed.Store(newObservedLeader(s.ctx, Member{}))
	s.fsm = newFSM(s.ctx, n, known)
	s.fsm.nudge = func() {
		poke(s.changed)
		poke(s.keysKick)
		n.nudge()
	}
	s.credentials.known, s.credentials.vouched, s.credentials.vouch, s.credentials.disowned = s.known, s.vouched, s.askAbout, s.disowned
	if err := errors.Join(n.dropIncomplete(), s.fsm.catchUp()); err != nil {
		s.stop()
		return err
	}
	acknowledged, err := n.loadAcknowledged()
	if err != nil {
		s.stop()
		return err
	}
	s.acknowledged.Store(acknowledged)
	s.layer = newLayer(s.ctx, s.credentials, id.Self.serverAddress(), n.options.Timing.Call)
	s.exchange, s.asking = newExchange(s.ctx, s.credentials, n.options.Timing.Call), newExchange(s.ctx, s.credentials, n.options.Timing.Call)
	s.streams, s.agenda = newOutbound(), newAgenda(s)
	if err := s.startRaft(); err != nil {
		s.stop()
		return errors.Join(err, s.trans.Close())
	}
	go s.agenda.run()
	n.seat.Store(s) // the port asks for it
	if err := n.openPort(ctx); err != nil {
		n.standUp(ctx)
		return err
	}
	s.wg.Go(s.observe)
	s.wg.Go(s.watch)
	s.wg.Go(s.watchKeys)
	s.wg.Go(s.hasten)
	s.wg.Go(s.spread)
	s.last.Go(s.compact)
	n.setTrouble("")
	n.options.Changed()
	return nil
}

func (s *seat) startRaft() error {
	n := s.node
	log := raftLog(n.log, n.options.Now)
	s.trans = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: s.layer, MaxPool: 3, Timeout: n.options.Timing.Transport, Logger: log,
		MaxRPCsInFlight: 1, // pipelines can lock up, see DESIGN.md
	})
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = raft.ServerID(s.credentials.self.String()), log
	c.NoSnapshotRestoreOnStart = true // see catchUp
	c.ShutdownOnRemove = false        // the keeper sees to that
	c.NoLegacyTelemetry = true
	c.BatchApplyCh = true // so that entries given one after the other are stored together
	t := n.options.Timing
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout, c.CommitTimeout = t.Heartbeat, t.Election, t.Lease, t.Commit
	c.SnapshotInterval, c.SnapshotThreshold, c.TrailingLogs = t.SnapshotEvery, t.SnapshotAfter, t.Trailing
	s.log = &watchedLog{LogStore: n.options.logs(raftlog.NewRecent(n.store, recent)), failures: &n.figures.appendFailures}
	if err := s.log.findCommand(); err != nil {
		return err
	}
	r := &receiver{seat: s, log: s.log, in: s.trans.Consumer(), out: make(chan raft.RPC)}
	var err error
	if s.raft, err = raft.NewRaft(c, s.fsm, s.log, n.store, n.store, transport{s.trans, s, r.out}); err != nil {
		return fmt.Errorf("take part in the cluster: %w", err)
	}
	s.wg.Go(r.run)
	return nil
}

// openPort opens the cluster port, unless it is open.
func (n *Node) openPort(ctx context.Context) error {
	if n.port != nil {
		return nil
	}
	p := &port{log: n.log, refusals: &n.figures.refused, handshake: n.options.handshake, credentials: n.credentialsOf, consensus: n.consensus, data: n.data, answer: n.answer}
	if err := p.open(context.WithoutCancel(ctx), n.options.Listen); err != nil {
		return err
	}
	n.port = p
	return nil
}

// closePort closes the cluster port, if it is open.
func (n *Node) closePort() error {
	if n.port == nil {
		return nil
	}
	err := n.port.close()
	n.port = nil
	return err
}

// credentialsOf returns what the node shows to others of a cluster, nil where it has
// nothing to do with that.
func (n *Node) credentialsOf(uuid string) *credentials {
	if s := n.seat.Load(); s != nil && s.credentials.uuid == uuid {
		return s.credentials
	}
	for _, g := range n.listGraves() {
		if g.id.UUID == uuid {
			return g.credentials
		}
	}
	return nil
}

// consensus hands a connection to raft, if it comes from a member.
func (n *Node) consensus(b *credentials, from *presented, conn net.Conn) bool {
	s := n.seat.Load()
	return s != nil && s.credentials == b && s.confirmed(s.ctx) && s.trusts(from) && s.layer.deliver(conn)
}

// data hands a connection to whoever takes those for data, if it comes from a
// member.
func (n *Node) data(b *credentials, from *presented, conn net.Conn) bool {
	s := n.seat.Load()
	if n.options.Data == nil || s == nil || s.credentials != b || !s.confirmed(s.ctx) || !s.trusts(from) {
		return false
	}
	n.options.Data(from.id, conn)
	return true
}

// welcome reports whether a node may be a member, by its name alone: trusts decides
// about a connection. One that was added later than this node has heard of is a member
// to the others already.
func (s *seat) welcome(from ref) bool {
	upTo := s.fsm.upTo() // before the state, which may be newer
	return from.generation > upTo || s.fsm.state.Load().has(from)
}

// standUp gives up the place, without leaving the cluster. Whoever waits for a
// proposal learns what came of it, as long as that is known before ctx ends. The caller
// has the turn.
func (n *Node) standUp(ctx context.Context) {
	s := n.seat.Load()
	if s == nil {
		return
	}
	n.seat.Store(nil)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.finish(ctx, 2*(n.options.Timing.Heartbeat+n.options.Timing.Lease))
	s.stop()
	s.layer.Close()
	if n.port != nil {
		n.port.finish(s.credentials.uuid)
	}
	n.store.Release() // nobody hears of this node any more
	s.streams.close()
	s.exchange.close()
	s.asking.close()
	s.wg.Wait()
	s.raft.Shutdown().Error() //nolint:errcheck // it waits, and is always nil
	close(s.agenda.gone)
	s.last.Wait()
	s.trans.CloseStreams()
	n.store.Reset()
	n.options.Changed()
}

// finish waits for the proposals in raft's hands. A leader that reaches nobody
// gives them up when its lease ends; one that cannot store anything does not, so
// the waiting is bounded by atMost, and by the end of ctx.
func (s *seat) finish(ctx context.Context, atMost time.Duration) {
	done := make(chan struct{})
	go func() { // ends with the proposals
		defer close(done)
		s.proposals.Wait()
	}()
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-ctx.Done():
	}
}

// begin counts a proposal, unless the seat is given up.
func (s *seat) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.proposals.Add(1)
	return true
}

// voters counts those who have a vote.
func (s *seat) voters() (n int) {
	for _, server := range s.servers() {
		if server.Suffrage == raft.Voter {
			n++
		}
	}
	return n
}

// servers lists the consensus' own view of who takes part.
func (s *seat) servers() []raft.Server { return s.raft.GetConfiguration().Configuration().Servers }

// watch looks at the members from time to time, and after changes.
func (s *seat) watch() {
	s.lookFirst()
	ticks := time.NewTicker(s.node.options.Timing.Probe)
	defer ticks.Stop()
	for s.ctx.Err() == nil {
		s.look()
		select {
		case <-ticks.C:
		case <-s.kick:
		case <-s.ctx.Done():
		}
	}
}

// nudge has the seat looked at soon.
func (s *seat) nudge() { poke(s.kick) }

// poke leaves word in a channel that holds one, unless there is some already.
func poke(kick chan struct{}) {
	select {
	case kick <- struct{}{}:
	default:
	}
}
