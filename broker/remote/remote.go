// Package remote is a broker that is reached over MQTT and managed by commands
// on its control topics, as Mosquitto offers them: one connection per broker,
// made in the background and made again when it is lost.
//
// Of this module it imports broker, broker/bridges, broker/control, broker/dynsec,
// broker/pages, broker/streams, broker/topictree, broker/mqtt/dial and
// broker/mqtt/client only, and it is the only package that imports an MQTT client. It must not import net/http or a database. DESIGN.md
// beside this file tells what the code cannot show.
package remote

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/mqtt/dial"
	"signalbox/broker/outbound"
	"signalbox/broker/streams"
	"signalbox/broker/topictree"
)

// Dialer makes live brokers of targets.
type Dialer struct {
	// RequestID, if set, gives the id of the request that a context belongs
	// to. It goes with each command, so that a broker's log and ours can be
	// laid side by side. It must be set before the first Dial.
	RequestID func(context.Context) string

	// Streams, if set, are the streams that this service has on brokers without
	// a plugin for them. It must be set before the first Dial. A target without an
	// id gets none.
	Streams *streams.Host
	// Bridges, if set, are the bridges that this service has, as Streams.
	Bridges *bridges.Host

	// Outbound is where brokers may be reached; nil is the default policy. It must be
	// set before the first Dial.
	Outbound *outbound.Policy

	// Now is the clock of messages' times, by which they expire; New sets it to
	// time.Now. It must be set before the first Dial.
	Now func() time.Time

	log    *slog.Logger
	now    func() time.Time
	timing timing
}

// timing is how long things take at most, and how often they are done.
type timing struct {
	connect  time.Duration // from the name look-up to the CONNACK
	answer   time.Duration // for a command, and for subscribing
	others   time.Duration // that a broker waits for other systems
	grace    time.Duration // for the answer to a probe that the broker has processed
	write    time.Duration // for writing one packet
	minPause time.Duration // before the second attempt in a row
	maxPause time.Duration // between attempts
	urge     time.Duration // after a failure, before an operation has the next attempt made earlier
	hope     time.Duration // how long an operation waits for that one
	stable   time.Duration // a connection that stood for so long was a good one
	sample   time.Duration // between two samples of the $SYS tree
	quiet    time.Duration // without a retained message: that was the last
	clear    time.Duration // for what is retained to be cleared
	ping     time.Duration // between two PINGREQ on a connection that only receives
	silence  time.Duration // on such a connection: it is lost
}

var defaultTiming = timing{
	connect:  10 * time.Second,
	answer:   10 * time.Second,
	others:   20 * time.Second,
	grace:    time.Second,
	write:    10 * time.Second,
	minPause: time.Second,
	maxPause: 30 * time.Second,
	urge:     time.Second,
	hope:     time.Second,
	stable:   10 * time.Second,
	sample:   10 * time.Second,
	quiet:    50 * time.Millisecond,
	clear:    3 * time.Second,
	ping:     30 * time.Second,
	silence:  time.Minute,
}

// New makes a dialer that logs to log, which must not be nil.
func New(log *slog.Logger) *Dialer {
	return &Dialer{Now: time.Now, log: log, now: time.Now, timing: defaultTiming}
}

// Dial gives a live broker for the target and connects in the background, until
// the broker is closed. An error is a [*broker.Error] of kind Invalid that
// names the member of the target that cannot be used.
func (d *Dialer) Dial(t broker.Target) (broker.Broker, error) {
	b, err := d.dial(t)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (d *Dialer) dial(t broker.Target) (*Broker, error) {
	ep, err := parseTarget(t)
	if err != nil {
		return nil, &broker.Error{Kind: broker.Invalid, Op: "connect", Msg: err.Error(), Err: err}
	}
	ep.Dial = d.Outbound.DialContext
	log := d.log.With("broker", t.ID, "addr", ep.Addr)
	if ep.TLS != nil && ep.TLS.InsecureSkipVerify {
		log.Warn("broker certificate is not verified")
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &Broker{
		endpoint: ep, username: t.Username, password: t.Password,
		instance: rand.Text(), requestID: d.RequestID,
		timing: d.timing, now: d.now, messageTime: d.Now, log: log,
		link: newLink(d.now, d.timing), sys: newSysTree(d.now), cancel: cancel,
		visits: make(chan struct{}, maxVisits), losses: map[string]int{},
		single: singleConnection{checking: make(chan struct{}, 1)},
	}
	if t.TopicTree {
		b.makeTree(ctx)
	}
	b.openOwn(ctx, d, t.ID)
	b.wg.Go(func() { b.run(ctx) })
	b.wg.Go(func() { b.sample(ctx) })
	return b, nil
}

// Broker is a broker reached over MQTT. What it offers is told by Capabilities, and
// what it does not by Status.
type Broker struct {
	endpoint  dial.Endpoint
	username  string
	password  broker.Secret
	instance  string // begins the correlation data of our commands
	requestID func(context.Context) string
	counter   atomic.Uint64 // of commands
	timing    timing
	now       func() time.Time
	log       *slog.Logger

	messageTime func() time.Time // Dialer.Now

	single singleConnection
	losses map[string]int // connections lost to the exploration of a topic; run's own

	link   *link
	sys    *sysTree
	tree   *topictree.Follower // for a broker that keeps none; nil where none is to be made
	own    own                 // what this service has on the broker
	visits chan struct{}       // one per short connection of its own; full, callers wait as long as their context

	cancel context.CancelFunc // ends run and sample
	wg     sync.WaitGroup
}

var _ broker.Broker = (*Broker)(nil)

// Status tells whether the broker is connected and answers; it never blocks.
func (b *Broker) Status() broker.Status { return b.link.status() }

// Ready waits until the broker is connected and what it can do is known. While
// the service rests between two attempts it returns the cause at once.
func (b *Broker) Ready(ctx context.Context) error { return b.link.ready(ctx) }

// Capabilities lists what the broker answers to, whether or not this package
// makes use of it.
func (b *Broker) Capabilities() []broker.Capability { return b.link.capabilities() }

// Close ends the connection and waits until nothing that the broker started is
// left, or until the context ends. It may be called more than once.
func (b *Broker) Close(ctx context.Context) error {
	b.own.close(ctx) //nolint:errcheck // of the context, which the rest heeds too
	b.cancel()
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

// correlation makes the correlation data of the next command: who asks, for
// which request if that is known, and a number.
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
