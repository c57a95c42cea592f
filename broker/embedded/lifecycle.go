package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker"
)

// closeTimeout bounds Close where its context does not.
const closeTimeout = 10 * time.Second

// lifecycle is how far a broker has got: made, serving, closed.
type lifecycle struct {
	mu      sync.Mutex // guards serving, since and the listeners' sockets; held by Start
	serving bool
	since   time.Time

	once    sync.Once
	closing chan struct{} // closed when Close begins
	closed  chan struct{} // closed when Close is done
	err     error         // Close's; valid once closed is closed
}

func newLifecycle() lifecycle {
	return lifecycle{closing: make(chan struct{}), closed: make(chan struct{})}
}

// Start binds all listeners and serves. If one cannot be bound, none is, and
// the error is a sentence that says what to do.
func (b *Broker) Start(ctx context.Context) error {
	b.life.mu.Lock()
	defer b.life.mu.Unlock()
	if b.life.serving || b.life.isClosing() {
		return errors.New("the broker was started before")
	}
	if err := b.bind(ctx); err != nil {
		return err
	}
	if err := b.startServer(); err != nil {
		b.closeListeners()
		return err
	}
	b.life.serving, b.life.since = true, b.now()
	for _, l := range b.listeners {
		b.tasks.Go(func() { l.serve(b) })
		d := l.describe()
		b.log.Info("broker listens", "address", l.socket.Addr().String(), "protocol", d.Protocol, "tls", d.TLS)
	}
	b.tasks.Go(b.keepHouse)
	return nil
}

// bind opens all sockets or none.
func (b *Broker) bind(ctx context.Context) error {
	err := ctx.Err()
	for _, l := range b.listeners {
		if err == nil {
			err = l.bind(b)
		}
	}
	if err != nil {
		b.closeListeners()
	}
	return err
}

func (b *Broker) closeListeners() {
	for _, l := range b.listeners {
		l.close()
	}
}

// startServer starts the server's own loop. It has no listeners of its own;
// what it tells in $SYS as it starts makes room for ours.
func (b *Broker) startServer() error {
	if err := b.server.Serve(); err != nil {
		return fmt.Errorf("start the MQTT server: %w", err)
	}
	for topic := range b.server.Topics.Retained.GetAll() {
		b.server.Topics.RetainMessage(packets.Packet{TopicName: topic})
	}
	b.sys.tick()
	return nil
}

// Addrs gives the addresses of the listeners as bound, in the order of the
// configuration: broker.listen first.
func (b *Broker) Addrs() []string {
	b.life.mu.Lock()
	defer b.life.mu.Unlock()
	addrs := make([]string, 0, len(b.listeners))
	for _, l := range b.listeners {
		if l.socket != nil {
			addrs = append(addrs, l.socket.Addr().String())
		}
	}
	return addrs
}

// Status tells whether the broker serves, and since when.
func (b *Broker) Status() broker.Status {
	b.life.mu.Lock()
	defer b.life.mu.Unlock()
	s := broker.Status{Connected: b.life.serving && !b.life.isClosing(), Since: b.life.since}
	if !s.Connected {
		s.Error = "the embedded broker is not running"
	}
	return s
}

// Ready answers at once: nil while the broker serves.
func (b *Broker) Ready(context.Context) error {
	if s := b.Status(); !s.Connected {
		return &broker.Error{Kind: broker.Unavailable, Op: "connect", Msg: s.Error}
	}
	return nil
}

// Healthy tells whether the broker serves and can store changes.
func (b *Broker) Healthy(ctx context.Context) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	return b.control.Ping(ctx)
}

// Close stops accepting, takes leave of all clients, waits for what is under
// way and closes the file. It takes no longer than its context, or ten seconds;
// what has not ended by then goes on behind it. Further calls wait for the first.
func (b *Broker) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
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

// shutDown does what Close waits for. A client that does not take its leave
// loses its connection after the grace period, so nothing here waits for long.
func (b *Broker) shutDown() {
	defer close(b.life.closed)
	b.life.mu.Lock() // a Start under way comes to its end first
	serving := b.life.serving
	b.life.mu.Unlock()

	b.closeListeners()
	for _, l := range b.registry.close() {
		b.tasks.Go(func() { b.dismiss(l) })
	}
	b.tasks.Wait()
	if serving {
		b.server.Close() //nolint:errcheck // always nil
	}
	b.life.err = b.control.Close(context.Background())
}

// dismiss ends a connection because the broker stops.
func (b *Broker) dismiss(l *link) {
	if l.established.Load() {
		l.end(packets.ErrServerShuttingDown)
		return
	}
	l.wire.Close() //nolint:errcheck // it has nothing to take leave of
}

func (l *lifecycle) isClosing() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// pause waits, and tells whether the broker still serves afterwards.
func (b *Broker) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.life.closing:
		return false
	}
}
