package mqtt

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox/broker/bridges"
	"signalbox/broker/brokertest"
	"signalbox/broker/messaging"
)

// source is a CommitNotifier of a message that another node may receive.
type source struct {
	withdrawn *atomic.Bool
	outcomes  atomic.Int32
}

func (s *source) Committed(error) { s.outcomes.Add(1) }

func (s *source) Withdrawn() bool { return s.withdrawn.Load() }

// plainBroker takes what is published, unless it is not reached.
type plainBroker struct {
	messaging.Broker

	mu        sync.Mutex // guards the fields below
	reached   bool
	attempts  int
	published []string
}

func (b *plainBroker) Publish(_ context.Context, list []messaging.Message) (done, refused int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts++
	if !b.reached {
		return 0, 0, errors.New("the broker is not connected")
	}
	for _, m := range list {
		b.published = append(b.published, string(m.Payload))
	}
	return len(list), 0, nil
}

// has waits until holds holds.
func (b *plainBroker) has(t *testing.T, what string, holds func() bool) {
	t.Helper()
	brokertest.WaitFor(t, what, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return holds()
	})
}

// TestReceivedAgain has messages withdrawn that wait for this broker, one of which is received again while they wait. It has an
// identifier, by which a message that came over two paths is known: still it is published once, and acknowledged only then.
func TestReceivedAgain(t *testing.T) {
	t.Parallel()
	local := &plainBroker{}
	_, take := startInbound(t, local)
	var ended, never atomic.Bool
	first := take("1", "first", &ended)
	local.has(t, "the first message is tried", func() bool { return local.attempts > 0 })
	second := take("2", "second", &ended)
	if looped := take("2", "second", &ended); looped.outcomes.Load() != 1 {
		t.Error("a message that came over two paths is queued twice")
	}
	ended.Store(true)
	again := []*source{take("2", "second", &never)}
	if again[0].outcomes.Load() != 0 {
		t.Fatal("a message that is received again is acknowledged before it is published")
	}
	local.has(t, "those that are withdrawn have an outcome", func() bool { return first.outcomes.Load() == 1 && second.outcomes.Load() == 1 })
	again = append(again, take("1", "first", &never), take("3", "third", &never))
	local.mu.Lock()
	local.reached = true
	local.mu.Unlock()
	for _, s := range again {
		local.has(t, "all are acknowledged", func() bool { return s.outcomes.Load() == 1 })
	}
	local.has(t, "all are published", func() bool { return slices.Equal(local.published, []string{"2", "1", "3"}) })
	if late := take("2", "second", &never); late.outcomes.Load() != 1 {
		t.Error("a message is queued that has been published")
	}
}

// startInbound starts what publishes at a broker, until the test ends, and returns what receives a message with an identifier.
func startInbound(t *testing.T, local messaging.Broker) (c *connector, take func(payload, id string, withdrawn *atomic.Bool) *source) {
	t.Helper()
	r := &route{patterns: []string{"#"}, in: true, qos: 2}
	c = &connector{document: &document{}, guard: newLoopGuard("here"), local: local, meter: &bridges.Meter{}, inRoutes: []*route{r},
		configuredPeer: tokenOf("peer"), inbound: inbound{wake: make(chan struct{}, 1)}}
	c.client = newConnector(newLoopGuard("other"), &bridges.Connection{Trial: true, Meter: &bridges.Meter{}}, &document{}).client
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.publishInbound(context.Background())
	}()
	t.Cleanup(func() {
		c.inbound.close()
		<-done
	})
	return c, func(payload, id string, withdrawn *atomic.Bool) *source {
		from := &trace{topic: tokenOf("a"), visited: []token{tokenOf("peer")}}
		copy(from.id[:], id)
		m := messaging.Message{Topic: "a", Payload: []byte(payload), QoS: 1, Properties: from.join(nil)}
		if withdrawn == nil { // of QoS 0
			m.QoS = 0
			(&receiver{c, r, 0}).Take(m, nil)
			return nil
		}
		s := &source{withdrawn: withdrawn}
		(&receiver{c, r, 0}).Take(m, s)
		return s
	}
}

// storingBroker is a broker in this process, which stores nothing while it does not serve.
type storingBroker struct {
	plainBroker
	serving atomic.Pointer[context.Context] // nil between the first turn and the next one
	next    chan struct{}                   // closed when the next turn has begun
}

func (b *storingBroker) Serving(ctx context.Context) (context.Context, error) {
	if s := b.serving.Load(); s != nil {
		return *s, nil
	}
	select {
	case <-b.next:
		return *b.serving.Load(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *storingBroker) PublishStored(ctx context.Context, list []messaging.Message, _ []error) error {
	b.mu.Lock()
	b.attempts++
	reached := b.reached
	b.mu.Unlock()
	if !reached {
		<-ctx.Done()
		return ctx.Err()
	}
	_, _, err := b.Publish(ctx, list)
	return err
}

// TestWithdrawnWhileStored has a broker in this process not serve any more while it stores messages: they are not published again in its
// next turn, in which others have followed.
func TestWithdrawnWhileStored(t *testing.T) {
	t.Parallel()
	local := &storingBroker{next: make(chan struct{})}
	serving, end := context.WithCancel(t.Context())
	local.serving.Store(&serving)
	c, take := startInbound(t, local)
	var ended, never atomic.Bool
	former := take("1", "first", &ended)
	local.has(t, "the first message is tried", func() bool { return local.attempts > 0 })
	take("of QoS 0", "unacknowledged", nil)
	behind := take("4", "behind", &ended)
	local.serving.Store(nil)
	ended.Store(true)
	end()
	local.has(t, "the messages are dropped", func() bool {
		return former.outcomes.Load() == 1 && behind.outcomes.Load() == 1 && c.meter.Dropped.Load() == 1
	})
	local.mu.Lock()
	local.reached = true
	local.mu.Unlock()
	next := t.Context()
	local.serving.Store(&next)
	close(local.next)
	later := take("2", "second", &never)
	local.has(t, "the second message is acknowledged", func() bool { return later.outcomes.Load() == 1 })
	local.has(t, "the second message is published", func() bool { return slices.Equal(local.published, []string{"2"}) })
}
