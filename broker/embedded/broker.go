// Package embedded is the broker in this process: listeners, the MQTT engine, access
// control and the storage of messages, as a broker.Broker.
//
// The parts are packages of their own: listen and limits (connections), engine (MQTT),
// access (users and rights), store (messages), replica and cluster (several nodes), sys
// ($SYS). This package assembles them and handles the control topics. It must not import a
// database or an HTTP router.
package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/clock"
	"signalbox/broker/embedded/access"
	"signalbox/broker/embedded/cluster/replica"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/limits"
	"signalbox/broker/embedded/listen"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/embedded/store"
	"signalbox/broker/embedded/sys"
	"signalbox/broker/ranking"
	"signalbox/broker/storage"
	"signalbox/broker/topictree"
)

// DatabaseFile is the broker's file in the data directory.
const DatabaseFile = "broker.db"

// generatedLength is the length of a generated password: 20 characters of 5
// bits each.
const generatedLength = 20

// Broker is the embedded broker. All methods are safe for concurrent use.
//
// Locks: lifecycle.mu, which Start holds throughout, comes before all others; no two of the
// others are held together, and none while calling out. A member's transition comes before
// all locks of the parts.
type Broker struct {
	broker.Access // in this process
	broker.AccessTransfer
	broker.StreamChoice
	broker.BridgeChoice

	config       Config
	log          *slog.Logger
	now          func() time.Time // the time of day; for durations in this process only
	clock        *clock.Clock
	stopClock    func() // stops the clock, if it is the broker's own
	file         *storage.File
	timeline     *clock.Timeline // the service time: sessions and messages expire by it
	control      *access.Control
	store        *store.Store
	replica      *replica.Store // in front of the store
	engine       *engine.Engine
	features     features
	slowRequests chan struct{} // one entry for each request that waits for other systems
	cluster      *member       // nil for none
	kept         keptState
	limits       *limits.Limits
	bans         *limits.Bans
	flapping     *limits.Flapping
	denials      *denials
	rankings     ranking.Shared[broker.TopClients] // of clients
	tree         *topictree.Tracker
	sys          *sys.Tree
	listeners    *listen.Set
	traffic      listen.Counters
	tasks        sync.WaitGroup
	life         lifecycle
}

var _ broker.Broker = (*Broker)(nil)

// New opens the broker's file in dataDir and prepares everything, but binds no socket. If
// nothing was ever stored there, it creates the admin client. Its errors are sentences that
// say what to do.
func New(ctx context.Context, cfg Config, dataDir string, log *slog.Logger) (*Broker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b := &Broker{config: cfg, log: log, now: time.Now, slowRequests: make(chan struct{}, maxSlowRequests), life: newLifecycle()}
	b.features.broker = b
	b.StreamChoice.Choose, b.BridgeChoice.Choose = b.features.chooseStreams, b.features.chooseBridges
	if err := b.build(ctx, filepath.Join(dataDir, DatabaseFile)); err != nil {
		return nil, errors.Join(err, b.closeParts(context.WithoutCancel(ctx)))
	}
	return b, nil
}

// build creates the parts, in the order of their dependencies.
func (b *Broker) build(ctx context.Context, path string) (err error) {
	if b.listeners, err = b.openListeners(); err != nil {
		return err
	}
	if err := b.openFile(ctx, path); err != nil {
		return err
	}
	if err := b.openAccess(ctx); err != nil {
		return err
	}
	durability := storage.Durability(b.config.Durability)
	if b.store, err = store.Open(ctx, b.file, store.Options{Durability: durability, Log: b.log, Now: b.now}); err != nil {
		return err
	}
	b.replica = replica.Open(replica.Options{Local: b.store, Encode: store.AppendChanges, Decode: store.DecodeChanges})
	if b.bans, err = limits.OpenBans(ctx, b.control, limits.Clocks{Wall: b.now, Service: b.timeline.Now}); err != nil {
		return err
	}
	b.flapping = limits.NewFlapping(b.config.Limits.Flapping, b.timeline.Now)
	b.denials = newDenials()
	b.tree = b.newTree()
	b.engine = engine.New(b.engineConfig(), engine.Parts{
		Store: b.replica, Authority: authority{b}, Watcher: watcher{b}, Observe: b.tree.Observe, Control: b.dispatch,
	})
	b.sys = sys.New(sys.Options{Source: figures{b}, Version: b.config.Version, Now: b.now})
	b.control.OnDisconnect(b.disconnect)
	b.control.SetConnections(b.engine.Addresses)
	if err := b.openFeatures(ctx, filepath.Dir(path)); err != nil {
		return err
	}
	return b.openCluster(ctx, filepath.Dir(path))
}

// openFile opens the file and the service time by which its contents expire.
func (b *Broker) openFile(ctx context.Context, path string) (err error) {
	if b.file, err = schema.Open(ctx, path, b.log); err != nil {
		return err
	}
	b.clock = b.config.Clock
	if b.clock == nil {
		b.clock = clock.New(clock.Machine(), b.log)
		b.stopClock = b.clock.Start()
	}
	b.timeline, err = b.clock.Open(ctx, b.file)
	return err
}

// openAccess opens the access control and, on the first start, creates the admin client.
func (b *Broker) openAccess(ctx context.Context) error {
	control, err := access.Open(ctx, access.Options{
		File: b.file, PasswordIterations: b.config.PasswordIterations, MinPasswordLength: b.config.MinPasswordLength, Log: b.log,
	})
	if err != nil {
		return err
	}
	b.control, b.Access, b.AccessTransfer = control, control, control
	return b.bootstrap(ctx)
}

// bootstrap creates the admin client on the first start.
func (b *Broker) bootstrap(ctx context.Context) error {
	if b.control.Initialised() {
		return nil
	}
	password := b.config.AdminPassword
	if password == "" {
		password = broker.Secret(rand.Text()[:generatedLength])
		if keep := b.config.KeepPassword; keep != nil {
			if err := keep(password); err != nil {
				return err
			}
		}
	}
	if err := b.control.Bootstrap(ctx, b.config.AdminUsername, password); err != nil {
		return fmt.Errorf("create the broker's admin client: %w", err)
	}
	return nil
}

// closeParts closes the parts that exist, in reverse order.
func (b *Broker) closeParts(ctx context.Context) error {
	b.kept.stop()
	errs := []error{b.closeCluster(ctx), b.features.close(ctx)}
	if b.replica != nil {
		errs = append(errs, b.replica.Close(ctx))
	}
	if b.control != nil {
		errs = append(errs, b.control.Close(ctx))
	}
	if b.timeline != nil {
		errs = append(errs, b.timeline.Close(ctx))
	}
	if b.stopClock != nil {
		b.stopClock()
	}
	if b.file != nil {
		errs = append(errs, b.file.Close())
	}
	return errors.Join(errs...)
}

// Capabilities returns what the broker supports.
func (b *Broker) Capabilities() []broker.Capability {
	return slices.DeleteFunc(slices.Clone(capabilities), func(c broker.Capability) bool {
		return c == broker.CapStreams && b.config.Streams == nil || c == broker.CapBridges && b.config.Bridges == nil ||
			c == broker.CapCluster && b.cluster == nil
	})
}

var capabilities = []broker.Capability{
	broker.CapDynamicSecurity, broker.CapInspect, broker.CapStreams, broker.CapTopicTree, broker.CapTTL, broker.CapListeners,
	broker.CapBridges, broker.CapLicense, broker.CapCluster, broker.CapClientControl, broker.CapMessages, broker.CapSubscriptions, broker.CapAccessCheck,
	broker.CapDenials, broker.CapBans,
}
