package embedded

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/messaging"
)

// seam is the engine as streams and bridges use it.
type seam struct {
	engine     *engine.Engine
	now        func() time.Time
	publishers sync.Pool
}

// seam gives streams and bridges their access to the engine.
func (b *Broker) seam() *seam {
	return &seam{engine: b.engine, now: b.now, publishers: sync.Pool{New: func() any { return b.engine.NewPublisher() }}}
}

// Subscribe opens a tap.
func (m *seam) Subscribe(filter string, in messaging.Inlet) (cancel func()) {
	return m.engine.Open(filter, inlet{in})
}

// Publish publishes all at once. What cannot be stored is refused.
func (m *seam) Publish(_ context.Context, list []messaging.Message) (done, refused int, err error) {
	p := m.publishers.Get().(*engine.Publisher)
	defer m.publishers.Put(p)
	now := m.now().UnixMilli()
	for i := range list {
		if !p.Publish(given(&list[i], now)) {
			refused++
		}
	}
	p.Flush()
	return len(list), refused, nil
}

// errNotStored is a message that the engine does not take at present.
var errNotStored = errors.New("the broker cannot store messages at present")

// PublishStored publishes all at once and waits for the store.
func (m *seam) PublishStored(ctx context.Context, list []messaging.Message, errs []error) error {
	p := m.publishers.Get().(*engine.Publisher)
	defer m.publishers.Put(p)
	now, told := m.now().UnixMilli(), make([]<-chan error, len(list))
	for i := range list {
		ok := false
		if told[i], ok = p.PublishTold(given(&list[i], now)); !ok {
			told[i], errs[i] = nil, errNotStored
		}
	}
	p.Flush()
	for i, c := range told {
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

// given is a message as the engine takes it.
func given(s *messaging.Message, now int64) *engine.Message {
	return &engine.Message{
		Topic: s.Topic, Payload: s.Payload, Properties: s.Properties, QoS: s.QoS,
		Retain: s.Retain, CreatedAt: now, ExpiresAt: s.ExpiresAt,
	}
}

// Guard has a border looked after.
func (m *seam) Guard(b messaging.Border) (end func()) { return m.engine.Guard(border{b}) }

// border is one as the engine asks it.
type border struct{ messaging.Border }

// Admit asks about a message.
func (b border) Admit(m *engine.Message) bool {
	s := taken(m)
	return b.Border.Admit(&s)
}

// Withdraw takes that back.
func (b border) Withdraw(m *engine.Message) {
	s := taken(m)
	b.Border.Withdraw(&s)
}

// Retained gives what is retained now.
func (m *seam) Retained(ctx context.Context, filter string) iter.Seq2[messaging.Message, error] {
	return func(yield func(messaging.Message, error) bool) {
		_, list := m.engine.Retained(filter, 0, -1)
		for _, kept := range list {
			if err := ctx.Err(); err != nil {
				yield(messaging.Message{}, err)
				return
			}
			if !yield(taken(kept), nil) {
				return
			}
		}
	}
}

// Room waits for the subscribers of the topic.
func (m *seam) Room(ctx context.Context, topic string) {
	p := m.publishers.Get().(*engine.Publisher)
	defer m.publishers.Put(p)
	p.Room(ctx, topic)
}

// Refused is never so: they are the broker's own.
func (*seam) Refused(string) bool { return false }

// Reached is always so: the broker is here.
func (*seam) Reached() error { return nil }

// inlet is where a stream takes messages, as a tap of the engine.
type inlet struct{ messaging.Inlet }

// Holds tells whether a message is to be safe before it is acknowledged.
func (i inlet) Holds() bool { return i.Keeps() }

// Take hands the stream a message.
func (i inlet) Take(m *engine.Message, hold *engine.Hold) {
	s := taken(m)
	if hold == nil {
		i.Inlet.Take(s, nil)
		return
	}
	i.Inlet.Take(s, hold)
}

// taken is a message as streams and bridges see it.
func taken(m *engine.Message) messaging.Message {
	return messaging.Message{
		Topic: m.Topic, Payload: m.Payload, Properties: m.Properties, QoS: m.QoS, Retain: m.Retain,
		At: m.CreatedAt, ExpiresAt: m.ExpiresAt, ClientID: m.Publisher,
	}
}
