package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"signalbox/broker"
)

// closeTimeout bounds Close if its context does not.
const closeTimeout = 10 * time.Second

// lifecycle is the state of a broker: created, serving, closed.
type lifecycle struct {
	mu      sync.Mutex // guards serving and since; held by Start
	serving bool
	since   time.Time

	once    sync.Once
	closing chan struct{} // closed when Close begins
	closed  chan struct{} // closed when Close has finished
	err     error         // Close's; valid once closed is closed
}

func newLifecycle() lifecycle {
	return lifecycle{closing: make(chan struct{}), closed: make(chan struct{})}
}

// Start binds all listeners and serves. If one cannot be bound, none is, and the error is
// a sentence with advice.
func (b *Broker) Start(ctx context.Context) error {
	b.life.mu.Lock()
	defer b.life.mu.Unlock()
	if b.life.serving || b.life.isClosing() {
		return errors.New("the broker was started before")
	}
	if b.cluster != nil {
		if err := b.cluster.awaitRoutes(ctx); err != nil {
			b.log.Warn("the broker does not know yet what clients of its cluster are subscribed to", "error", err)
		}
	}
	if err := b.listeners.Bind(ctx); err != nil {
		return err
	}
	b.life.serving, b.life.since = true, b.now()
	b.publishSys()
	b.listeners.Serve(b.serveConn)
	b.tasks.Go(b.maintain)
	return nil
}

// Status returns whether the broker serves, and since when.
func (b *Broker) Status() broker.Status {
	b.life.mu.Lock()
	defer b.life.mu.Unlock()
	s := broker.Status{Connected: b.life.serving && !b.life.isClosing(), Since: b.life.since, Version: b.sys.Version()}
	if !s.Connected {
		s.Error = "the embedded broker is not running"
	}
	return s
}

// Ready returns nil while the broker serves. It does not wait.
func (b *Broker) Ready(context.Context) error {
	if s := b.Status(); !s.Connected {
		return &broker.Error{Kind: broker.Unavailable, Op: "connect", Msg: s.Error}
	}
	return nil
}

// Healthy returns what keeps the broker from serving, from storing changes and
// messages, or from doing its part in its cluster; nil for nothing.
func (b *Broker) Healthy(ctx context.Context) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	if err := b.store.Err(); err != nil {
		return &broker.Error{Kind: broker.Unavailable, Op: "store", Msg: err.Error(), Err: err}
	}
	if b.cluster != nil {
		if err := errors.Join(b.cluster.awaitsCluster(), b.cluster.node.Healthy()); err != nil {
			return &broker.Error{Kind: broker.Unavailable, Op: "cluster", Msg: err.Error(), Err: err}
		}
	}
	return b.control.Ping(ctx)
}

// Close stops accepting connections, disconnects all clients, waits for what is under way
// and closes the file. It takes no longer than its context, or ten seconds in addition to
// cluster.drain_timeout; what has not finished by then continues in the background. Further
// calls wait for the first.
func (b *Broker) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.config.Cluster.DrainTimeout+cmp.Or(b.config.Times.Close, closeTimeout))
	defer cancel()
	b.life.once.Do(func() {
		close(b.life.closing)
		go b.shutDown()
	})
	select {
	case <-b.life.closed:
		return b.life.err
	case <-ctx.Done():
		return fmt.Errorf("close the broker: %w", ctx.Err())
	}
}

// shutDown does the work of Close. A client that does not close its connection is
// disconnected after a grace period, so nothing here waits for long.
func (b *Broker) shutDown() {
	defer close(b.life.closed)
	b.life.awaitStart()
	ctx := context.Background()
	b.listeners.Close()
	if b.cluster != nil {
		b.cluster.endFeatures(ctx)
		b.cluster.drain(ctx)
	}
	err := b.handOver(ctx)
	err = errors.Join(err, b.engine.Close(ctx))
	b.listeners.Wait()
	b.tasks.Wait()
	b.life.err = errors.Join(err, b.closeParts(ctx))
}

// handOverTimeout bounds how long a cluster's leader looks for a successor.
const handOverTimeout = 3 * time.Second

// handOver hands the cluster's work over to the other nodes, before clients here are
// affected.
func (b *Broker) handOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	return b.closeCluster(ctx)
}

// awaitStart waits for the end of a Start under way.
func (l *lifecycle) awaitStart() {
	l.mu.Lock()
	defer l.mu.Unlock()
}

func (l *lifecycle) isClosing() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// sysInterval is how often $SYS is published, as Mosquitto's sys_interval.
const sysInterval = 10 * time.Second

// maintain does periodic work until the broker closes.
func (b *Broker) maintain() {
	sample := time.NewTicker(cmp.Or(b.config.Times.Sample, sysInterval))
	defer sample.Stop()
	for {
		select {
		case <-sample.C:
			b.publishSys()
			b.tree.Tidy()
			if err := b.bans.Sweep(context.Background()); err != nil {
				b.log.Warn("expired bans could not be deleted", "error", err)
			}
		case <-b.life.closing:
			return
		}
	}
}
