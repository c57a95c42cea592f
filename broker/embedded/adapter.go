package embedded

import (
	"context"
	"errors"
	"iter"
	"sync"

	"signalbox/broker/clock"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/messaging"
)

// adapter is the engine as streams and bridges use it: it converts what they publish, and times
// to those of the broker's database.
type adapter struct {
	engine     *engine.Engine
	timeline   *clock.Timeline
	publishers sync.Pool
}

// messaging returns the adapter for streams and bridges.
func (b *Broker) messaging() *adapter {
	return &adapter{engine: b.engine, timeline: b.timeline, publishers: sync.Pool{New: func() any { return b.engine.NewPublisher() }}}
}

// Subscribe adds a tap.
func (m *adapter) Subscribe(filter string, in messaging.Tap) (cancel func()) {
	return m.engine.Open(filter, in)
}

// Guard sets the loop guard that the engine asks; see messaging.GuardedBroker.
func (m *adapter) Guard(g messaging.LoopGuard) (end func()) { return m.engine.SetLoopGuard(g) }

// Publish publishes all messages at once. Those that cannot be stored are refused.
func (m *adapter) Publish(_ context.Context, list []messaging.Message) (done, refused int, err error) {
	p := m.publishers.Get().(*engine.Publisher)
	defer m.publishers.Put(p)
	for i := range list {
		if !p.Publish(m.toEngine(&list[i])) {
			refused++
		}
	}
	p.Flush()
	return len(list), refused, nil
}

// errNotStored is the error of a message that the engine cannot accept.
var errNotStored = errors.New("the broker cannot store messages at present")

// PublishStored publishes all messages at once and waits until they are stored. It waits
// while the broker does not know its sessions, at its start or while another node of its
// cluster has them, and publishes all again if that began meanwhile: the messages would
// otherwise reach no subscriber and yet be acknowledged to their source.
func (m *adapter) PublishStored(ctx context.Context, list []messaging.Message, errs []error) error {
	for {
		serving, err := m.engine.Serving(ctx)
		if err != nil {
			return err
		}
		clear(errs)
		if err := m.publishStored(ctx, list, errs); err != nil || serving.Err() == nil {
			return err
		}
	}
}

// Serving waits until the engine is not suspended and all sessions are loaded.
func (m *adapter) Serving(ctx context.Context) (serving context.Context, err error) {
	return m.engine.Serving(ctx)
}

func (m *adapter) publishStored(ctx context.Context, list []messaging.Message, errs []error) error {
	p := m.publishers.Get().(*engine.Publisher)
	defer m.publishers.Put(p)
	results := make([]<-chan error, len(list))
	for i := range list {
		ok := false
		if results[i], ok = p.PublishWithResult(m.toEngine(&list[i])); !ok {
			results[i], errs[i] = nil, errNotStored
		}
	}
	p.Flush()
	for i, c := range results {
		if c == nil {
			continue
		}
		select {
		case errs[i] = <-c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// toEngine converts a message for the engine, with times of the broker's database.
func (m *adapter) toEngine(s *messaging.Message) *engine.Message {
	return &engine.Message{
		Topic: s.Topic, Payload: s.Payload, Properties: s.Properties, QoS: s.QoS,
		Retain: s.Retain, CreatedAt: m.timeline.Now().UnixMilli(), ExpiresAt: m.timeline.In(s.ExpiresAt),
	}
}

// Retained yields the retained messages.
func (m *adapter) Retained(ctx context.Context, filter string) iter.Seq2[messaging.Message, error] {
	return func(yield func(messaging.Message, error) bool) {
		_, list := m.engine.Retained(filter, 0, -1)
		for _, kept := range list {
			if err := ctx.Err(); err != nil {
				yield(messaging.Message{}, err)
				return
			}
			if !yield(m.engine.Tapped(kept), nil) {
				return
			}
		}
	}
}

// WaitForCapacity waits until the queues of the topic's subscribers have space.
func (m *adapter) WaitForCapacity(ctx context.Context, topic string) {
	p := m.publishers.Get().(*engine.Publisher)
	defer m.publishers.Put(p)
	p.WaitForCapacity(ctx, topic)
}

// Refused reports false: the topics are the broker's own.
func (*adapter) Refused(string) bool { return false }

// Reached returns nil: the broker is in this process.
func (*adapter) Reached() error { return nil }
