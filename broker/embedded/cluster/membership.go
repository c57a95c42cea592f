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

// recent is how many bytes of the last entries are kept in memory for followers: what may
// be pending, and as much again for those that are behind.
const recent = 2 * maxPendingProposalBytes

// membership is this node's participation in a cluster, from its start to its stop. While the
// node is open, only Node.maintain stops it: because the node was removed or leaves, because the
// cluster is dissolved, or because its machine cannot continue.
type membership struct {
	node        *Node
	id          *identity
	credentials *credentials
	fsm         *fsm
	raft        *raft.Raft
	trans       *raft.NetworkTransport
	streamLayer *streamLayer
	conns       *connPool // for the cluster's own requests
	askConns    *connPool // for requests of Ask, which may take long
	streams     *outbound // connections for data, MQTT and HTTP
	pending     *pendingProposals
	log         *watchedLog
	observed    atomic.Pointer[observedLeader]

	dissolvedAt atomic.Uint64 // the last command of the dissolved cluster, as others report

	barrierTerm atomic.Uint64 // the term in which this node leads and has applied everything that was committed before

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
	last sync.WaitGroup // for goroutines that may have to wait until raft has ended
	wake chan struct{}  // holds one entry while the peers are to be checked early

	disconnected chan struct{} // holds one entry while a connection of the leader has ended
	stand        chan struct{} // has the receiver start an election

	changed chan struct{} // holds one entry while the members may have changed
	awaited chan struct{} // holds one entry while another node waits for what is applied here

	lastPromotion promotion      // used by watchPeers only
	latest        snapshotSchema // used by compact only
	majority      majority

	reached      reachability  // by heartbeats
	leaderCommit atomic.Uint64 // the commit index that the leader has reported

	keysWake     chan struct{}            // holds one entry while the keys are to be checked
	current      atomic.Pointer[identity] // id, with the key that the node has now
	asked        chan struct{}            // closed when the other members were asked once
	warned       atomic.Int64             // when a member was last logged that others report as removed
	askAboutMu   sync.Mutex               // guards askedAboutAt; held while other members are asked
	askedAboutAt time.Time

	reportedUpTo   atomic.Uint64 // the highest index up to which another node has reported that it knows the members
	reliesOnOthers atomic.Bool   // a node is admitted because another member reports that it is one

	acknowledged atomic.Pointer[position] // nil if the node has everything that it has acknowledged

	mu        sync.Mutex // guards the fields below
	closed    bool
	proposals sync.WaitGroup // pending
	contacts  map[memberRef]contact
}

// startMembership starts to take part in the cluster. The caller holds the transition
// lock, or is the only user of the node.
func (n *Node) startMembership(ctx context.Context, id *identity) (err error) {
	s := &membership{node: n, id: id, wake: make(chan struct{}, 1), disconnected: make(chan struct{}, 1), stand: make(chan struct{}), changed: make(chan struct{}, 1), awaited: make(chan struct{}, 1), keysWake: make(chan struct{}, 1), asked: make(chan struct{}), contacts: map[memberRef]contact{}}
	if s.credentials, err = n.credentials(id); err != nil {
		return err
	}
	s.current.Store(id)
	known, err := n.loadState()
	if err != nil {
		return err
	}
	shares := id.Shared || known.Shared
	if err := n.checkShared(shares); err != nil {
		return fmt.Errorf("take part in the cluster: %w", err)
	}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.observed.Store(newObservedLeader(s.ctx, Member{}))
	s.fsm = newFSM(s.ctx, n, known, shares)
	s.fsm.notify = func() {
		notify(s.changed)
		notify(s.keysWake)
		n.notify()
	}
	s.credentials.known, s.credentials.reportedMember, s.credentials.askAbout, s.credentials.reportedRemoved = s.known, s.reportedMember, s.askAbout, s.reportedRemoved
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
	s.streamLayer = newStreamLayer(s.ctx, s.credentials, id.Self.serverAddress(), n.options.Timing.Call)
	s.conns, s.askConns = newConnPool(s.ctx, s.credentials, n.options.Timing.Call), newConnPool(s.ctx, s.credentials, n.options.Timing.Call)
	s.streams, s.pending = newOutbound(), newPendingProposals(s)
	if err := s.startRaft(); err != nil {
		s.stop()
		return errors.Join(err, s.trans.Close())
	}
	go s.pending.run()
	n.membership.Store(s) // the port needs it
	if err := n.openPort(ctx); err != nil {
		n.stopMembership(ctx)
		return err
	}
	s.wg.Go(s.observe)
	s.wg.Go(s.watchPeers)
	s.wg.Go(s.watchKeys)
	s.wg.Go(s.speedUpElections)
	s.wg.Go(s.fanOutCommits)
	s.last.Go(s.compact)
	n.setErrMsg("")
	n.options.Changed()
	return nil
}

func (s *membership) startRaft() error {
	n := s.node
	log := raftLog(n.log, n.options.Now)
	s.trans = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: s.streamLayer, MaxPool: 3, Timeout: n.options.Timing.Transport, Logger: log,
		MaxRPCsInFlight: 1, // pipelines can lock up, see DESIGN.md
	})
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = raft.ServerID(s.credentials.self.String()), log
	c.NoSnapshotRestoreOnStart = true // see catchUp
	c.ShutdownOnRemove = false        // Node.maintain handles it
	c.NoLegacyTelemetry = true
	c.BatchApplyCh = true // so that consecutive entries are stored together
	t := n.options.Timing
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout, c.CommitTimeout = t.Heartbeat, t.Election, t.Lease, t.Commit
	c.SnapshotInterval, c.SnapshotThreshold, c.TrailingLogs = t.SnapshotEvery, t.SnapshotAfter, t.Trailing
	s.log = &watchedLog{LogStore: n.options.logs(raftlog.NewRecent(n.store, recent)), failures: &n.figures.appendFailures}
	if err := s.log.findCommand(); err != nil {
		return err
	}
	r := &receiver{membership: s, log: s.log, in: s.trans.Consumer(), out: make(chan raft.RPC)}
	var err error
	if s.raft, err = raft.NewRaft(c, s.fsm, s.log, n.store, n.store, transport{s.trans, s, r.out}); err != nil {
		return fmt.Errorf("take part in the cluster: %w", err)
	}
	s.wg.Go(r.run)
	return nil
}

// openPort opens the cluster port if it is closed.
func (n *Node) openPort(ctx context.Context) error {
	if n.port != nil {
		return nil
	}
	p := &port{log: n.log, refusals: &n.figures.refused, handshake: n.options.handshake, credentials: n.credentialsOf, consensus: n.consensus, data: n.data, mqtt: n.mqtt, http: n.http, answer: n.answer}
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

// credentialsOf returns the node's credentials for a cluster, nil for an unknown one.
func (n *Node) credentialsOf(uuid string) *credentials {
	if s := n.membership.Load(); s != nil && s.credentials.uuid == uuid {
		return s.credentials
	}
	for _, g := range n.listTombstones() {
		if g.id.UUID == uuid {
			return g.credentials
		}
	}
	return nil
}

// consensus passes a connection of a member to raft.
func (n *Node) consensus(b *credentials, from *presented, conn net.Conn) bool {
	s := n.membership.Load()
	return s != nil && s.credentials == b && s.awaitAsked(s.ctx) && s.trusts(from) && s.streamLayer.deliver(&raftInboundConn{conn, s, from.id})
}

// data passes a connection of a member to Options.Data.
func (n *Node) data(b *credentials, from *presented, conn net.Conn) bool {
	return n.pass(b, from, conn, n.options.Data)
}

// mqtt passes a connection of a member to Options.MQTT.
func (n *Node) mqtt(b *credentials, from *presented, conn net.Conn) bool {
	return n.pass(b, from, conn, n.options.MQTT)
}

// http passes a connection of a member to Options.HTTP.
func (n *Node) http(b *credentials, from *presented, conn net.Conn) bool {
	return n.pass(b, from, conn, n.options.HTTP)
}

func (n *Node) pass(b *credentials, from *presented, conn net.Conn, to func(NodeID, net.Conn)) bool {
	s := n.membership.Load()
	if to == nil || s == nil || s.credentials != b || !s.awaitAsked(s.ctx) || !s.trusts(from) {
		return false
	}
	to(from.id, conn)
	return true
}

// admits reports whether a node may be a member, by its generation only; trusts also checks the
// key. A node that was added after the last command that this one has applied may be a member.
func (s *membership) admits(from memberRef) bool {
	upTo := s.fsm.appliedIndex() // before the state, which may be newer
	known := s.fsm.state.Load()
	return from.generation > max(upTo, known.Index) || known.has(from)
}

// stopMembership stops taking part, without leaving the cluster. In this order: no new proposals
// are accepted, pending ones are waited for as long as ctx lasts, no more connections are made,
// raft stops, the port closes. The caller holds the transition lock.
func (n *Node) stopMembership(ctx context.Context) {
	s := n.membership.Load()
	if s == nil {
		return
	}
	n.membership.Store(nil)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.awaitProposals(ctx, 2*(n.options.Timing.Heartbeat+n.options.Timing.Lease))
	s.stop()
	s.streamLayer.Close()
	if n.port != nil {
		n.port.finish(s.credentials.uuid)
	}
	n.store.Release() // the node is disconnected from all others
	s.streams.close()
	s.conns.close()
	s.askConns.close()
	s.wg.Wait()
	s.raft.Shutdown().Error() //nolint:errcheck // it waits, and is always nil
	close(s.pending.raftStopped)
	s.last.Wait()
	s.trans.CloseStreams()
	n.store.Reset()
	n.options.Changed()
}

// awaitProposals waits for the pending proposals. A leader without contact fails them
// when its lease ends; one whose disk hangs does not, so the wait is bounded by atMost,
// and by ctx.
func (s *membership) awaitProposals(ctx context.Context, atMost time.Duration) {
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

// beginProposal counts a proposal, unless the membership is stopped.
func (s *membership) beginProposal() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.proposals.Add(1)
	return true
}

// voters returns the number of voters.
func (s *membership) voters() (n int) {
	for _, server := range s.servers() {
		if server.Suffrage == raft.Voter {
			n++
		}
	}
	return n
}

// servers returns the configuration of the consensus.
func (s *membership) servers() []raft.Server {
	return s.raft.GetConfiguration().Configuration().Servers
}

// watchPeers checks the members periodically, and after changes.
func (s *membership) watchPeers() {
	s.checkPeersFirst()
	ticks := time.NewTicker(s.node.options.Timing.Probe)
	defer ticks.Stop()
	for s.ctx.Err() == nil {
		s.checkPeers()
		select {
		case <-ticks.C:
		case <-s.wake:
		case <-s.ctx.Done():
		}
	}
}

// notify makes watchPeers check soon.
func (s *membership) notify() { notify(s.wake) }

// notify sends to a channel that holds one entry, without blocking.
func notify(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
