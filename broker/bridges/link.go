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
	openRetryDelay = 5 * time.Second  // before another attempt to open a queue
	finishTimeout  = 5 * time.Second  // for a delivery in flight when its connector is replaced
	handoverTime   = time.Second      // before and after another tap takes over topics
	closeTimeout   = 10 * time.Second // for closing a connector
	seedWindow     = 64               // retained messages that wait to be stored
	logInterval    = 10 * time.Minute // minimum time between two problems of a connection in the log
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

	linkCtx    context.Context // ends with close
	cancelLink context.CancelFunc
	tasks      sync.WaitGroup
	wake       chan struct{} // receives when assigned has changed
	plan       atomic.Pointer[plan]
	queue      atomic.Pointer[openQueue] // nil unless it is open

	mu        sync.Mutex  // guards the fields below
	origin    string      // of the connection
	bounds    Bounds      // of the queue
	assigned  *assignment // nil for none
	started   *assignment // the last one that the worker has started
	connected bool
	problem   string    // why there is no connection, or nothing is delivered
	logged    bool      // the log has the current problem
	loggedAt  time.Time // time of the last log entry
}

type openQueue struct{ Queue }

// meters are counters since the process started.
type meters struct {
	received, delivered, rejected, retries, expired, skipped, refused atomic.Int64
}

// assignment is the configuration of a worker.
type assignment struct {
	connector   Connector
	options     options
	mappings    map[string]bool
	secrets     []string
	runCtx      context.Context // ends when the assignment is replaced
	finish      context.CancelFunc
	deliveryCtx context.Context // ends some time after runCtx
	abort       context.CancelFunc
}

// newLink returns a link that is not started.
func newLink(e *Engine, bridge, name string, m *Meter) *link {
	l := &link{engine: e, bridge: bridge, name: name, log: e.log.With("bridge", bridge, "connection", name), meter: m, wake: make(chan struct{}, 1)}
	l.linkCtx, l.cancelLink = context.WithCancel(context.Background())
	l.plan.Store(&plan{})
	o := defaultOptions()
	l.bounds = o.bounds()
	return l
}

// start opens the queue for a connection and starts the worker. Messages are refused while the
// queue cannot be opened.
func (l *link) start(ctx context.Context, c *connection) {
	l.setConnection(c)
	err := l.open(ctx)
	if err != nil {
		l.queueOpenFailed(err)
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

// queueOpenFailed shows that the queue cannot be opened.
func (l *link) queueOpenFailed(err error) {
	l.queueFailed(err, false, "the queue of this connection cannot be opened; see the service's log for the cause")
}

// queueFailed shows that the queue fails, and logs the cause once.
func (l *link) queueFailed(err error, connected bool, problem string) {
	l.mu.Lock()
	known := l.problem == problem
	l.mu.Unlock()
	if !known {
		l.log.Error("the queue of a bridge fails; trying again", "error", err)
	}
	l.setState(connected, problem)
}

// run runs one worker after the other.
func (l *link) run() {
	for l.queue.Load() == nil {
		if !messaging.Sleep(l.linkCtx, openRetryDelay) {
			break
		}
		if err := l.open(l.linkCtx); err != nil && l.linkCtx.Err() == nil {
			l.queueOpenFailed(err)
			continue
		}
		l.setState(false, "")
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
		if l.linkCtx.Err() == nil && l.assigned != nil && l.assigned != l.started {
			l.started = l.assigned
			l.mu.Unlock()
			return l.started
		}
		l.mu.Unlock()
		select {
		case <-l.wake:
		case <-l.linkCtx.Done():
			return nil
		}
	}
}

// assign replaces the worker's assignment, nil for none.
func (l *link) assign(a *assignment) {
	l.mu.Lock()
	old := l.assigned
	begun := old != nil && old == l.started
	l.assigned = a
	l.connected, l.problem = false, "" // until the worker sets them
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	if old == nil {
		return
	}
	old.finish()
	if !begun {
		discard(l.log, old.connector)
		old.abort()
	}
}

// finishDelivery has the worker finish; its messages stay in the queue.
func (l *link) finishDelivery() {
	l.mu.Lock()
	a := l.assigned
	l.mu.Unlock()
	if a != nil {
		a.finish()
	}
}

// configure puts a connection in force. The connector is nil if it is disabled, or unusable for the
// reason in problem. With fresh, new topic mappings take retained messages.
func (l *link) configure(c *connection, connector Connector, problem string, fresh bool) {
	l.setConnection(c)
	if connector == nil {
		l.setRoutes(nil)
		l.assign(nil)
		l.setState(false, problem)
		return
	}
	a := &assignment{connector: connector, options: c.options, mappings: map[string]bool{}, secrets: c.secrets}
	for _, m := range c.mappings {
		a.mappings[m.Name] = true
	}
	a.runCtx, a.finish = context.WithCancel(l.linkCtx)
	a.deliveryCtx, a.abort = context.WithCancel(context.Background())
	l.assign(a) // first: the previous worker must not see entries of mappings that it does not know
	routes := routesOf(c, connector)
	added := l.plan.Load().newFilters(routes)
	l.setRoutes(routes)
	if fresh {
		l.takeRetained(connector, added)
	}
}

// setConnection sets the connection's origin, and the bounds of its queue unless the connection
// is invalid.
func (l *link) setConnection(c *connection) {
	l.mu.Lock()
	l.logged, l.loggedAt = false, time.Time{}
	l.origin = c.origin
	if !c.invalid {
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
			r.filters, r.accept = selective.Filters(m.Name), selective.Enter
		}
		if len(r.filters) > 0 {
			routes = append(routes, r)
		}
	}
	return routes
}

// setRoutes subscribes to the filters of routes. It is called only within Lifecycle.Change, or
// during loading.
func (l *link) setRoutes(routes []route) {
	until := l.engine.host.Now().Add(handoverTime).UnixMilli()
	var fresh, stale []*tap
	p := l.updatePlan(func(p *plan) (n *plan) {
		n, fresh, stale = p.withRoutes(l, routes, until)
		return n
	})
	for _, in := range fresh {
		in.cancel = l.engine.local.Subscribe(in.filter, in)
	}
	var later []*tap
	for _, in := range stale {
		if p.canCloseAtOnce(in) {
			l.closeTaps(in)
		} else {
			later = append(later, in)
		}
	}
	if len(later) > 0 {
		l.tasks.Go(func() {
			messaging.Sleep(l.linkCtx, 2*handoverTime)
			l.closeTaps(later...)
		})
	}
}

// updatePlan replaces the plan, and returns the new one.
func (l *link) updatePlan(change func(*plan) *plan) *plan {
	for {
		old := l.plan.Load()
		if p := change(old); l.plan.CompareAndSwap(old, p) {
			return p
		}
	}
}

// closeTaps closes taps. It may be called twice.
func (l *link) closeTaps(closing ...*tap) {
	for _, in := range closing {
		in.once.Do(in.cancel)
	}
	l.updatePlan(func(p *plan) *plan { return p.withoutTaps(closing) })
}

// unsubscribe ends the subscriptions. Messages that were published before are taken while the
// queue is open, and refused afterwards.
func (l *link) unsubscribe() {
	for _, o := range l.plan.Load().taps {
		o.once.Do(o.cancel)
	}
}

// close closes the link; detach comes before. Its messages stay in the queue.
func (l *link) close() {
	l.cancelLink()
	l.tasks.Wait()
	q := l.queue.Swap(nil)
	if q == nil {
		return
	}
	if err := q.Close(context.Background()); err != nil {
		l.log.Warn("the queue of a bridge could not be closed", "error", err)
	}
}

// enqueue adds an entry to the queue.
func (l *link) enqueue(e Entry, settle func(error)) {
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
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err, _ := callSafely(log, func() error { return c.Close(ctx) }); err != nil {
		log.Debug("a connection of a bridge was not closed cleanly", "error", err)
	}
}

// setState sets the state. It logs when a problem begins and ends, not each attempt, and at a
// limited rate.
func (l *link) setState(connected bool, problem string) {
	l.mu.Lock()
	a := l.assigned
	l.mu.Unlock()
	l.setStateOf(a, connected, problem)
}

// setStateOf sets the state of an assignment, unless that was replaced.
func (l *link) setStateOf(a *assignment, connected bool, problem string) {
	now := time.Now()
	l.mu.Lock()
	if a != l.assigned {
		l.mu.Unlock()
		return
	}
	same := l.connected == connected && l.problem == problem
	l.connected, l.problem = connected, problem
	begins := problem != "" && !l.logged && now.Sub(l.loggedAt) >= logInterval
	ends := problem == "" && connected && (l.logged || l.loggedAt.IsZero())
	switch {
	case begins:
		l.logged, l.loggedAt = true, now
	case ends:
		l.logged = false
		l.loggedAt = cmp.Or(l.loggedAt, now.Add(-logInterval))
	}
	l.mu.Unlock()
	switch {
	case begins:
		l.log.Warn("a connection of a bridge fails", "error", problem, "connected", connected)
	case ends:
		l.log.Info("a connection of a bridge works")
	case !same:
		l.log.Debug("the state of a connection of a bridge changed", "error", problem, "connected", connected)
	}
}

// refusedFilter returns a filter that the broker has refused, "" for none.
func (l *link) refusedFilter() string {
	taps := l.plan.Load().taps
	i := slices.IndexFunc(taps, func(o plannedTap) bool { return o.until == always && l.engine.local.Refused(o.filter) })
	if i < 0 {
		return ""
	}
	return taps[i].filter
}
