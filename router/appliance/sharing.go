package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"signalbox/broker"
	"signalbox/broker/embedded"
	"signalbox/db"
	"signalbox/handlers"
)

// sharedDatabase is the appliance's own state as the embedded broker shares it with the nodes of
// its cluster.
type sharedDatabase struct {
	*db.DB
	*sharedKeys
	definitions *definitions
	leading     *leading
	dataDir     string
}

var _ embedded.Shared = sharedDatabase{}

// Begin implements embedded.Shared. All nodes must be able to read the secrets, so they are sealed
// with a key of the database from the first time on, and with a new one if nodes of a former cluster
// know it.
func (s sharedDatabase) Begin(ctx context.Context, log embedded.SharedLog) error {
	if key := s.KeyState(); s.AppliedIndex() == 0 && (key.ID == "" || key.Since < 0) {
		if err := s.createKey(ctx); err != nil {
			return err
		}
	}
	if !s.IsShared() {
		if err := handlers.LabelEmbedded(ctx, s.DB); err != nil {
			return err
		}
	}
	defer s.leading.notify()
	if s.IsShared() {
		return s.Share(ctx, databaseLog{log})
	}
	return s.definitions.begin(ctx, log.SharesMessages(), func() error { return s.Share(ctx, databaseLog{log}) })
}

// End implements embedded.Shared.
func (s sharedDatabase) End(ctx context.Context) error {
	stored, err := embedded.ReadCluster(ctx, s.dataDir)
	if err != nil {
		return err
	}
	return s.unshare(ctx, stored.Left)
}

// unshare makes the content this node's own. If other nodes go on with the streams and bridges, these are switched off
// here: if this node has left them, or was not the one that ran these.
func (s sharedDatabase) unshare(ctx context.Context, left bool) (err error) {
	defer s.leading.notify()
	if s.AppliedIndex() == 0 || !left && !s.IsHostedElsewhere() { // the content was never that of others, or they do not go on
		err = s.Unshare(ctx)
	} else {
		var off []db.Definition
		if off, err = s.definitions.switchedOff(ctx); err == nil {
			err = s.UnshareLeft(ctx, off)
		}
	}
	if err == nil {
		s.ContentReplaced() // so that brokers connect with other client ids
	}
	return err
}

// Applied implements embedded.Shared.
func (s sharedDatabase) Applied() uint64 { return s.AppliedIndex() }

// Snapshot implements embedded.Shared.
func (s sharedDatabase) Snapshot(ctx context.Context) (embedded.SharedSnapshot, error) {
	return s.DB.Snapshot(ctx)
}

// Restore implements embedded.Shared. The content has a key of its own, which Maintain receives.
func (s sharedDatabase) Restore(ctx context.Context, index uint64, r io.Reader) error {
	if err := s.DB.Restore(ctx, index, r); err != nil {
		return err
	}
	defer s.ContentReplaced()
	s.replaced()
	return s.use(ctx, s.DB)
}

// databaseLog is the cluster's log as the database proposes its changes to it.
type databaseLog struct{ embedded.SharedLog }

// Propose implements db.Log.
func (l databaseLog) Propose(ctx context.Context, entry []byte) (result []byte, err error) {
	result, err = l.SharedLog.Propose(ctx, entry)
	if err == nil {
		return result, nil
	}
	switch broker.KindOf(err) {
	case broker.Unavailable:
		err = fmt.Errorf("%w (%w)", db.ErrUnavailable, err)
	case broker.Unconfirmed:
		err = fmt.Errorf("%w (%w)", db.ErrUnconfirmed, err)
	}
	return nil, err
}

// lastWrites returns a step of the stop that does not fail, but logs a warning, if its last writes
// cannot be made: those of a node that shares its database and has left its cluster's log.
func (a *Appliance) lastWrites(stop func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := stop(ctx)
		if !errors.Is(err, db.ErrUnavailable) {
			return err
		}
		a.log.Warn("the node stopped before its last times of use and events of the audit log were stored", "error", err)
		return nil
	}
}

// mayShare reports whether the node is configured to take part in the sharing of the database.
func (a *Appliance) mayShare() bool {
	c := a.cfg
	return c.Broker.Enabled && c.Cluster.Listen != "" && c.Cluster.ShareData
}

// checkShared refuses to start with shared data, which could not be changed, unless the node takes part in
// the sharing.
func (a *Appliance) checkShared(ctx context.Context, d *db.DB) error {
	if !d.IsShared() || a.mayShare() {
		return nil
	}
	stored, err := embedded.ReadCluster(ctx, a.cfg.DataDir)
	if err == nil && stored.Shared {
		err = errors.New("the data of the platform (users, projects, connections) are shared with a cluster: " +
			"set cluster.share_data to true again, with cluster.listen and broker.enabled, and let the node leave the cluster first")
	}
	return err
}

// endShared makes the shared data of a node that has left its cluster, or was restored without it, its own, unless its
// broker does so.
func (a *Appliance) endShared(ctx context.Context) error {
	if !a.shared.IsShared() || a.mayShare() {
		return nil
	}
	outdated := a.shared.IsOutdated()
	if err := a.shared.End(ctx); err != nil || !outdated {
		return err
	}
	return a.shared.AwaitSchema(ctx)
}

// connectBrokers connects every stored broker, and then those that other nodes of a cluster store.
func (a *Appliance) connectBrokers(ctx context.Context) error {
	if err := a.API.ConnectAll(ctx); err != nil {
		return err
	}
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.API.FollowData(following)
	}()
	a.undo.addBounded(func(ctx context.Context) error {
		cancel()
		select {
		case <-done:
		case <-ctx.Done():
			a.log.Warn("what is stored for deleted broker connections may not be deleted", "error", context.Cause(ctx))
		}
		return nil
	})
	return nil
}

// dialNode connects to the embedded broker of another node of the cluster, over the cluster port.
func (a *Appliance) dialNode(ctx context.Context, membership string) (net.Conn, error) {
	if a.broker == nil {
		return nil, &broker.Error{Kind: broker.Unavailable, Op: "connect", Msg: "this service has no broker of its own, and is not part of a cluster: set broker.enabled to true"}
	}
	return a.broker.DialNode(ctx, membership)
}
