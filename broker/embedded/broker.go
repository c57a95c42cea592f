// Package embedded is the broker in this process: MQTT listeners, the server
// behind them and its access control, as a broker.Broker.
//
// Protocol, queues and retained messages are the mochi server's for now; this
// package decides who comes in, what passes and what is answered on $CONTROL.
// DESIGN.md tells how the two share the work. It must not import any package of
// this module but broker, broker/dynsec and broker/embedded/access, nor a
// database, and nobody else may import mochi.
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

	mqtt "github.com/mochi-mqtt/server/v2"

	"signalbox/broker"
	"signalbox/broker/embedded/access"
)

// DatabaseFile is the broker's file in the data directory.
const DatabaseFile = "broker.db"

// generatedLength is the length of a generated password: 20 characters of 5
// bits each.
const generatedLength = 20

// Broker is the embedded broker. All methods are safe for concurrent use.
//
// Locks: lifecycle.mu, which Start holds throughout, comes before all others;
// of those no two are held together, and none while calling out, except that
// retained is held around the server's access to its retained messages; see
// DESIGN.md.
type Broker struct {
	broker.Access // in process
	broker.AccessTransfer
	broker.NoInspection
	broker.NoStreams
	broker.NoTopics
	broker.NoBridges
	broker.NoClientControl
	broker.NoMessages
	broker.NoSubscriptions
	broker.NoAccessCheck
	broker.NoDenials
	broker.NoBans

	config  Config
	log     *slog.Logger
	now     func() time.Time
	control *access.Control

	server    *mqtt.Server
	self      *mqtt.Client // in whose name the broker publishes
	listeners []*listener
	registry  *registry
	meters    *meters
	sys       *sysTree
	slots     chan struct{} // one per open connection
	retained  sync.RWMutex  // guards what the server does not: see retained.go
	tasks     sync.WaitGroup
	life      lifecycle
}

var _ broker.Broker = (*Broker)(nil)

// New opens the broker's file in dataDir and prepares everything, but binds no
// socket. If nothing was ever stored there, it creates the admin client. Its errors are sentences that say what to do.
func New(ctx context.Context, cfg Config, dataDir string, log *slog.Logger) (*Broker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	listeners, err := newListeners(cfg)
	if err != nil {
		return nil, err
	}
	control, err := access.Open(ctx, access.Options{
		Path:               filepath.Join(dataDir, DatabaseFile),
		PasswordIterations: cfg.PasswordIterations,
		Log:                log,
	})
	if err != nil {
		return nil, err
	}
	b := newBroker(cfg, control, listeners, log)
	if err := b.bootstrap(ctx); err != nil {
		return nil, errors.Join(err, control.Close(ctx))
	}
	return b, nil
}

func newBroker(cfg Config, control *access.Control, listeners []*listener, log *slog.Logger) *Broker {
	b := &Broker{
		Access: control, AccessTransfer: control,
		config: cfg, log: log, now: time.Now, control: control,
		listeners: listeners,
		registry:  newRegistry(),
		meters:    &meters{},
		slots:     make(chan struct{}, cfg.MaxConnections),
		life:      newLifecycle(),
	}
	b.server, b.self = newServer(b)
	b.sys = newSysTree(b)
	control.OnCut(b.cut)
	control.SetConnections(b.registry.addresses)
	return b
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

// Capabilities lists what the broker can do.
func (b *Broker) Capabilities() []broker.Capability {
	return slices.Clone(capabilities)
}

var capabilities = []broker.Capability{
	broker.CapDynamicSecurity, broker.CapListeners, broker.CapLicense,
}
