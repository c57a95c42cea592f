// Package client takes the messages of a broker and publishes to it as its MQTT
// client, for the streams of that broker: [Feed] implements messaging.Broker on
// connections of its own, whose sessions outlive them.
//
// Of this module it imports broker, broker/streams, broker/mqtt/topics and broker/mqtt/packet
// only. It must not import net/http, a database or an MQTT library. DESIGN.md tells
// what the code cannot show.
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

// Options are what a Feed needs to know. All of them are needed, but for the
// credentials.
type Options struct {
	// Open opens a connection up to where MQTT begins, within the context.
	Open func(ctx context.Context) (net.Conn, error)
	// Await waits until it makes sense to connect, or gives the context's error.
	Await func(ctx context.Context) error
	// Explain makes a sentence of kind Unavailable of why there is no connection:
	// an error of Open, a *Refusal, an *Ended, or one of reading and writing.
	Explain func(err error) *broker.Error

	// Retained has messages taken too that are retained when a subscription is new.
	Retained bool

	// Client is what is told and asked of a broker beyond that. It may be left out.
	Client Client

	ClientID string // begins the client ids; two more characters follow
	Username string
	Password broker.Secret
	Timing   Timing
	Now      func() time.Time
	Log      *slog.Logger
}

// Timing is how long things take at most, and how often they are done.
type Timing struct {
	Connect  time.Duration // from the name look-up to the CONNACK
	Answer   time.Duration // until what is published on a lost connection is given up
	Write    time.Duration // for one write
	MinPause time.Duration // before the second attempt in a row to connect
	MaxPause time.Duration // between attempts
	Stable   time.Duration // a connection that stood for so long was a good one
	Ping     time.Duration // between two PINGREQ
	Silence  time.Duration // without anything from the broker: it is lost
	Retry    time.Duration // between attempts at a subscription that was refused
	Linger   time.Duration // without a change: what nothing is subscribed on is ended
}

// pause doubles with each trouble, up to a limit. Half of it is left to chance.
func (t *Timing) pause(troubles int) time.Duration {
	full := t.MaxPause
	if troubles < 16 {
		full = min(full, 2*t.MinPause<<troubles)
	}
	return full/2 + rand.N(full/2+1)
}

// Feed takes and publishes the messages of one broker. All methods are safe for
// concurrent use; Run is called once.
type Feed struct {
	options   Options
	timing    Timing
	log       *slog.Logger
	publisher *publisher
	index     *topics.Index[*route] // of what is wanted, for all lanes
	kick      chan struct{}         // buffered by one: the plan may have to change
	lanes     sync.WaitGroup        // their goroutines
	tongue    tongue
	peer      atomic.Pointer[Peer]
	tries     atomic.Uint64
	serials   atomic.Uint64 // of messages
	visiting  chan struct{} // buffered by one: full while somebody visits

	// delivering is held for reading while a message is handed to inlets, so that
	// who holds it for writing knows that none is: it makes the end of a
	// subscription final. An inlet never waits.
	delivering sync.RWMutex
	left       bool // nothing is taken any more; guarded by delivering

	mu      sync.Mutex // guards what follows, and the subs of all lanes; held for moments only
	routes  map[string]*route
	lane    [maxLanes]*lane
	refused map[string]bool // filters that the broker does not grant at present
	leftOut int             // filters for which there is no lane
	mode    mode
	version int           // counts changes of routes, refused and mode
	planned int           // the version that the lanes work on
	changed chan struct{} // closed at the next change of anything above
}

// mode is how messages are told apart by their subscriptions.
type mode int

const (
	unknown    mode = iota // no connection has been made yet
	identified             // by their identifiers
	apart                  // by the lane on which they come
)

// route leads the messages of a filter to those that want them.
type route struct {
	filter string
	inlets atomic.Pointer[[]*inlet] // never changed in place
	from   atomic.Pointer[sources]
}

// sources are the subscriptions by which messages of a route come: one, and for
// the moment of a move the one before.
type sources struct{ now, before *sub }

// inlet is one that wants messages.
type inlet struct {
	messaging.Inlet
	gone bool // guarded by delivering
}

// New makes a Feed, which does nothing before Run.
func New(o Options) *Feed {
	f := &Feed{
		options: o, timing: o.Timing, log: o.Log,
		index: topics.NewIndex[*route](), kick: make(chan struct{}, 1),
		routes: map[string]*route{}, refused: map[string]bool{}, changed: make(chan struct{}),
		visiting: make(chan struct{}, 1),
	}
	f.publisher = newPublisher(f)
	for i := range f.lane {
		f.lane[i] = newLane(f, i)
	}
	return f
}

// Run connects and keeps what is wanted subscribed to, until the context ends. It
// leaves nothing behind but the sessions at the broker.
func (f *Feed) Run(ctx context.Context) {
	defer f.lanes.Wait()
	f.lanes.Go(func() { f.publisher.run(ctx) })
	retry, linger := time.NewTicker(f.timing.Retry), time.NewTimer(f.timing.Linger)
	defer retry.Stop()
	defer linger.Stop()
	for {
		select {
		case <-f.kick:
			f.plan(ctx)
			linger.Reset(f.timing.Linger)
		case <-linger.C:
			f.endIdle()
		case <-retry.C:
			f.forgive()
		case <-ctx.Done():
			return
		}
	}
}

// Subscribe gives an inlet the messages of a filter; see messaging.Broker.
func (f *Feed) Subscribe(filter string, in messaging.Inlet) (cancel func()) {
	own := &inlet{Inlet: in}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.routes[filter]
	if r == nil {
		r = &route{filter: filter}
		f.routes[filter] = r
		f.index.Subscribe(filter, r, topics.Options{})
		f.touch()
	}
	r.change(func(list []*inlet) []*inlet { return append(list, own) })
	return func() { f.cancel(r, own) }
}

func (f *Feed) cancel(r *route, own *inlet) {
	f.delivering.Lock()
	own.gone = true
	left := f.left
	f.delivering.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := r.change(func(list []*inlet) []*inlet {
		for i, in := range list {
			if in == own {
				return append(list[:i], list[i+1:]...)
			}
		}
		return list
	})
	if rest == 0 && !left && f.routes[r.filter] == r {
		delete(f.routes, r.filter)
		delete(f.refused, r.filter)
		f.index.Unsubscribe(r.filter, r)
		f.touch()
	}
}

// change replaces the list of inlets and tells how many there are.
func (r *route) change(edit func(list []*inlet) []*inlet) int {
	var list []*inlet
	if old := r.inlets.Load(); old != nil {
		list = append(list, *old...)
	}
	list = edit(list)
	r.inlets.Store(&list)
	return len(list)
}

// touch has the plan made anew. The caller holds mu.
func (f *Feed) touch() {
	f.version++
	signal(f.kick)
	f.announce()
}

// announce wakes those who wait for a change. The caller holds mu.
func (f *Feed) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
	if tell := f.options.Client.Changed; tell != nil {
		tell()
	}
}

// Leave stops taking messages, though not acknowledging those that were taken
// and are settled later. What is cancelled from now on stays subscribed to in the
// sessions, for the next run.
func (f *Feed) Leave() {
	f.delivering.Lock()
	defer f.delivering.Unlock()
	f.left = true
}

// Publish publishes messages; see messaging.Broker. What is under way when the
// connection is lost is sent again on the next one, if that comes in time; the
// call waits for it. A message of QoS 0 is done with when it is on its way, one
// that has expired at once.
func (f *Feed) Publish(ctx context.Context, messages []messaging.Message) (done, refused int, err error) {
	return f.publisher.publish(ctx, messages)
}

// Retained asks for them on a connection of its own, one call at a time. Their QoS
// is not told: it is 1.
func (f *Feed) Retained(ctx context.Context, filter string) iter.Seq2[messaging.Message, error] {
	return func(yield func(messaging.Message, error) bool) {
		wanted := true
		err := f.visit(ctx, filter, func(m messaging.Message) bool {
			wanted = yield(m, nil)
			return wanted
		})
		if err != nil && wanted {
			yield(messaging.Message{}, err)
		}
	}
}

// Room returns at once: no broker tells what waits for its other clients.
func (f *Feed) Room(context.Context, string) {}

// Reached tells whether the broker can be published to now.
func (f *Feed) Reached() error { return f.publisher.reached() }

// Refused tells whether the broker does not let us subscribe to a filter that is
// wanted, or there are too many that overlap.
func (f *Feed) Refused(filter string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.routes[filter]
	if r == nil || f.mode == unknown || f.planned != f.version {
		return false
	}
	return r.from.Load() == nil
}

// Settled waits until everything that is wanted is subscribed to, or known not to
// be to be had at present, or the context ends.
func (f *Feed) Settled(ctx context.Context) error { return f.wait(ctx, f.settled) }

// wait waits until something holds. It is asked about with mu held.
func (f *Feed) wait(ctx context.Context, holds func() bool) error {
	for {
		f.mu.Lock()
		done, changed := holds(), f.changed
		f.mu.Unlock()
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

// settled is asked by Settled. The caller holds mu.
func (f *Feed) settled() bool {
	if f.mode == unknown && len(f.routes) > 0 {
		return f.lane[0].failed
	}
	if f.planned != f.version || !f.publisher.tried.Load() {
		return false
	}
	for _, l := range f.lane {
		if !l.settled() {
			return false
		}
	}
	return true
}

var _ messaging.Broker = (*Feed)(nil)
