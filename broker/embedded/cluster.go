package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/cluster"
	"signalbox/broker/control"
	"signalbox/broker/dynsec"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/replica"
)

// ClusterConfig is the configuration under "cluster.".
type ClusterConfig struct {
	// Listen is the address of the cluster port; empty for a broker that takes no
	// part in clusters.
	Listen string `mapstructure:"listen"`
}

// Validate names every key whose value cannot be used.
func (c ClusterConfig) Validate() error {
	if c.Listen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("cluster.listen: must be host:port, as in 10.0.0.1:7000, or empty: %w", err)
	}
	return nil
}

// clusterDir is the folder of the cluster's files in the data directory.
const clusterDir = "cluster"

// joinPatience is how long a node that joins waits to be let in before it is
// answered, which is before whoever asked loses patience; it goes on waiting.
const joinPatience = 7 * time.Second

// member is this broker as a node of a cluster, or as one that could be.
type member struct {
	broker *Broker
	node   *cluster.Node // set once, before ready is closed
	ready  chan struct{}
	look   chan struct{} // holds one entry while the node's place has to be looked at

	shares  atomic.Int32            // a sharing
	peering atomic.Pointer[peering] // nil for none

	place   sync.Mutex      // held while the place is changed or looked at; guards what follows
	lost    <-chan struct{} // closed when something was not agreed upon in the last reign
	regime  regime
	term    uint64    // in which this node leads, or did last
	rests   time.Time // until then it does not try to lead, as it could not
	closing bool

	mu       sync.Mutex   // guards the fields below
	entering bool         // into a cluster, by a command that is not answered yet
	cuts     []dynsec.Cut // to be made when it is

	asking map[string]int        // requests about access control under way, by username; "" for those without
	spared map[string]dynsec.Cut // to be made when these are answered
}

// openCluster loads what the broker keeps and opens the node, if the broker is to
// take part in clusters. From then on what is shared changes by agreement.
func (b *Broker) openCluster(ctx context.Context, dataDir string) (err error) {
	_, messages := b.store.Shared()
	shared := b.control.AppliedIndex() > 0
	if b.config.Cluster.Listen == "" {
		return b.openAlone(ctx, shared, messages)
	}
	m := &member{broker: b, ready: make(chan struct{}), look: make(chan struct{}, 1),
		asking: map[string]int{}, spared: map[string]dynsec.Cut{}}
	if shared {
		b.control.SetReplicator(m)
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	m.node, err = cluster.Open(ctx, cluster.Options{
		Dir: filepath.Join(dataDir, clusterDir), Listen: b.config.Cluster.Listen, Version: b.config.Version,
		Machine: machine{m}, Serve: m.serve, Answer: m.answer, Data: m.accept, Changed: m.changed, Log: b.log, Now: b.now,
	})
	if err != nil {
		return fmt.Errorf("open the cluster port (cluster.listen): %w", err)
	}
	close(m.ready)
	b.cluster = m
	m.changed()
	b.tasks.Go(m.follow)
	return nil
}

// openAlone is for a broker that takes no part in clusters. If it did, and shared
// its messages, it must not change them alone.
func (b *Broker) openAlone(ctx context.Context, access, messages bool) error {
	if messages {
		return errors.New("this broker's messages are shared with a cluster: set cluster.listen again, and let it leave the cluster first")
	}
	if access {
		b.log.Warn("the access control is shared with a cluster and cannot be changed; set cluster.listen again")
	}
	return b.engine.Load(ctx)
}

// closeCluster leaves the cluster's work to the others. Who serves clients that
// others have a share in takes leave of them first, so that what they were told of
// is kept, and what they left behind, as their Wills, is agreed upon.
func (b *Broker) closeCluster(ctx context.Context) error {
	m := b.cluster
	if m == nil {
		return nil
	}
	m.place.Lock()
	m.closing = true
	var err error
	switch m.regime {
	case leading:
		err = errors.Join(b.engine.Close(ctx), b.settled(ctx))
	case meshed, between:
		err = b.engine.Close(ctx)
		m.disconnectPeers()
	}
	m.place.Unlock()
	return errors.Join(err, m.node.Close(ctx))
}

// settled waits until it is known what became of all that clients have done.
func (b *Broker) settled(ctx context.Context) error {
	done := make(verdict, 1)
	b.replica.Submit(&engine.Changes{Done: done})
	select {
	case <-done: // another node may lead already, which is logged
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until the cluster has agreed upon what clients have done: %w", context.Cause(ctx))
	}
}

// verdict is an engine.Settler that passes on what it is told, once.
type verdict chan error

func (v verdict) Settled(_ *engine.Changes, err error) { v <- err }

// changed has the node's place looked at.
func (m *member) changed() {
	select {
	case m.look <- struct{}{}:
	default:
	}
}

// followEvery is how often the node's place is looked at, whether or not it is
// known to have changed.
const followEvery = time.Second

// follow serves in the way that the node's place demands, until the broker closes.
func (m *member) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m.broker.tasks.Go(func() {
		<-m.broker.life.closing
		cancel()
	})
	again := time.NewTicker(followEvery)
	defer again.Stop()
	for {
		select {
		case <-m.look:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if err := m.settle(ctx); err != nil && !errors.Is(err, errNotYet) && ctx.Err() == nil {
			m.broker.log.Warn("the broker cannot serve yet as its cluster demands, and tries again", "error", err)
		}
	}
}

// settle shares with the others what the node's place demands, and has the broker
// serve accordingly.
func (m *member) settle(ctx context.Context) error {
	m.place.Lock()
	defer m.place.Unlock()
	if m.closing {
		return nil
	}
	info, err := m.node.Info()
	switch {
	case errors.Is(err, cluster.ErrNotClustered):
		return m.separate(ctx)
	case err == nil:
		m.broker.control.SetReplicator(m)
		if info.SyncMode != "" { // else it waits to be let in, and shares what it was told
			m.share(syncModes[info.SyncMode])
		}
		err := m.turn(ctx, m.demanded(m.sharing()))
		if err == nil && m.regime == meshed {
			m.connectPeers(info.Self, info.Nodes)
		}
		return err
	case errors.Is(err, cluster.ErrNoLeader): // it is between two places
		m.broker.control.SetReplicator(m)
		if m.sharing() == sharesEverything {
			return m.turn(ctx, waiting)
		}
	}
	return nil
}

// separate makes this broker's own what it had shared.
func (m *member) separate(ctx context.Context) error {
	b := m.broker
	_, messages := b.store.Shared()
	if b.control.AppliedIndex() > 0 || messages {
		if err := errors.Join(b.control.Detach(ctx), b.store.Detach(ctx)); err != nil {
			return err
		}
	}
	b.control.SetReplicator(nil)
	m.shares.Store(int32(sharesNothing))
	return m.turn(ctx, alone)
}

// share notes what is shared from now on.
func (m *member) share(s sharing) {
	was := sharing(m.shares.Swap(int32(s)))
	if c := m.broker.config; s != was && s != sharesNothing && c.MaxPacketSize > replica.MaxCommand {
		m.broker.log.Warn("messages that are larger than what a cluster agrees upon at once are refused, though max_packet_size allows them",
			"max_packet_size", c.MaxPacketSize, "agreed_upon", replica.MaxCommand)
	}
}

func (m *member) sharing() sharing { return sharing(m.shares.Load()) }

// isEntering tells whether a command that takes the broker into a cluster is not
// answered yet. It holds the place for as long as that takes.
func (m *member) isEntering() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entering
}

// enter changes the node's place from none to one in a cluster. Nobody changes
// alone meanwhile what is to be shared.
func (m *member) enter(s sharing, do func() error) error {
	m.mu.Lock()
	m.entering = true
	m.mu.Unlock()
	m.place.Lock()
	err := m.prepare(context.Background(), s)
	if err == nil {
		err = do()
	}
	m.place.Unlock()
	if settled := m.settle(context.Background()); !errors.Is(settled, errNotYet) {
		err = errors.Join(err, settled)
	}
	return err
}

// prepare has a broker that is in no cluster serve as one that is in one without a
// leader. The place is held.
func (m *member) prepare(ctx context.Context, s sharing) error {
	if _, err := m.node.Info(); !errors.Is(err, cluster.ErrNotClustered) {
		return nil // whoever asks is told
	}
	m.broker.control.SetReplicator(m)
	m.share(s)
	if part, ok := parts[s.holds()]; ok {
		if err := m.broker.store.Attach(ctx, part); err != nil {
			return err
		}
	}
	switch s {
	case sharesEverything:
		return m.turn(ctx, waiting)
	case sharesRetained:
		return m.turn(ctx, meshed)
	}
	return nil
}

// refusals are what the errors of a node are told as.
var refusals = []struct{ from, to error }{
	{cluster.ErrClustered, control.ErrInCluster},
	{cluster.ErrNotClustered, control.ErrNoCluster},
	{cluster.ErrNotLeader, control.ErrNotLeader},
	{cluster.ErrNoLeader, control.ErrNoLeader},
	{cluster.ErrUnknownNode, control.ErrNoNode},
	{cluster.ErrMember, control.ErrMember},
	{cluster.ErrUnconfirmed, control.ErrUnconfirmed},
}

// told gives an error of the node in the words of the control topic.
func told(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r.from) {
			return r.to
		}
	}
	if _, ok := errors.AsType[*broker.Error](err); ok || err == nil {
		return err
	}
	return &broker.Error{Kind: broker.Conflict, Msg: err.Error(), Err: err}
}

// AskHA does a command about clusters as if it had come over the control topic.
func (b *Broker) AskHA(ctx context.Context, c control.HACommand, data any) error {
	if b.cluster == nil {
		return broker.NotSupported(c.Name(), broker.CapCluster)
	}
	const correlation = "own"
	answer := control.HA(ctx, commander{b.cluster, true}, c.Encode(correlation))
	b.cluster.answered()
	if answer == nil {
		return &broker.Error{Kind: broker.Unconfirmed, Op: c.Name(), Msg: "the broker did not answer in time: it may have been carried out", Err: ctx.Err()}
	}
	return control.ReadHA(c, answer, correlation, data)
}
