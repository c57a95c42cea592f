package bridges

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/messaging"
)

// The pauses and bounds of links.
const (
	retryOpen  = 5 * time.Second  // before a queue that could not be opened is opened again
	leaveTime  = 5 * time.Second  // for a delivery that is under way when its connector is to go
	handOver   = time.Second      // before and after a tap leaves its topics to another one
	closeTime  = 10 * time.Second // for a connector to close
	seedWindow = 64               // retained messages on their way into a queue
	quiet      = 10 * time.Minute // from one trouble of a connection that the log has to the next
)

// link is a connection in force: what takes its messages, its queue, and the
// worker that delivers them. It lives as long as there is a connection of its
// name.
type link struct {
	engine *Engine
	bridge string
	name   string
	log    *slog.Logger
	meter  *Meter
	meters

	life  context.Context // ends with close
	end   context.CancelFunc
	tasks sync.WaitGroup
	wake  chan struct{} // sent to when want has changed
	plan  atomic.Pointer[plan]
	queue atomic.Pointer[openQueue] // nil until it is open, and after

	mu        sync.Mutex  // guards what follows
	origin    string      // of the connection
	bounds    Bounds      // of the queue
	want      *assignment // nil for none
	busy      *assignment // the latest that the worker began with
	connected bool
	trouble   string    // why there is no connection, or nothing is delivered
	told      bool      // the log has the trouble that there is
	toldAt    time.Time // when it last got one
}

type openQueue struct{ Queue }

// meters count since the process began.
type meters struct {
	received, delivered, rejected, retries, expired, skipped, refused atomic.Int64
}

// assignment is what a worker works with until there is another one.
type assignment struct {
	connector Connector
	options   options
	mappings  map[string]bool
	secrets   []string
	soft      context.Context // ends when another one comes
	leave     context.CancelFunc
	hard      context.Context // ends some time after that
	kill      context.CancelFunc
}

// newLink gives a link that does nothing yet.
func newLink(e *Engine, bridge, name string, m *Meter) *link {
	l := &link{engine: e, bridge: bridge, name: name, log: e.log.With("bridge", bridge, "connection", name), meter: m, wake: make(chan struct{}, 1)}
	l.life, l.end = context.WithCancel(context.Background())
	l.plan.Store(&plan{})
	o := defaultOptions()
	l.bounds = o.bounds()
	return l
}

// start opens the queue for a connection and sets the worker going. What is taken
// while the queue cannot be opened is refused.
func (l *link) start(ctx context.Context, c *connection) {
	l.adopt(c)
	err := l.open(ctx)
	if err != nil {
		l.troubled(err)
	}
	l.tasks.Go(l.run)
}

// open opens the queue.
func (l *link) open(ctx context.Context) error {
	l.mu.Lock()
	b := l.bounds
	l.mu.Unlock()
	q, err := l.engine.host.store.Queue(ctx, l.engine.brokerID, l.bridge, l.name, b)
	if err != nil {
		return err
	}
	l.queue.Store(&openQueue{q})
	return nil
}

// troubled shows that the queue cannot be opened.
func (l *link) troubled(err error) {
	l.unkept(err, false, "the queue of this connection cannot be opened; the service's log tells why")
}

// unkept shows that the queue fails, and logs why, once as long as that lasts.
func (l *link) unkept(err error, connected bool, trouble string) {
	l.mu.Lock()
	known := l.trouble == trouble
	l.mu.Unlock()
	if !known {
		l.log.Error("the queue of a bridge fails; trying again", "error", err)
	}
	l.show(connected, trouble)
}

// run works with one assignment after the other.
func (l *link) run() {
	for l.queue.Load() == nil {
		if !messaging.Sleep(l.life, retryOpen) {
			break
		}
		if err := l.open(l.life); err != nil && l.life.Err() == nil {
			l.troubled(err)
			continue
		}
		l.show(false, "")
	}
	for a := l.next(); a != nil; a = l.next() {
		(&worker{link: l, assignment: a, queue: l.queue.Load().Queue, attempts: map[uint64]int{}}).run()
	}
	l.assign(nil) // whose connector nobody began with
}

// next waits for an assignment that is not begun with, nil at the end.
func (l *link) next() *assignment {
	for {
		l.mu.Lock()
		if l.life.Err() == nil && l.want != nil && l.want != l.busy {
			l.busy = l.want
			l.mu.Unlock()
			return l.busy
		}
		l.mu.Unlock()
		select {
		case <-l.wake:
		case <-l.life.Done():
			return nil
		}
	}
}

// assign has the worker go over to another assignment, nil for none.
func (l *link) assign(a *assignment) {
	l.mu.Lock()
	old := l.want
	begun := old != nil && old == l.busy
	l.want = a
	l.connected, l.trouble = false, "" // until it shows its own
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	if old == nil {
		return
	}
	old.leave()
	if !begun {
		discard(l.log, old.connector)
		old.kill()
	}
}

// leave has the worker finish; what is taken is kept.
func (l *link) leave() {
	l.mu.Lock()
	a := l.want
	l.mu.Unlock()
	if a != nil {
		a.leave()
	}
}

// modify puts a connection in force, the first or another one. The connector is
// nil where it is disabled, or of no use for the reason that trouble gives. With
// fresh, topic mappings that were not there get what the broker retains.
func (l *link) modify(c *connection, connector Connector, trouble string, fresh bool) {
	l.adopt(c)
	if connector == nil {
		l.take(nil)
		l.assign(nil)
		l.show(false, trouble)
		return
	}
	a := &assignment{connector: connector, options: c.options, mappings: map[string]bool{}, secrets: c.secrets}
	for _, m := range c.mappings {
		a.mappings[m.Name] = true
	}
	a.soft, a.leave = context.WithCancel(l.life)
	a.hard, a.kill = context.WithCancel(context.Background())
	l.assign(a) // first: the worker before must not see entries of mappings that it does not know
	routes := routesOf(c, connector)
	added := l.plan.Load().added(routes)
	l.take(routes)
	if fresh {
		l.seed(connector, added)
	}
}

// adopt notes what the connection is made of, and the bounds of its queue. Those of
// one that is bad are not known.
func (l *link) adopt(c *connection) {
	l.mu.Lock()
	l.told, l.toldAt = false, time.Time{}
	l.origin = c.origin
	if !c.bad {
		l.bounds = c.options.bounds()
	}
	b := l.bounds
	l.mu.Unlock()
	if q := l.queue.Load(); q != nil {
		q.SetBounds(b)
	}
}

// routesOf gives what a connection takes from the broker.
func routesOf(c *connection, connector Connector) []route {
	selective, _ := connector.(Selective)
	routes := make([]route, 0, len(c.mappings))
	for _, m := range c.mappings {
		r := route{mapping: m.Name, filters: m.MQTTTopics}
		if selective != nil {
			r.filters, r.enter = selective.Filters(m.Name), selective.Enter
		}
		if len(r.filters) > 0 {
			routes = append(routes, r)
		}
	}
	return routes
}

// take has the link take what routes say. It is called only within
// Lifecycle.Change, or while loading.
func (l *link) take(routes []route) {
	until := l.engine.host.Now().Add(handOver).UnixMilli()
	var fresh, stale []*tap
	p := l.replan(func(p *plan) (n *plan) {
		n, fresh, stale = p.next(l, routes, until)
		return n
	})
	for _, in := range fresh {
		in.cancel = l.engine.local.Subscribe(in.filter, in)
	}
	var later []*tap
	for _, in := range stale {
		if p.relieved(in) {
			l.drop(in)
		} else {
			later = append(later, in)
		}
	}
	if len(later) > 0 {
		l.tasks.Go(func() {
			messaging.Sleep(l.life, 2*handOver)
			l.drop(later...)
		})
	}
}

// replan replaces the plan, and gives the new one.
func (l *link) replan(change func(*plan) *plan) *plan {
	for {
		old := l.plan.Load()
		if p := change(old); l.plan.CompareAndSwap(old, p) {
			return p
		}
	}
}

// drop closes taps. It may be asked twice to.
func (l *link) drop(closing ...*tap) {
	for _, in := range closing {
		in.once.Do(in.cancel)
	}
	l.replan(func(p *plan) *plan { return p.without(closing) })
}

// detach has the link take no more messages. Those that were published before are
// taken while the queue is open, and refused afterwards.
func (l *link) detach() {
	for _, o := range l.plan.Load().openings {
		o.once.Do(o.cancel)
	}
}

// close ends the link; detach comes before. What it has taken is kept.
func (l *link) close() {
	l.end()
	l.tasks.Wait()
	q := l.queue.Swap(nil)
	if q == nil {
		return
	}
	if err := q.Close(context.Background()); err != nil {
		l.log.Warn("the queue of a bridge could not be closed", "error", err)
	}
}

// put adds an entry to the queue.
func (l *link) put(e Entry, settle func(error)) {
	l.received.Add(1)
	if q := l.queue.Load(); q != nil {
		q.Put(e, settle)
		return
	}
	l.refused.Add(1)
	if settle != nil {
		settle(errClosed)
	}
}

// discard closes a connector.
func discard(log *slog.Logger, c Connector) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err, _ := guarded(log, func() error { return c.Close(ctx) }); err != nil {
		log.Debug("a connection of a bridge was not closed cleanly", "error", err)
	}
}

// show notes the state. The log has when trouble begins and when it ends, not each
// attempt; of a connection that comes and goes, once in a while.
func (l *link) show(connected bool, trouble string) {
	l.mu.Lock()
	a := l.want
	l.mu.Unlock()
	l.showOf(a, connected, trouble)
}

// showOf notes the state of an assignment, unless another one has come.
func (l *link) showOf(a *assignment, connected bool, trouble string) {
	now := time.Now()
	l.mu.Lock()
	if a != l.want {
		l.mu.Unlock()
		return
	}
	same := l.connected == connected && l.trouble == trouble
	l.connected, l.trouble = connected, trouble
	begins := trouble != "" && !l.told && now.Sub(l.toldAt) >= quiet
	ends := trouble == "" && connected && (l.told || l.toldAt.IsZero())
	switch {
	case begins:
		l.told, l.toldAt = true, now
	case ends:
		l.told = false
		l.toldAt = cmp.Or(l.toldAt, now.Add(-quiet))
	}
	l.mu.Unlock()
	switch {
	case begins:
		l.log.Warn("a connection of a bridge has trouble", "error", trouble, "connected", connected)
	case ends:
		l.log.Info("a connection of a bridge works")
	case !same:
		l.log.Debug("the state of a connection of a bridge changed", "error", trouble, "connected", connected)
	}
}

// refusedFilter gives a filter that the broker does not let the link subscribe
// to, "" for none.
func (l *link) refusedFilter() string {
	openings := l.plan.Load().openings
	i := slices.IndexFunc(openings, func(o opening) bool { return o.until == always && l.engine.local.Refused(o.filter) })
	if i < 0 {
		return ""
	}
	return openings[i].filter
}
