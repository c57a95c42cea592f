// Package appliance is the service as one value: it composes the configuration
// of its parts, builds and starts them in order, and stops them in reverse.
//
// It knows every package but main; only main, tests and benchmarks import it. It reads no flag, no environment and no configuration file.
package appliance

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker"
	"signalbox/broker/bridges"
	bridgestore "signalbox/broker/bridges/store"
	"signalbox/broker/clock"
	"signalbox/broker/clusters"
	"signalbox/broker/embedded"
	"signalbox/broker/messaging"
	"signalbox/broker/monitor"
	"signalbox/broker/outbound"
	"signalbox/broker/remote"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
	"signalbox/broker/streams/store"
	"signalbox/db"
	"signalbox/handlers"
	"signalbox/handlers/audit"
	"signalbox/handlers/audit/sinks"
	"signalbox/handlers/auth"
	"signalbox/handlers/jobs"
	"signalbox/handlers/vault"
	"signalbox/router"
	"signalbox/router/appliance/datadir"
)

// Appliance is a running service.
type Appliance struct {
	API    *handlers.API
	URL    string   // of the API
	Broker []string // URLs of the embedded broker's listeners; none if it is disabled

	cfg      Config
	program  Program
	log      *slog.Logger
	clock    *clock.Clock // determines when sessions and messages expire
	first    *credentials
	metrics  []prometheus.Collector // of the parts
	parts    []servicePart          // that report whether they are ready
	started  time.Time
	recent   recentLog
	bundling sync.Mutex // held while a support bundle is made
	streams  *streams.Host
	bridges  *bridges.Host
	history  *monitor.History
	outbound *outbound.Policy
	backups  *backups
	files    *datadir.Watcher
	server   *router.Server
	broker   *embedded.Broker // nil if it is disabled
	machine  *vault.Vault     // seals what belongs to this machine
	shared   sharedDatabase
	adoption adoption

	forwarded atomic.Pointer[router.Server] // serves requests that other nodes forward; nil until it can

	outdated outdated
	undo     cleanup
}

// Program is the part of the program that the service shows.
type Program = router.Program

// The databases in the data directory.
const (
	databaseFile = "signalbox.db"
	brokerFile   = embedded.DatabaseFile
	streamsFile  = "streams.db"
	bridgesFile  = "bridges.db"
	historyFile  = "history.db"
	clusterFile  = "cluster/cluster.db"
)

// stopTime bounds the time of a stop, without the sessions that move to other nodes of a cluster.
const stopTime = 10 * time.Second

// drainTime is the part of it for requests in flight; a caller that never sends the
// rest of its request must not prevent the databases from being closed.
const drainTime = 5 * time.Second

// jobsTime is the part of it for the objects that jobs have begun to change.
const jobsTime = 2 * time.Second

// cleanup are the steps of a stop, executed in reverse order.
type cleanup []func(context.Context) error

func (s *cleanup) add(f func() error) { *s = append(*s, func(context.Context) error { return f() }) }

func (s *cleanup) addBounded(f func(context.Context) error) { *s = append(*s, f) }

// Start builds and starts everything. If it fails, nothing runs; if the reason is a
// used port, a locked data directory or a database that is newer than the program,
// nothing was changed either. The error is a sentence with the remedy.
func Start(ctx context.Context, c Config, program Program, log *slog.Logger) (*Appliance, error) {
	fitted, warn := c, func() {}
	if limit := openFiles(); limit > 0 {
		fitted = c.fitDescriptors(limit, slog.New(slog.DiscardHandler))
		warn = func() { c.fitDescriptors(limit, log) }
	}
	a := &Appliance{cfg: fitted, program: program, started: time.Now(), adoption: adoption{ended: make(chan struct{})},
		first: &credentials{path: filepath.Join(c.DataDir, "initial-credentials")}}
	a.log = a.recent.with(log)
	if err := a.start(ctx); err != nil {
		return nil, errors.Join(err, a.Stop())
	}
	warn() // not before: a refused start logs its reason, and nothing else
	return a, nil
}

// start executes the steps in order; each adds its own to the stops.
func (a *Appliance) start(ctx context.Context) error {
	if err := claim(ctx, a.cfg, &a.undo); err != nil {
		return err
	}
	a.clock = clock.New(clock.Machine(), a.log)
	stop := a.clock.Start()
	a.undo.add(func() error { stop(); return nil })
	begin := a.clock.Defer()
	a.backups = newBackups(a.cfg, a.program.Version, func() time.Time { return a.clock.Wall(a.clock.Now()) }, a.log)
	a.metrics = append(a.metrics, clockMetrics{a.clock}, backupMetrics{a.backups})
	if err := run(ctx, a.openData); err != nil {
		return err
	}
	steps := []step{a.openAPI, a.firstStart, a.startBroker, a.watchFiles, a.adoptBroker, a.startHistory, a.startAuditSinks, a.startJobs,
		a.openServer, a.serveAPI, a.startServer, a.startDiagnostics, a.startBackups, a.connectBrokers}
	if a.shared.IsOutdated() {
		steps = []step{a.startOutdated}
	}
	if err := run(ctx, steps...); err != nil {
		return err
	}
	begin()
	return nil
}

// step is one of the start, which adds its own to the stops.
type step func(context.Context) error

// run executes steps until one fails.
func run(ctx context.Context, steps ...step) error {
	for _, s := range steps {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends the service: it refuses new requests, completes those in flight, then
// closes the broker and the databases. It takes at most ten seconds in addition to
// cluster.drain_timeout.
func (a *Appliance) Stop() error { return a.StopWithin(stopTime + a.cfg.Cluster.DrainTimeout) }

// StopWithin is Stop with another limit.
func (a *Appliance) StopWithin(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := a.outdated.end(ctx); err != nil {
		return err
	}
	if a.bridges != nil {
		a.bridges.Leave()
	}
	var errs []error
	for _, stop := range slices.Backward(a.undo) {
		errs = append(errs, stop(ctx))
	}
	a.undo = nil
	return errors.Join(errs...)
}

// openData opens the databases.
func (a *Appliance) openData(ctx context.Context) error {
	in := func(name string) string { return filepath.Join(a.cfg.DataDir, name) }
	policy, err := outbound.New(a.cfg.Outbound)
	if err != nil {
		return err
	}
	a.outbound = policy
	d, err := db.Open(ctx, in(databaseFile), a.log)
	if err != nil {
		return err
	}
	a.undo.addBounded(d.Close)
	if err := a.checkShared(ctx, d); err != nil {
		return err
	}
	a.addPart("database", d.Ping)
	v, err := openVault(ctx, in(keyFile), d.HasSecrets,
		func(ctx context.Context) (bool, error) { return bridgestore.HasSecrets(ctx, in(bridgesFile)) },
		func(ctx context.Context) (bool, error) { return embedded.HasClusterSecrets(ctx, a.cfg.DataDir) })
	if err != nil {
		return err
	}
	keys, err := openKeys(ctx, d, v)
	if err != nil {
		return err
	}
	a.machine, a.shared = v, sharedDatabase{d, keys, &definitions{db: d, keys: keys, log: a.log}, newLeading(d, a.log), a.cfg.DataDir}
	if err := a.endShared(ctx); err != nil {
		return err
	}
	if err := a.shared.dropFormer(ctx); err != nil {
		return err
	}
	if err := a.openBridges(ctx, in(bridgesFile), v); err != nil {
		return err
	}
	if err := os.MkdirAll(in("certs"), 0o700); err != nil {
		return err
	}
	if err := a.openStreams(ctx, in(streamsFile)); err != nil {
		return err
	}
	a.startLeading(ctx)
	a.history = monitor.Open(ctx, in(historyFile), monitor.Options{Log: a.log, Now: time.Now})
	a.undo.addBounded(a.history.Close)
	return nil
}

// openAPI opens the API on the databases.
func (a *Appliance) openAPI(ctx context.Context) error {
	d, keys := a.shared.DB, a.shared.sharedKeys
	trail, err := audit.Open(ctx, d, keys, a.cfg.Audit, time.Now, a.log)
	if err != nil {
		return err
	}
	a.undo.addBounded(a.lastWrites(trail.Close))
	users := auth.New(d, a.cfg.Auth, time.Now, a.log)
	a.undo.addBounded(a.lastWrites(users.Close))
	dialer := remote.New(a.log)
	dialer.Outbound, dialer.Now, dialer.SlowCommand = a.outbound, a.clock.Now, a.cfg.Log.Slow
	dialer.RequestID = router.RequestID
	dialer.Streams = func(id string, m messaging.Broker) messaging.StreamEngine { return a.streams.Open(id, m) }
	dialer.Bridges = func(id, identity string, m messaging.Broker) messaging.BridgeEngine {
		return a.bridges.Open(id, identity, m)
	}
	dialer.Serving = a.shared.leading.Serving
	dialer.Node = func() string { return a.API.NodeID() }
	dialer.DialNode = a.dialNode
	pool := broker.NewPool(dialer.Dial)
	a.undo.addBounded(pool.Close)
	connections := &handlers.Connections{DB: d, Brokers: pool, BrokerData: a.brokerData(), Vault: keys, CertDir: filepath.Join(a.cfg.DataDir, "certs"), Now: time.Now, Log: a.log}
	level := a.cfg.Log.Leveler
	if level == nil {
		level = a.cfg.Log.newLevel()
	}
	copies := sinks.New(d, a.cfg.Audit.Sinks, sinks.Options{Encode: handlers.EncodeAuditEvent, Publish: a.publish, Log: a.log, Now: time.Now})
	a.metrics = append(a.metrics, auditMetrics{copies})
	a.API = &handlers.API{Connections: connections, Clusters: clusters.New(connections.ClusterRows(), a.log), Auth: users, Audit: trail, AuditSinks: copies,
		Jobs: jobs.New(jobs.DefaultLimits(), time.Now, a.log), SearchTime: handlers.DefaultSearchTime, History: a.history,
		Nodes: nodes{a}, Events: a.openEvents(pool), LogLevel: level, DiskFree: func() int64 { return DiskFree(a.cfg) }, System: system{a}}
	a.undo.addBounded(a.closeForwarded)
	if a.backups.isSet() {
		a.API.Backups = servedBackups{a.backups}
	}
	a.metrics = append(a.metrics, remoteMetrics{a.API, a.history})
	return connections.PrepareFollow(ctx)
}

// openStreams opens the streams of all brokers.
func (a *Appliance) openStreams(ctx context.Context, path string) error {
	c := a.cfg.Streams
	s, err := store.Open(ctx, path, store.Options{
		MaxBytes: c.MaxBytes, MaxStreamBytes: c.MaxStreamBytes, Durability: storage.Durability(c.Durability), Log: a.log, Now: time.Now,
		Clock: a.clock,
	})
	if err != nil {
		return err
	}
	a.undo.addBounded(s.Close)
	a.shared.definitions.streams = s
	a.streams = streams.NewHost(c, s, a.log)
	a.streams.Registry = registry{a.shared.definitions, db.StreamDefinition}
	a.addPart("streams", a.streams.Healthy)
	a.metrics = append(a.metrics, streamMetrics{a.streams})
	return nil
}

// openVault opens the key file; it creates one only if nothing is sealed.
func openVault(ctx context.Context, path string, hasSecrets ...func(context.Context) (bool, error)) (*vault.Vault, error) {
	sealed := false
	for _, check := range hasSecrets {
		has, err := check(ctx)
		if err != nil {
			return nil, err
		}
		sealed = sealed || has
	}
	return vault.Open(path, !sealed)
}

func (a *Appliance) firstStart(ctx context.Context) error {
	return a.API.FirstStart(ctx, a.cfg.Admin, func(password string) error {
		return a.first.keep("API administrator", a.cfg.Admin.Email, password)
	})
}

// startJobs has the jobs of the API end before what they use.
func (a *Appliance) startJobs(context.Context) error {
	a.undo.addBounded(a.stopJobs)
	return nil
}

// openServer makes the server, which responds that the service has yet to start until serveAPI.
func (a *Appliance) openServer(context.Context) (err error) {
	c := a.cfg.HTTP
	c.SlowRequest = a.cfg.Log.Slow
	if a.server, err = router.New(c, a.isReady, a.program, a.log); err != nil {
		return err
	}
	a.undo.addBounded(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, drainTime)
		defer cancel()
		if err := a.server.Close(ctx); err != nil {
			a.log.Warn("requests were aborted", "error", err)
		}
		return nil
	})
	a.forwarded.Store(a.server)
	return nil
}

// serveAPI has the server serve the API.
func (a *Appliance) serveAPI(context.Context) error {
	return a.server.Serve(a.API, a.API.Auth, a.metrics...)
}

// startServer binds the address of the server.
func (a *Appliance) startServer(ctx context.Context) error {
	if err := a.server.Start(ctx); err != nil {
		return err
	}
	a.URL = a.server.URL()
	return a.writeAddress()
}

// stopJobs stops the jobs before their brokers are closed.
func (a *Appliance) stopJobs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, jobsTime)
	defer cancel()
	if err := a.API.Jobs.Close(ctx); err != nil {
		a.log.Warn("jobs were aborted", "error", err)
	}
	return nil
}

// AwaitAnswers returns when every part has reported whether it is ready, or that ctx is
// done. It does not return while a part holds a lock forever.
func (a *Appliance) AwaitAnswers(ctx context.Context) { _ = a.isReady(ctx) }
