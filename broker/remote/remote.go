// Package remote manages a broker over MQTT by commands on its control topics, as Mosquitto
// offers them: with one connection per broker, which is made in the background and made again
// when it is lost.
//
// The streams and bridges that this service has on brokers are opened by functions of the
// [Dialer]; it must not import broker/streams or broker/bridges, nor net/http or a database.
// See DESIGN.md.
package remote

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/latency"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/dial"
	"signalbox/broker/mqtt/hosted"
	"signalbox/broker/outbound"
	"signalbox/broker/ranking"
	"signalbox/broker/topictree"
)

// Dialer connects to brokers.
type Dialer struct {
	// RequestID, if set, returns the id of the request that a context belongs to. It is sent
	// with each command, to correlate the broker's log with ours. It must be set before the
	// first Dial.
	RequestID func(context.Context) string

	// Streams, if set, opens the streams that this service has on a broker without a plugin
	// for them. It must be set before the first Dial. A target without an id has none.
	Streams func(brokerID string, m messaging.Broker) messaging.StreamEngine
	// Bridges, if set, opens bridges, like Streams. The identity is the broker's name among
	// bridges.
	Bridges func(brokerID, identity string, m messaging.Broker) messaging.BridgeEngine

	// Serving, if set, waits until this service is to take the messages for streams and bridges, as
	// [messaging.ServingBroker] does. It must be set before the first Dial. By default it always is.
	Serving func(ctx context.Context) (context.Context, error)
	// Node, if set, returns what distinguishes this service from others that have the same brokers,
	// in the client id with which streams and bridges connect. It must be set before the first Dial.
	Node func() string

	// Outbound restricts the addresses of brokers; nil is the default policy. It must be set
	// before the first Dial.
	Outbound *outbound.Policy

	// DialNode, if set, opens a connection to the broker of another node of this service's cluster, by
	// its membership. That broker asks for no credentials. It must be set before the first Dial.
	DialNode func(ctx context.Context, membership string) (net.Conn, error)

	// SlowCommand is the time from which on a command is logged as slow; 0 is never. It must be
	// set before the first Dial.
	SlowCommand time.Duration

	// Now is the clock for the expiry of messages; New sets it to time.Now. It must be set
	// before the first Dial.
	Now func() time.Time

	log    *slog.Logger
	now    func() time.Time
	timing timing
}

// timing holds timeouts and intervals.
type timing struct {
	connectTimeout  time.Duration // from name resolution to CONNACK
	responseTimeout time.Duration // of a command or subscription
	longTimeout     time.Duration // added if a command takes long
	grace           time.Duration // for the response to a probe that the broker has processed
	writeTimeout    time.Duration // of one packet
	minDelay        time.Duration // before the second attempt in a row
	maxDelay        time.Duration // between attempts
	retryInterval   time.Duration // minimum time between a failure and an attempt started by an operation
	retryWait       time.Duration // how long an operation waits for that attempt
	stable          time.Duration // duration after which a connection resets the delay
	sampleInterval  time.Duration // between samples of the $SYS tree
	quietPeriod     time.Duration // without a retained message: the list is complete
	clearTimeout    time.Duration // for retained messages to be cleared
	pingInterval    time.Duration // between PINGREQ packets on a receiving connection
	readTimeout     time.Duration // of a receiving connection
}

var defaultTiming = timing{
	connectTimeout:  10 * time.Second,
	responseTimeout: 10 * time.Second,
	longTimeout:     20 * time.Second,
	grace:           time.Second,
	writeTimeout:    10 * time.Second,
	minDelay:        time.Second,
	maxDelay:        30 * time.Second,
	retryInterval:   time.Second,
	retryWait:       time.Second,
	stable:          10 * time.Second,
	sampleInterval:  10 * time.Second,
	quietPeriod:     50 * time.Millisecond,
	clearTimeout:    3 * time.Second,
	pingInterval:    30 * time.Second,
	readTimeout:     time.Minute,
}

// New returns a Dialer that logs to log, which must not be nil.
func New(log *slog.Logger) *Dialer {
	return &Dialer{Now: time.Now, log: log, now: time.Now, timing: defaultTiming}
}

// Dial returns a broker and connects in the background, until it is closed. An error is a
// [*broker.Error] of kind Invalid that names the invalid member of the target.
func (d *Dialer) Dial(t broker.Target) (broker.Broker, error) {
	b, err := d.dial(t)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (d *Dialer) dial(t broker.Target) (*Broker, error) {
	ep, err := d.endpoint(&t)
	if err != nil {
		return nil, &broker.Error{Kind: broker.Invalid, Op: "connect", Msg: err.Error(), Err: err}
	}
	log := d.log.With("broker", t.ID, "addr", ep.Addr)
	if ep.TLS != nil && ep.TLS.InsecureSkipVerify && ep.Pin == nil {
		log.Warn("broker certificate is not verified")
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &Broker{
		endpoint: ep, username: t.Username, password: t.Password,
		instance: rand.Text(), requestID: d.RequestID,
		timing: d.timing, now: d.now, messageTime: d.Now, log: log,
		link: newLink(d.now, d.timing), sys: newSysTree(d.now), cancel: cancel, lifetime: ctx,
		shortConns: make(chan struct{}, maxShortConns), losses: map[string]int{},
		single: singleConnection{checking: make(chan struct{}, 1)}, slow: d.SlowCommand,
	}
	b.StreamChoice.Choose, b.BridgeChoice.Choose = b.streams, b.bridges
	b.figures.commands = latency.New(commandBounds...)
	b.receiver = client.New(b.receiverOptions())
	if t.TopicTree {
		b.startTree(ctx)
	}
	b.openHosted(ctx, d, t.ID)
	b.wg.Go(func() { b.run(ctx) })
	b.wg.Go(func() { b.sample(ctx) })
	return b, nil
}

// Broker is a broker managed over MQTT. Capabilities returns what it offers, Status what it
// does not.
type Broker struct {
	broker.StreamChoice
	broker.BridgeChoice

	endpoint  dial.Endpoint
	username  string
	password  broker.Secret
	instance  string // prefix of the correlation data
	requestID func(context.Context) string
	counter   atomic.Uint64 // of commands
	timing    timing
	now       func() time.Time
	log       *slog.Logger
	slow      time.Duration // Dialer.SlowCommand
	figures   counters

	messageTime func() time.Time // Dialer.Now

	single singleConnection
	losses map[string]int // connections lost to the discovery of a topic; used by run only

	link       *link
	sys        *sysTree
	tree       *topictree.Follower               // for a broker without a topic tree; nil if none is to be emulated
	receiver   *client.Client                    // of all else that receives what is published
	hosted     *hosted.Features                  // streams and bridges of this service
	shortConns chan struct{}                     // semaphore of short connections
	rankings   ranking.Shared[broker.TopClients] // of clients

	lifetime context.Context // ends with Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup // run, sample, feeds of listeners and what belongs to them
	closing  sync.Mutex     // held while lifetime ends, and while a goroutine of a request starts
}

var _ broker.Broker = (*Broker)(nil)

// Status returns whether the broker is connected and what it does not offer; it never blocks.
func (b *Broker) Status() broker.Status {
	s := b.link.status()
	s.Version = b.sys.version()
	return s
}

// Ready waits until the broker is connected and its capabilities are known. While the service
// waits between attempts it returns the cause at once.
func (b *Broker) Ready(ctx context.Context) error { return b.link.ready(ctx) }

// Capabilities returns the capabilities of the broker, whether or not this package uses them.
func (b *Broker) Capabilities() []broker.Capability { return b.link.capabilities() }

// Close closes the connection and waits for all goroutines, or until ctx ends. It may be
// called more than once.
func (b *Broker) Close(ctx context.Context) error {
	b.hosted.Close(ctx) //nolint:errcheck // it is the context's, which ends the rest as well
	b.closing.Lock()
	b.cancel()
	b.closing.Unlock()
	done := make(chan struct{})
	go func() {
		b.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// goWhileOpen starts a goroutine that Close waits for. It reports false after Close.
func (b *Broker) goWhileOpen(f func()) bool {
	b.closing.Lock()
	defer b.closing.Unlock()
	if b.lifetime.Err() != nil {
		return false
	}
	b.wg.Go(f)
	return true
}

// correlation returns the correlation data of the next command: the instance, the request id
// if known, and a number.
func (b *Broker) correlation(ctx context.Context) string {
	n := strconv.FormatUint(b.counter.Add(1), 10)
	if b.requestID == nil {
		return b.instance + "/" + n
	}
	if id := b.requestID(ctx); id != "" {
		return b.instance + "/" + id + "/" + n
	}
	return b.instance + "/" + n
}
