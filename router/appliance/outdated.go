package appliance

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"signalbox/broker"
	"signalbox/broker/embedded"
)

// A node that shares its database, and was upgraded to a release with another schema, does not change that
// alone: the nodes do so together, by the cluster's log, when all run a release that knows it (see
// sharedDatabase.upgrade). Until then it runs what needs no more of the database than to follow the others,
// above all its broker.

// errOutdated is why a node changes nothing.
var errOutdated = &broker.Error{Kind: broker.Unavailable,
	Msg: "this node was upgraded, and other nodes of the cluster run an earlier release: make changes at one of these until all run the new release"}

// auditOutdated records the control requests of clients while the database cannot store that. Only those
// about the cluster are permitted, so that the node can leave it, and others can be removed; the log has them.
func (a *Appliance) auditOutdated(q broker.ControlRequest) (end func([]broker.ControlOutcome), err error) {
	if q.Topic != embedded.ClusterTopic {
		return nil, errOutdated
	}
	names := make([]string, 0, len(q.Commands))
	for _, c := range q.Commands {
		names = append(names, c.Name)
	}
	a.log.Warn("the cluster is changed, which the audit log cannot record before all nodes run the same release",
		slog.Any("commands", names), slog.String("username", q.Username), slog.String("clientid", q.ClientID), slog.String("address", q.Address))
	return func([]broker.ControlOutcome) {}, nil
}

// outdated is the rest of the start of a node whose database is outdated.
type outdated struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended; nil if there is none
	failed chan error    // one element if it fails
}

// end ends it.
func (o *outdated) end(ctx context.Context) error {
	if o.done == nil {
		return nil
	}
	o.cancel()
	select {
	case <-o.done:
		return nil
	case <-ctx.Done():
		return errors.New("the rest of the start did not end in time")
	}
}

// Failed yields an error when the service cannot complete its start, which went on after Start. It must be
// stopped then.
func (a *Appliance) Failed() <-chan error { return a.outdated.failed }

// startOutdated starts what a node with an outdated database can do, and completes the start when that has the
// schema of this release.
func (a *Appliance) startOutdated(ctx context.Context) error {
	stored, release := a.shared.Schema()
	a.log.Warn("this node waits until all nodes of its cluster run a release that knows its schema of the shared data; until then it serves MQTT clients, and neither API nor console",
		slog.Int64("schema", stored), slog.Int64("needed", release))
	data := len(a.undo)
	if err := run(ctx, a.startBroker, a.watchFiles); err != nil {
		return err
	}
	server := len(a.undo)
	if err := run(ctx, a.openServer, a.startServer); err != nil {
		return err
	}
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.outdated = outdated{cancel, make(chan struct{}), make(chan error, 1)}
	go func() {
		defer close(a.outdated.done)
		err := a.shared.AwaitSchema(waiting)
		if err == nil {
			err = a.complete(waiting, data, server)
		}
		if err != nil && waiting.Err() == nil {
			a.outdated.failed <- err
		}
	}()
	return nil
}

// complete starts the rest of the service. It inserts its stops, so that they are in the order of any other
// start, beside those of the broker and of the server, which begin at these indexes.
func (a *Appliance) complete(ctx context.Context, broker, server int) error {
	brokerStops, serverStops := slices.Clone(a.undo[broker:server]), slices.Clone(a.undo[server:])
	a.undo = a.undo[:broker:broker]
	err := run(ctx, a.openAPI, a.firstStart)
	a.undo = append(a.undo, brokerStops...)
	if err == nil {
		err = run(ctx, a.adoptBroker, a.startHistory, a.startAuditSinks, a.startJobs)
	}
	a.undo = append(a.undo, serverStops...)
	if err == nil {
		err = run(ctx, a.serveAPI, a.startDiagnostics, a.startBackups, a.connectBrokers)
	}
	if err == nil {
		a.log.Info("the service is complete: the shared data have the schema of this release")
	}
	return err
}
