package embedded

import (
	"context"
	"errors"
	"fmt"
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

// clusterDir is the directory of the cluster's files in the data directory.
const clusterDir = "cluster"

// joinTimeout is how long a node that joins waits to be admitted before its command is
// answered. It goes on waiting in the background, and the caller asks the leader whether
// it reaches the node.
const joinTimeout = 3 * time.Second

// member is this broker as a node of a cluster, or as one that could become a node.
type member struct {
	broker *Broker
	dir    string        // of the cluster's files
	node   *cluster.Node // set once, before ready is closed
	ready  chan struct{}
	wake   chan struct{} // holds one entry while the serving state has to be checked

	losses         *mesh.Losses            // of all clusters of this broker, since its start
	shares         atomic.Int32            // a sharing
	hasClusterTime atomic.Bool             // syncmode full: this node has the cluster's time
	offsets        clockOffsets            // syncmode hp
	peering        atomic.Pointer[peering] // nil for none
	drained        drainTask
	streamLoop     atomic.Pointer[string] // across nodes; nil or "" for none
	sharesData     atomic.Bool            // the program's data are shared: from before Begin to before End
	maintenance    maintenance            // of these

	transition        sync.Mutex      // held while the membership or serving state is changed or compared; guards what follows
	restricted        bool            // alone, until the broker is let into the cluster that it expects
	announced         bool            // that was logged
	undoing           bool            // see completeUndo
	lost              <-chan struct{} // closed when a change was not committed in the last leadership
	closing           bool
	sessionsForgotten bool // since the node has had streams and bridges of its own; see forgetSessions
	dataEnded         bool // End has returned since the last Begin, or there was none

	serving    servingState
	leadership cluster.Leadership // of this node, the current or the last one
	leadAfter  time.Time          // a node that could not serve as the leader does not try before

	mu          sync.Mutex          // guards the fields below
	commands    int                 // about clusters, that have not been answered
	entering    bool                // a command that joins or creates a cluster has not been answered
	disconnects []dynsec.Disconnect // disconnects deferred until it has

	awaiting map[string]int               // requests about access control under way, by username; "" for those without
	deferred map[string]dynsec.Disconnect // disconnects deferred until these are answered, by username
}

// openCluster loads the broker's messages and opens the node, if a cluster port is
// configured. From then on shared state changes by agreement only.
func (b *Broker) openCluster(ctx context.Context, dataDir string) (err error) {
	_, messages := b.store.Shared()
	shared := b.control.AppliedIndex() > 0
	b.kept.dir, b.kept.log = filepath.Join(dataDir, clusterDir), b.log
	if b.config.Cluster.Listen == "" {
		return b.openAlone(ctx, filepath.Join(dataDir, clusterDir), shared, messages)
	}
	m := &member{broker: b, dir: b.kept.dir, losses: mesh.NewLosses(b.log), ready: make(chan struct{}), wake: make(chan struct{}, 1),
		awaiting: map[string]int{}, deferred: map[string]dynsec.Disconnect{}, dataEnded: true,
		maintenance: maintenance{wake: make(chan struct{}, 1)}}
	m.undoing = b.kept.has(keptUndoing)
	if shared {
		b.control.SetReplicator(m)
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	if err := b.resumeShared(ctx, m.dir, func(ctx context.Context) error { return m.beginShared(ctx, m.sharing()) }); err != nil {
		return err
	}
	m.node, err = cluster.Open(ctx, cluster.Options{
		Dir: m.dir, Listen: b.config.Cluster.Listen, Version: b.config.Version,
		Machine: machine{m}, Shared: b.config.Shared, Serve: m.serve, Answer: m.answer, Data: m.accept, MQTT: m.acceptMQTT, HTTP: m.acceptHTTP, Changed: m.changed, Log: b.log, Now: b.now,
		MaxLag: uint64(b.config.Cluster.MaxLag), MinFreeDisk: b.config.Cluster.MinFreeDisk,
		Timing: cluster.Timing{Heartbeat: b.config.Cluster.ElectionTimeout},
		Seal:   b.config.Cluster.Seal, Allowed: b.config.Cluster.Allowed, Warning: m.warning, Incomplete: m.isIncomplete,
	})
	if err != nil {
		return fmt.Errorf("open the cluster port (cluster.listen): %w", err)
	}
	b.kept.forgetInTime()
	close(m.ready)
	b.cluster = m
	if m.undoing { // before the first client is served
		if err := m.reconcile(ctx); err != nil {
			return err
		}
	}
	m.changed()
	b.tasks.Go(m.run)
	if b.config.Shared != nil {
		b.tasks.Go(m.maintainShared)
	}
	return nil
}

// openAlone is openCluster without a cluster port. A broker that shares its messages, or the data of
// the program, must not change them alone.
func (b *Broker) openAlone(ctx context.Context, dir string, access, messages bool) error {
	if err := b.resumeShared(ctx, dir, func(context.Context) error { return errSharedAlone }); err != nil {
		return err
	}
	if messages {
		return errors.New("this broker's messages are shared with a cluster: set cluster.listen again, and let it leave the cluster first")
	}
	if b.kept.has(keptUndoing) {
		return errors.New("this broker was restoring what it had before it joined a cluster: set cluster.listen again and start it once, so that it can go on")
	}
	if !access { // no join can be undone
		if err := b.kept.forget(); err != nil {
			return fmt.Errorf("delete what the broker had before it joined a cluster: %w", err)
		}
	}
	b.kept.forgetInTime()
	if access {
		b.log.Warn("the access control is shared with a cluster and cannot be changed; set cluster.listen again")
	}
	if err := b.engine.Load(ctx); err != nil {
		return err
	}
	b.forgetSessions(ctx)
	return nil
}

// closeCluster hands the cluster's work over to the other nodes. A node that serves clients
// whose sessions are shared disconnects them first, so that what was confirmed to them is
// stored, and their Wills are agreed upon.
func (b *Broker) closeCluster(ctx context.Context) error {
	m := b.cluster
	if m == nil {
		return nil
	}
	m.transition.Lock()
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
	m.transition.Unlock()
	return errors.Join(err, m.node.Close(ctx))
}

// awaitAgreement waits until it is known whether the cluster has committed all that clients
// have done. A leader without a majority learns that only at the end of its lease, which
// may be later than the broker waits.
func (b *Broker) awaitAgreement(ctx context.Context) {
	done := make(commitResult, 1)
	b.replica.Submit(&engine.Changes{Done: done})
	select {
	case <-done: // another node may lead already, which is logged
	case <-ctx.Done():
		b.log.Warn("the broker closes before it is known whether the cluster has agreed on what clients did last; "+
			"it has acknowledged none of that", "error", context.Cause(ctx))
	}
}

// commitResult is an engine.CommitNotifier that passes on one result.
type commitResult chan error

func (v commitResult) Committed(_ *engine.Changes, err error) { v <- err }

// changed causes the serving state to be checked.
func (m *member) changed() {
	for _, wake := range []chan struct{}{m.wake, m.maintenance.wake} {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// reconcileInterval is how often the serving state is checked, whether or not a change was
// reported.
const reconcileInterval = time.Second

// run keeps the serving state as the membership requires, until the broker closes.
func (m *member) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m.broker.tasks.Go(func() {
		<-m.broker.life.closing
		cancel()
	})
	m.broker.tasks.Go(func() { m.syncTime(ctx) })
	m.broker.tasks.Go(func() { m.watchFlows(ctx) })
	again := time.NewTicker(reconcileInterval)
	defer again.Stop()
	for {
		select {
		case <-m.wake:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if err := m.reconcile(ctx); err != nil && !errors.Is(err, errNotLeading) && ctx.Err() == nil {
			m.broker.log.Warn("the broker cannot serve yet as its cluster requires, and tries again", "error", err)
		}
	}
}

// reconcile shares with the other nodes what the membership requires, and changes the
// serving state accordingly.
func (m *member) reconcile(ctx context.Context) error {
	m.transition.Lock()
	defer m.transition.Unlock()
	if m.closing {
		return nil
	}
	info, err := m.node.Info()
	switch {
	case errors.Is(err, cluster.ErrNotClustered):
		return m.detach(ctx)
	case err == nil:
		m.broker.control.SetReplicator(m)
		if info.SyncMode != "" { // else it waits to be admitted, and shares what it was told
			m.setSharing(syncModes[info.SyncMode])
		}
		err := m.changeTo(ctx, m.desired(m.sharing()))
		if err == nil && info.SyncMode != "" {
			err = m.letIn()
		}
		if err == nil && m.serving == meshed {
			err = m.connectPeers(ctx, info)
		}
		if err == nil {
			err = m.settleFeatures(ctx, info.SyncMode != "")
		}
		return err
	case errors.Is(err, cluster.ErrNoLeader): // it is joining or leaving
		m.broker.control.SetReplicator(m)
		if m.sharing() == sharesEverything {
			return m.changeTo(ctx, waiting)
		}
	}
	return nil
}

// detach makes the shared state this broker's own.
func (m *member) detach(ctx context.Context) error {
	if m.broker.features.isShared() { // those of this node begin when it has its own data
		m.closeFeatures(ctx)
	}
	if err := m.completeUndo(ctx); err != nil {
		return err
	}
	b := m.broker
	_, messages := b.store.Shared()
	if b.control.AppliedIndex() > 0 || messages {
		if err := errors.Join(b.control.Detach(ctx), b.store.Detach(ctx)); err != nil {
			return err
		}
	}
	b.control.SetReplicator(nil)
	m.undrain()
	m.shares.Store(int32(sharesNothing))
	ended := m.endShared(ctx)
	err := errors.Join(ended, m.broker.kept.forgetUnused(), m.changeTo(ctx, alone))
	if ended == nil && m.serving == alone {
		err = errors.Join(err, m.settleFeatures(ctx, false))
	}
	return errors.Join(err, m.lockOut(ctx))
}

// setSharing sets what is shared from now on.
func (m *member) setSharing(s sharing) {
	before := sharing(m.shares.Swap(int32(s)))
	if s != sharesEverything {
		m.hasClusterTime.Store(false) // another cluster has another time
	}
	if c := m.broker.config; s != before && s != sharesNothing && c.MaxPacketSize > replica.MaxCommand {
		m.broker.log.Warn("messages that are larger than an entry of the cluster's log are refused, although max_packet_size allows them",
			"max_packet_size", c.MaxPacketSize, "max_entry", replica.MaxCommand)
	}
}

func (m *member) sharing() sharing { return sharing(m.shares.Load()) }

// isEntering reports whether a command that takes the broker into a cluster has not been
// answered yet. The command holds transition while it is executed.
func (m *member) isEntering() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entering
}

// enter takes the node into a cluster, which may share the data of the program. Shared state cannot be
// changed alone meanwhile.
func (m *member) enter(s sharing, data bool, do func() error) error {
	m.mu.Lock()
	m.entering = true
	m.mu.Unlock()
	m.transition.Lock()
	err := m.prepare(context.Background(), s, data)
	if err == nil {
		err = do()
	}
	m.transition.Unlock()
	if settled := m.reconcile(context.Background()); !errors.Is(settled, errNotLeading) {
		err = errors.Join(err, settled)
	}
	return err
}

// prepare puts a broker without a cluster into the serving state of a node without a
// leader. The caller holds transition.
func (m *member) prepare(ctx context.Context, s sharing, data bool) error {
	if _, err := m.node.Info(); !errors.Is(err, cluster.ErrNotClustered) {
		return nil // the command returns the error
	}
	if err := errors.Join(m.completeUndo(ctx), m.broker.kept.forget()); err != nil {
		return err
	}
	if data && m.broker.config.Shared != nil { // else the command returns the error
		if err := m.beginShared(ctx, s); err != nil {
			return err
		}
	}
	m.broker.control.SetReplicator(m)
	m.setSharing(s)
	m.sessionsForgotten = false
	if part, ok := storeParts[s.snapshotKind()]; ok {
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

// controlErrors are the errors of the control topic for those of a node.
var controlErrors = []struct{ from, to error }{
	{cluster.ErrClustered, control.ErrInCluster},
	{cluster.ErrNotClustered, control.ErrNoCluster},
	{cluster.ErrNotLeader, control.ErrNotLeader},
	{cluster.ErrNoLeader, control.ErrNoLeader},
	{cluster.ErrUnknownNode, control.ErrNoNode},
	{cluster.ErrMember, control.ErrMember},
	{cluster.ErrUnconfirmed, control.ErrUnconfirmed},
}

// controlError returns an error of the node as one of the control topic.
func controlError(err error) error {
	for _, r := range controlErrors {
		if errors.Is(err, r.from) {
			return r.to
		}
	}
	if _, ok := errors.AsType[*broker.Error](err); ok || err == nil {
		return err
	}
	return &broker.Error{Kind: broker.Conflict, Msg: err.Error(), Err: err}
}

// AskHA executes a command about clusters as if it had been received on the control topic.
func (b *Broker) AskHA(ctx context.Context, c control.HACommand, data any) error {
	if b.cluster == nil {
		return broker.NotSupported(c.Name(), broker.CapCluster)
	}
	b.cluster.beginCommand()
	defer b.cluster.disconnectDeferred()
	if ctx.Err() != nil {
		return &broker.Error{Kind: broker.Unavailable, Op: c.Name(), Msg: "the request ended before the command began", Err: context.Cause(ctx)}
	}
	return control.RunHA(ctx, commander{b.cluster, true}, c, data)
}
