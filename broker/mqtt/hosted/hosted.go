// Package hosted runs the streams and bridges of this service on a broker that is reached over
// MQTT, through one client for both. A kind of broker makes that client and chooses when the
// streams and bridges are these.
//
// Of this module it imports only broker, broker/messaging and broker/mqtt/client.
package hosted

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"log/slog"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
)

// Options configures Features. Everything but Serving is required.
type Options struct {
	// Serving, if set, waits until this service takes the messages of the broker; see
	// [messaging.ServingBroker]. By default it always does.
	Serving func(ctx context.Context) (serving context.Context, err error)
	// Connected reports whether the broker can be reached now: otherwise no operation waits for
	// subscriptions.
	Connected func() bool
	// ResponseTimeout bounds how long an operation waits for subscriptions.
	ResponseTimeout time.Duration
	Log             *slog.Logger
}

// Features are the streams and bridges of this service on a broker. Their client keeps no
// connections before there is a first one. All methods are safe for concurrent use once Open
// has returned; before that, only Serving is.
type Features struct {
	options Options
	client  *client.Client
	engines []messaging.Engine
	streams messaging.StreamEngine // nil for none
	bridges messaging.BridgeEngine // like streams

	started chan struct{} // closed when there is something to do
	once    sync.Once     // guards the closing of started
}

// New returns Features without streams and bridges.
func New(o Options) *Features { return &Features{options: o, started: make(chan struct{})} }

// Open opens streams and bridges, whose messages the client receives and publishes: its
// options call Serving and Refresh. Either function may be nil. Open is called at most once;
// Run is to follow.
func (f *Features) Open(c *client.Client, openStreams func(messaging.Broker) messaging.StreamEngine, openBridges func(messaging.Broker) messaging.BridgeEngine) {
	f.client = c
	if openStreams != nil {
		f.streams = &streams{openStreams(servingBroker{c, f}), f}
		f.engines = append(f.engines, f.streams)
	}
	if openBridges != nil {
		f.bridges = &bridges{openBridges(servingBroker{c, f}), f}
		f.engines = append(f.engines, f.bridges)
	}
}

// Streams returns the streams, nil for none. Creating and changing one, and starting a replay,
// wait for the subscription if there is a connection.
func (f *Features) Streams() messaging.StreamEngine { return f.streams }

// Bridges returns the bridges, nil for none. Setting their configuration waits for the
// subscriptions if there is a connection.
func (f *Features) Bridges() messaging.BridgeEngine { return f.bridges }

// Run runs the client when there is something to do, until ctx ends; without streams and
// bridges it returns at once. It waits for all definitions, because messages queued in sessions
// arrive at once.
func (f *Features) Run(ctx context.Context) {
	if len(f.engines) == 0 {
		return
	}
	for _, e := range f.engines {
		if e.Ready(ctx) != nil {
			return
		}
	}
	for _, e := range f.engines {
		if n, err := e.Len(ctx); err == nil && n > 0 {
			f.start()
		}
	}
	select {
	case <-f.started:
		f.client.Run(ctx)
	case <-ctx.Done():
	}
}

func (f *Features) start() { f.once.Do(func() { close(f.started) }) }

// Serving waits until this service takes the messages of the broker; see [messaging.ServingBroker].
func (f *Features) Serving(ctx context.Context) (serving context.Context, err error) {
	if f.options.Serving == nil {
		return context.Background(), nil
	}
	return f.options.Serving(ctx)
}

// Refresh waits until the definitions are those that the nodes of a cluster know.
func (f *Features) Refresh(ctx context.Context) error {
	for _, e := range f.engines {
		for e.Refresh(ctx) != nil { // its engine logs why
			if !messaging.Sleep(ctx, time.Second) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// WaitSubscribed waits for the subscriptions if an engine has something to do.
func (f *Features) WaitSubscribed(ctx context.Context, e messaging.Engine) {
	if n, err := e.Len(ctx); err != nil || n == 0 {
		return
	}
	f.start()
	if !f.options.Connected() || !messaging.IsServing(servingBroker{f.client, f}) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, f.options.ResponseTimeout)
	defer cancel()
	if err := f.client.WaitSubscribed(ctx); err != nil {
		f.options.Log.Warn("what is wanted of the broker is not subscribed to in time", "error", err)
	}
}

// Close ends the streams and bridges. Received messages are stored, and acknowledged while Run
// runs; the sessions stay for the next run.
func (f *Features) Close(ctx context.Context) error {
	if len(f.engines) == 0 {
		return nil
	}
	f.client.StopReceiving()
	errs := make([]error, len(f.engines))
	var wg sync.WaitGroup
	for i, e := range f.engines {
		wg.Go(func() { errs[i] = e.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ClientIDPrefix is how every ClientID begins.
const ClientIDPrefix = "signalbox-"

// ClientID returns a client id that is the same in every run, two characters shorter than the
// 23 that every broker accepts [MQTT-3.1.3-5].
func ClientID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return ClientIDPrefix + base32.HexEncoding.EncodeToString(sum[:])[:11]
}

// servingBroker is the broker of the engines.
type servingBroker struct {
	*client.Client
	features *Features
}

var _ messaging.ServingBroker = servingBroker{}

// Serving waits until this service takes the messages.
func (b servingBroker) Serving(ctx context.Context) (serving context.Context, err error) {
	return b.features.Serving(ctx)
}

// Subscribe subscribes; see [messaging.Broker].
func (b servingBroker) Subscribe(filter string, t messaging.Tap) (cancel func()) {
	b.features.start()
	return b.Client.Subscribe(filter, t)
}

// Publish publishes messages; see [messaging.Broker].
func (b servingBroker) Publish(ctx context.Context, messages []messaging.Message) (done, refused int, err error) {
	b.features.start()
	return b.Client.Publish(ctx, messages)
}

// Reached returns nil if messages can be published now.
func (b servingBroker) Reached() error {
	if !messaging.IsServing(b) {
		return &broker.Error{Kind: broker.Unavailable, Msg: "another node of the cluster, its leader, takes and publishes the messages of this broker's streams and bridges: use that one"}
	}
	return b.Client.Reached()
}
