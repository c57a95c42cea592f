// Package client is an MQTT client for streams and bridges: it receives the messages of a
// broker and publishes to it. [Client] implements messaging.Broker on several connections
// whose sessions outlive them.
//
// Of this module it imports only broker, broker/embedded/poll, broker/messaging,
// broker/mqtt/topics and broker/mqtt/packet. It must not import net/http, a database or an MQTT library. See
// DESIGN.md.
package client

import (
	"context"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/topics"
)

// Options configures a Client. Everything but the credentials is required.
type Options struct {
	// Open opens a network connection.
	Open func(ctx context.Context) (net.Conn, error)
	// Serving, if set, waits until this client uses its sessions, of which others make use at other times; see
	// [messaging.ServingBroker]. Its connections end with the context that Serving returns, and what is in flight then is given up.
	Serving func(ctx context.Context) (serving context.Context, err error)
	// Await blocks until connecting makes sense, or returns the context's error.
	Await func(ctx context.Context) error
	// Explain converts the cause of a missing connection to an error of kind Unavailable: an
	// error of Open, a *ConnackError, a *DisconnectError, or a read or write error.
	Explain func(err error) *broker.Error

	// Retained also receives the messages that are retained when a subscription is new.
	Retained bool

	// Session is optional.
	Session SessionOptions

	ClientID string // prefix of the client ids, which are two characters longer
	Username string
	Password broker.Secret
	Timing   Timing
	Now      func() time.Time
	Log      *slog.Logger
}

// Timing holds timeouts and intervals.
type Timing struct {
	Connect       time.Duration // from name resolution to CONNACK
	ResumeTimeout time.Duration // until messages in flight on a lost connection are given up
	Write         time.Duration // of one write
	MinDelay      time.Duration // before the second attempt in a row
	MaxDelay      time.Duration // between attempts
	Stable        time.Duration // duration after which a connection resets the delay
	Ping          time.Duration // between PINGREQ packets
	ReadTimeout   time.Duration // without a packet from the broker
	Retry         time.Duration // between attempts at a refused subscription
	IdleTimeout   time.Duration // without a change, before a session without subscriptions ends
}

// delay returns an exponential delay, half of which is random.
func (t *Timing) delay(failures int) time.Duration {
	full := t.MaxDelay
	if failures < 16 {
		full = min(full, 2*t.MinDelay<<failures)
	}
	return full/2 + rand.N(full/2+1)
}

// Client receives and publishes the messages of one broker. All methods are safe for
// concurrent use; Run is called once.
type Client struct {
	options      Options
	timing       Timing
	log          *slog.Logger
	publisher    *publisher
	index        *topics.Index[*route] // routes of all subscribers
	replan       chan struct{}         // buffered by one: the plan may have to change
	goroutines   sync.WaitGroup        // their goroutines
	negotiation  versionNegotiation
	peer         atomic.Pointer[Peer]
	attempts     atomic.Uint64
	serials      atomic.Uint64 // of messages
	retainedSlot chan struct{} // semaphore of Retained

	// delivering is held for reading while consumers are called, so that holding it for
	// writing guarantees that none is: no message is delivered after a subscription was
	// cancelled. Consumers never block.
	delivering sync.RWMutex
	leaving    bool // no message is received any more; guarded by delivering

	mu             sync.Mutex // guards what follows, and the subscriptions of all subscribers; held briefly
	routes         map[string]*route
	subscribers    [maxSubscribers]*subscriber
	refused        map[string]bool // filters that the broker refuses at present
	unassigned     int             // number of filters without a subscriber
	mode           mode
	wantedVersion  int           // counts changes of routes, refused and mode
	plannedVersion int           // the version that the subscribers implement
	changed        chan struct{} // closed at the next change of the fields above
}

// mode is how messages are assigned to subscriptions.
type mode int

const (
	modeUnknown    mode = iota // no connection was made yet
	modeIdentified             // by subscription identifiers
	modeSeparate               // by the connection on which they arrive
)

// route delivers the messages of a filter to its consumers.
type route struct {
	filter    string
	consumers atomic.Pointer[[]*consumer] // copied on write
	sources   atomic.Pointer[sources]
}

// sources are the subscriptions that deliver the messages of a route; previous is set while it
// moves to another one.
type sources struct{ current, previous *subscription }

// consumer is a registered messaging.Tap.
type consumer struct {
	messaging.Tap
	cancelled bool // guarded by delivering
}

// New returns a Client that does nothing before Run.
func New(o Options) *Client {
	c := &Client{
		options: o, timing: o.Timing, log: o.Log,
		index: topics.NewIndex[*route](), replan: make(chan struct{}, 1),
		routes: map[string]*route{}, refused: map[string]bool{}, changed: make(chan struct{}),
		retainedSlot: make(chan struct{}, 1),
	}
	c.publisher = newPublisher(c)
	for i := range c.subscribers {
		c.subscribers[i] = newSubscriber(c, i)
	}
	return c
}

// Run connects and maintains the subscriptions until ctx ends. Only sessions at the broker are
// left when it returns.
func (c *Client) Run(ctx context.Context) {
	defer c.goroutines.Wait()
	if c.options.Session.ReceiveOnly {
		c.publisher.attempted.Store(true)
	} else {
		c.goroutines.Go(func() { c.publisher.run(ctx) })
	}
	retry, linger := time.NewTicker(c.timing.Retry), time.NewTimer(c.timing.IdleTimeout)
	defer retry.Stop()
	defer linger.Stop()
	for {
		select {
		case <-c.replan:
			c.plan(ctx)
			linger.Reset(c.timing.IdleTimeout)
		case <-linger.C:
			c.endIdle()
		case <-retry.C:
			c.retryRefused()
		case <-ctx.Done():
			return
		}
	}
}

// Subscribe registers a consumer of a filter; see messaging.Broker.
func (c *Client) Subscribe(filter string, in messaging.Tap) (cancel func()) {
	own := &consumer{Tap: in}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.routes[filter]
	if r == nil {
		r = &route{filter: filter}
		c.routes[filter] = r
		c.index.Subscribe(filter, r, topics.Options{})
		c.requestPlan()
	}
	r.change(func(list []*consumer) []*consumer { return append(list, own) })
	return func() { c.cancel(r, own) }
}

func (c *Client) cancel(r *route, own *consumer) {
	c.delivering.Lock()
	own.cancelled = true
	leaving := c.leaving
	c.delivering.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := r.change(func(list []*consumer) []*consumer {
		for i, in := range list {
			if in == own {
				return append(list[:i], list[i+1:]...)
			}
		}
		return list
	})
	if rest == 0 && !leaving && c.routes[r.filter] == r {
		delete(c.routes, r.filter)
		delete(c.refused, r.filter)
		c.index.Unsubscribe(r.filter, r)
		c.requestPlan()
	}
}

// change replaces the list of consumers and returns its length.
func (r *route) change(edit func(list []*consumer) []*consumer) int {
	var list []*consumer
	if old := r.consumers.Load(); old != nil {
		list = append(list, *old...)
	}
	list = edit(list)
	r.consumers.Store(&list)
	return len(list)
}

// requestPlan triggers a new plan. c.mu must be held.
func (c *Client) requestPlan() {
	c.wantedVersion++
	notify(c.replan)
	c.notifyChanged()
}

// notifyChanged wakes those that wait for a change. c.mu must be held.
func (c *Client) notifyChanged() {
	close(c.changed)
	c.changed = make(chan struct{})
	if onChange := c.options.Session.OnChange; onChange != nil {
		onChange()
	}
}

// StopReceiving stops receiving messages; those already received can still be acknowledged.
// What is cancelled from now on stays subscribed in the sessions, for the next run.
func (c *Client) StopReceiving() {
	c.delivering.Lock()
	defer c.delivering.Unlock()
	c.leaving = true
}

// Publish publishes messages; see messaging.Broker. Messages in flight on a lost connection
// are sent again on the next one, and the call waits for that up to a timeout. A message of
// QoS 0 is complete when it is queued, an expired one at once.
func (c *Client) Publish(ctx context.Context, messages []messaging.Message) (done, refused int, err error) {
	return c.publisher.publish(ctx, messages)
}

// Retained receives the retained messages on a connection of its own, one call at a time. All
// have QoS 1, because their QoS is not known.
func (c *Client) Retained(ctx context.Context, filter string) iter.Seq2[messaging.Message, error] {
	return func(yield func(messaging.Message, error) bool) {
		wanted := true
		err := c.readRetained(ctx, filter, func(m messaging.Message) bool {
			wanted = yield(m, nil)
			return wanted
		})
		if err != nil && wanted {
			yield(messaging.Message{}, err)
		}
	}
}

// WaitForCapacity returns at once: the queues of a broker's other clients are not known.
func (c *Client) WaitForCapacity(context.Context, string) {}

// Reached returns nil if messages can be published now.
func (c *Client) Reached() error { return c.publisher.currentError() }

// Refused reports whether the broker refuses the subscription to a filter, or too many filters
// overlap.
func (c *Client) Refused(filter string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.routes[filter]
	if r == nil || c.mode == modeUnknown || c.plannedVersion != c.wantedVersion {
		return false
	}
	return r.sources.Load() == nil
}

// WaitSubscribed waits until every filter is subscribed to or known to be unavailable at
// present, or ctx ends.
func (c *Client) WaitSubscribed(ctx context.Context) error { return c.wait(ctx, c.subscribed) }

// wait waits for a condition, which is called with c.mu held.
func (c *Client) wait(ctx context.Context, holds func() bool) error {
	for {
		c.mu.Lock()
		done, changed := holds(), c.changed
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// subscribed is the condition of WaitSubscribed. c.mu must be held.
func (c *Client) subscribed() bool {
	if c.mode == modeUnknown && len(c.routes) > 0 {
		return c.subscribers[0].failed
	}
	if c.plannedVersion != c.wantedVersion || !c.publisher.attempted.Load() {
		return false
	}
	for _, l := range c.subscribers {
		if !l.subscribed() {
			return false
		}
	}
	return true
}

var _ messaging.Broker = (*Client)(nil)
