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

// Delays and bounds of links.
const (
	retryOpen  = 5 * time.Second  // before another attempt to open a queue
	leaveTime  = 5 * time.Second  // for a delivery in flight when its connector is replaced
	handOver   = time.Second      // before and after another tap takes over topics
	closeTime  = 10 * time.Second // for closing a connector
	seedWindow = 64               // retained messages that wait to be stored
	quiet      = 10 * time.Minute // minimum time between two problems of a connection in the log
)

// link is a connection in force: its subscriptions, its queue, and the worker that delivers from
// it. It lives as long as a connection with its name exists.
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
	wake  chan struct{} // receives when want has changed
	plan  atomic.Pointer[plan]
	queue atomic.Pointer[openQueue] // nil unless it is open

	mu        sync.Mutex  // guards the fields below
	origin    string      // of the connection
	bounds    Bounds      // of the queue
	want      *assignment // nil for none
	busy      *assignment // the last one that the worker has started
	connected bool
	trouble   string    // why there is no connection, or nothing is delivered
	told      bool      // the log has the current trouble
	toldAt    time.Time // time of the last log entry
}

type openQueue struct{ Queue }

// meters are counters since the process started.
type meters struct {
	received, delivered, rejected, retries, expired, skipped, refused atomic.Int64
}

// assignment is the configuration of a worker.
type assignment struct {
	connector Connector
	options   options
	mappings  map[string]bool
	secrets   []string
	soft      context.Context // ends when the assignment is replaced
	leave     context.CancelFunc
	hard      context.Context // ends some time after soft
	kill      context.CancelFunc
}

// newLink returns a link that is not started.
func newLink(e *Engine, bridge, name string, m *Meter) *link {
	l := &link{engine: e, bridge: bridge, name: name, log: e.log.With("bridge", bridge, "connection", name), meter: m, wake: make(chan struct{}, 1)}
	l.life, l.end = context.WithCancel(context.Background())
	l.plan.Store(&plan{})
	o := defaultOptions()
	l.bounds = o.bounds()
	return l
}

// start opens the queue for a connection and starts the worker. Messages are refused while the
// queue cannot be opened.
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

// unkept shows that the queue fails, and logs the cause once.
func (l *link) unkept(err error, connected bool, trouble string) {
	l.mu.Lock()
	known := l.trouble == trouble
	l.mu.Unlock()
	if !known {
		l.log.Error("the queue of a bridge fails; trying again", "error", err)
	}
	l.show(connected, trouble)
}

// run runs one worker after the other.
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
	l.assign(nil) // its connector was not used
}

// next waits for a new assignment, nil at the end.
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

// assign replaces the worker's assignment, nil for none.
func (l *link) assign(a *assignment) {
	l.mu.Lock()
	old := l.want
	begun := old != nil && old == l.busy
	l.want = a
	l.connected, l.trouble = false, "" // until the worker sets them
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

// leave has the worker finish; its messages stay in the queue.
func (l *link) leave() {
	l.mu.Lock()
	a := l.want
	l.mu.Unlock()
	if a != nil {
		a.leave()
	}
}

// modify puts a connection in force. The connector is nil if it is disabled, or unusable for the
// reason in trouble. With fresh, new topic mappings take retained messages.
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
	l.assign(a) // first: the previous worker must not see entries of mappings that it does not know
	routes := routesOf(c, connector)
	added := l.plan.Load().added(routes)
	l.take(routes)
	if fresh {
		l.seed(connector, added)
	}
}

// adopt sets the connection's origin, and the bounds of its queue unless the connection is bad.
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

// routesOf returns the routes of a connection.
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

// take subscribes to the filters of routes. It is called only within Lifecycle.Change, or during
// loading.
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

// replan replaces the plan, and returns the new one.
func (l *link) replan(change func(*plan) *plan) *plan {
	for {
		old := l.plan.Load()
		if p := change(old); l.plan.CompareAndSwap(old, p) {
			return p
		}
	}
}

// drop closes taps. It may be called twice.
func (l *link) drop(closing ...*tap) {
	for _, in := range closing {
		in.once.Do(in.cancel)
	}
	l.replan(func(p *plan) *plan { return p.without(closing) })
}

// detach ends the subscriptions. Messages that were published before are taken while the queue is
// open, and refused afterwards.
func (l *link) detach() {
	for _, o := range l.plan.Load().openings {
		o.once.Do(o.cancel)
	}
}

// close closes the link; detach comes before. Its messages stay in the queue.
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

// show sets the state. It logs when trouble begins and ends, not each attempt, and at a limited
// rate.
func (l *link) show(connected bool, trouble string) {
	l.mu.Lock()
	a := l.want
	l.mu.Unlock()
	l.showOf(a, connected, trouble)
}

// showOf sets the state of an assignment, unless that was replaced.
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

// refusedFilter returns a filter that the broker has refused, "" for none.
func (l *link) refusedFilter() string {
	openings := l.plan.Load().openings
	i := slices.IndexFunc(openings, func(o opening) bool { return o.until == always && l.engine.local.Refused(o.filter) })
	if i < 0 {
		return ""
	}
	return openings[i].filter
}
