package appliance

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"signalbox/db"
)

// leadingInterval is how often a node that shares its database checks whether it leads.
const leadingInterval = 50 * time.Millisecond

// leading is whether this node takes the messages for the streams and bridges that nodes share: always, unless
// the nodes of a cluster share the database. Then only the leader does, once the content names it as the host.
type leading struct {
	db   *db.DB
	wake chan struct{} // buffered by one: the database has become shared, or the node's own
	log  *slog.Logger

	failed time.Time // of run: the last attempt to become the host

	mu      sync.Mutex // guards the fields below
	serving context.Context
	end     context.CancelFunc // nil while another node takes them
	changed chan struct{}      // closed when the fields above change
}

func newLeading(d *db.DB, log *slog.Logger) *leading {
	return &leading{db: d, wake: make(chan struct{}, 1), log: log, changed: make(chan struct{})}
}

// Serving waits until this node takes the messages. The context that it returns ends when another node is to.
func (l *leading) Serving(ctx context.Context) (context.Context, error) {
	for {
		l.mu.Lock()
		serving, end, changed := l.serving, l.end, l.changed
		l.mu.Unlock()
		if end != nil {
			return serving, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// notify has run look at once.
func (l *leading) notify() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run keeps it up to date until ctx ends.
func (l *leading) run(ctx context.Context) {
	ticks := time.NewTicker(leadingInterval)
	defer ticks.Stop()
	defer l.set(ctx, false)
	for ctx.Err() == nil {
		shared := l.db.IsShared()
		serving := l.db.Leads() && (!shared || l.host(ctx))
		l.set(ctx, serving && l.db.Leads()) // becoming the host may have taken long
		if shared {
			select {
			case <-ticks.C:
			case <-l.wake:
			case <-ctx.Done():
			}
			continue
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
		}
	}
}

// hostTime bounds an attempt to become the host.
const hostTime = 5 * time.Second

// hostPause is the time before another attempt.
const hostPause = time.Second

// host has this node become the host, which applies everything that was acknowledged before, unless it is already. It
// reports whether it is.
func (l *leading) host(ctx context.Context) bool {
	if l.isSet() && l.db.IsHost() {
		return true
	}
	l.set(ctx, false)
	if l.db.IsOutdated() || time.Since(l.failed) < hostPause {
		return false
	}
	trying, cancel := context.WithTimeout(ctx, hostTime)
	defer cancel()
	err := l.db.BecomeHost(trying)
	if err == nil {
		return true
	}
	l.failed = time.Now()
	if ctx.Err() == nil {
		l.log.Warn("the streams and bridges that the nodes share cannot run at this node yet, which leads its cluster; trying again", "error", err)
	}
	return false
}

func (l *leading) isSet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end != nil
}

func (l *leading) set(ctx context.Context, serving bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if serving == (l.end != nil) {
		return
	}
	if serving {
		l.serving, l.end = context.WithCancel(context.WithoutCancel(ctx))
	} else {
		l.end()
		l.serving, l.end = nil, nil
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// nodes are the other nodes of a cluster that shares the database.
type nodes struct{ *Appliance }

// Hosting implements handlers.Nodes.
func (n nodes) Hosting() (node int, known bool) {
	if n.broker == nil || !n.shared.IsShared() || n.shared.leading.isSet() {
		return 0, true
	}
	node = n.broker.OtherLeader() // 0 if this node leads and is about to become the host
	return node, node != 0
}

// Dial implements handlers.Nodes.
func (n nodes) Dial(ctx context.Context, node int) (net.Conn, error) {
	return n.broker.DialPlatform(ctx, node)
}

// acceptNode serves a connection over which another node forwards requests.
func (a *Appliance) acceptNode(conn net.Conn) {
	if s := a.forwarded.Load(); s != nil {
		s.AcceptNode(conn)
		return
	}
	conn.Close()
}

// closeForwarded ends the serving of requests that other nodes forward. It comes after the broker has handed over the
// leadership, for which they may wait.
func (a *Appliance) closeForwarded(ctx context.Context) error {
	s := a.forwarded.Load()
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if err := s.CloseNodes(ctx); err != nil {
		a.log.Warn("requests of other nodes were aborted", "error", err)
	}
	return nil
}

// startLeading begins to find out whether this node takes the messages for the streams and bridges that nodes share.
func (a *Appliance) startLeading(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.shared.leading.run(ctx)
	}()
	a.undo.add(func() error {
		cancel()
		<-done
		return nil
	})
}
