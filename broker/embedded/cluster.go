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
	"signalbox/broker/control"
	"signalbox/broker/dynsec"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/embedded/cluster/replica"
	"signalbox/broker/embedded/engine"
)

// ClusterConfig is the configuration under "cluster.".
type ClusterConfig struct {
	// Listen is the address of the cluster port; empty for a broker that takes no
	// part in clusters.
	Listen string `mapstructure:"listen"`
	// MaxLag is how many committed changes may have yet to be applied here before
	// the broker is not ready; 0 for any number.
	MaxLag int `mapstructure:"max_lag"`
	// MinFreeDisk is how many bytes should be free on the disk of the cluster's
	// files; with fewer the broker is not ready. 0 for none.
	MinFreeDisk int64 `mapstructure:"min_free_disk"`
	// ElectionTimeout is how long the leader may be silent before the other nodes
	// elect another one.
	ElectionTimeout time.Duration `mapstructure:"election_timeout"`
	// Seal hides the node's key in the data directory; without it the key is stored as
	// it is.
	Seal cluster.Sealer `mapstructure:"-"`
	// Allowed returns what is asked before a connection to another node is made; nil
	// allows any.
	Allowed func(hostPort string) cluster.Control `mapstructure:"-"`
}

// The bounds of ElectionTimeout.
const (
	minElectionTimeout = 100 * time.Millisecond
	maxElectionTimeout = time.Minute
)

// DefaultClusterConfig returns the configuration of an empty file.
func DefaultClusterConfig() ClusterConfig {
	return ClusterConfig{MaxLag: 10_000, MinFreeDisk: 128 << 20, ElectionTimeout: 700 * time.Millisecond}
}

// Validate names every key whose value cannot be used.
func (c ClusterConfig) Validate() error {
	var errs []error
	if c.MaxLag < 0 {
		errs = append(errs, errors.New("cluster.max_lag: must not be negative"))
	}
	if c.MinFreeDisk < 0 {
		errs = append(errs, errors.New("cluster.min_free_disk: must not be negative"))
	}
	if t := c.ElectionTimeout; t < minElectionTimeout || t > maxElectionTimeout {
		errs = append(errs, fmt.Errorf("cluster.election_timeout: must be from %v to %v", minElectionTimeout, maxElectionTimeout))
	}
	if _, _, err := net.SplitHostPort(c.Listen); c.Listen != "" && err != nil {
		errs = append(errs, fmt.Errorf("cluster.listen: must be host:port, as in 10.0.0.1:7000, or empty: %w", err))
	}
	return errors.Join(errs...)
}

// HasClusterSecrets reports whether the data directory holds a key of a node of a
// cluster that only the sealer opens which has sealed it.
func HasClusterSecrets(ctx context.Context, dataDir string) (bool, error) {
	return cluster.IsSealed(ctx, filepath.Join(dataDir, clusterDir))
}

// ResealCluster seals that key in another way, while no broker runs on the data
// directory.
func ResealCluster(ctx context.Context, dataDir string, reseal func(sealed, aad []byte) ([]byte, error)) (int, error) {
	return cluster.Reseal(ctx, filepath.Join(dataDir, clusterDir), reseal)
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

	losses  *mesh.Losses            // of all that this broker was a node of, since its start
	shares  atomic.Int32            // a sharing
	timed   atomic.Bool             // syncmode full: this node has the cluster's time
	ahead   differences             // syncmode hp
	peering atomic.Pointer[peering] // nil for none

	place   sync.Mutex      // held while the place is changed or looked at; guards what follows
	lost    <-chan struct{} // closed when something was not agreed upon in the last leadership
	closing bool

	serving    servingState
	leadership cluster.Leadership // of this node, the current or the last one
	leadAgain  time.Time          // the node could not serve as the leader, and does not try before

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
	m := &member{broker: b, losses: mesh.NewLosses(b.log), ready: make(chan struct{}), look: make(chan struct{}, 1),
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
		MaxLag: uint64(b.config.Cluster.MaxLag), MinFreeDisk: b.config.Cluster.MinFreeDisk,
		Timing: cluster.Timing{Heartbeat: b.config.Cluster.ElectionTimeout},
		Seal:   b.config.Cluster.Seal, Allowed: b.config.Cluster.Allowed,
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
	switch m.serving {
	case leading:
		err = b.engine.Close(ctx)
		b.awaitAgreement(ctx)
	case meshed, between:
		err = b.engine.Close(ctx)
		m.disconnectPeers()
	}
	m.place.Unlock()
	return errors.Join(err, m.node.Close(ctx))
}

// awaitAgreement waits until it is known whether the cluster has agreed on all that clients
// have done. A leader without a majority learns that only at the end of its lease, which
// may be later than the broker waits.
func (b *Broker) awaitAgreement(ctx context.Context) {
	done := make(verdict, 1)
	b.replica.Submit(&engine.Changes{Done: done})
	select {
	case <-done: // another node may lead already, which is logged
	case <-ctx.Done():
		b.log.Warn("the broker closes before it is known whether the cluster has agreed on what clients did last; "+
			"it has acknowledged none of that", "error", context.Cause(ctx))
	}
}

// verdict is an engine.CommitNotifier that passes on what it is told, once.
type verdict chan error

func (v verdict) Committed(_ *engine.Changes, err error) { v <- err }

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
	m.broker.tasks.Go(func() { m.keepTime(ctx) })
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
		err := m.changeTo(ctx, m.desired(m.sharing()))
		if err == nil && m.serving == meshed {
			m.connectPeers(info.Self, info.Nodes)
		}
		return err
	case errors.Is(err, cluster.ErrNoLeader): // it is between two places
		m.broker.control.SetReplicator(m)
		if m.sharing() == sharesEverything {
			return m.changeTo(ctx, waiting)
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
	return m.changeTo(ctx, alone)
}

// share notes what is shared from now on.
func (m *member) share(s sharing) {
	was := sharing(m.shares.Swap(int32(s)))
	if s != sharesEverything {
		m.timed.Store(false) // another cluster has another time
	}
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
		return m.changeTo(ctx, waiting)
	case sharesRetained:
		return m.changeTo(ctx, meshed)
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
