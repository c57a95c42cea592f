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

// seam is the engine as streams and bridges use it.
type seam struct {
	engine     *engine.Engine
	timeline   *clock.Timeline
	publishers sync.Pool
}

// seam gives streams and bridges their access to the engine.
func (b *Broker) seam() *seam {
	return &seam{engine: b.engine, timeline: b.timeline, publishers: sync.Pool{New: func() any { return b.engine.NewPublisher() }}}
}

// Subscribe opens a tap.
func (m *seam) Subscribe(filter string, in messaging.Inlet) (cancel func()) {
	return m.engine.Open(filter, inlet{in, m})
}

// Publish publishes all at once. What cannot be stored is refused.
func (m *seam) Publish(_ context.Context, list []messaging.Message) (done, refused int, err error) {
	p := m.publishers.Get().(*engine.Publisher)
	defer m.publishers.Put(p)
	for i := range list {
		if !p.Publish(m.given(&list[i])) {
			refused++
		}
	}
	p.Flush()
	return len(list), refused, nil
}

// errNotStored is a message that the engine does not take at present.
var errNotStored = errors.New("the broker cannot store messages at present")

// PublishStored publishes all at once and waits for the store. It waits while the
// broker does not know its sessions, as at its start or while another node of its
// cluster has them, and publishes all again where that began meanwhile.
func (m *seam) PublishStored(ctx context.Context, list []messaging.Message, errs []error) error {
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

// Serving waits until the engine is not suspended and all sessions are back.
func (m *seam) Serving(ctx context.Context) (serving context.Context, err error) {
	return m.engine.Serving(ctx)
}

func (m *seam) publishStored(ctx context.Context, list []messaging.Message, errs []error) error {
	p := m.publishers.Get().(*engine.Publisher)
	defer m.publishers.Put(p)
	told := make([]<-chan error, len(list))
	for i := range list {
		ok := false
		if told[i], ok = p.PublishWithResult(m.given(&list[i])); !ok {
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

// given is a message as the engine takes it, whose times are those of the broker's
// database.
func (m *seam) given(s *messaging.Message) *engine.Message {
	return &engine.Message{
		Topic: s.Topic, Payload: s.Payload, Properties: s.Properties, QoS: s.QoS,
		Retain: s.Retain, CreatedAt: m.timeline.Now().UnixMilli(), ExpiresAt: m.timeline.In(s.ExpiresAt),
	}
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
			if !yield(m.taken(kept), nil) {
				return
			}
		}
	}
}

// WaitForCapacity waits for the subscribers of the topic.
func (m *seam) WaitForCapacity(ctx context.Context, topic string) {
	p := m.publishers.Get().(*engine.Publisher)
	defer m.publishers.Put(p)
	p.WaitForCapacity(ctx, topic)
}

// Refused is never so: they are the broker's own.
func (*seam) Refused(string) bool { return false }

// Reached is always so: the broker is here.
func (*seam) Reached() error { return nil }

// inlet is where a stream takes messages, as a tap of the engine.
type inlet struct {
	messaging.Inlet
	seam *seam
}

// Holds tells whether a message is to be safe before it is acknowledged.
func (i inlet) AwaitsCommit() bool { return i.Keeps() }

// Take hands the stream a message.
func (i inlet) Take(m *engine.Message, hold *engine.CommitBarrier) {
	s := i.seam.taken(m)
	if hold == nil {
		i.Inlet.Take(s, nil)
		return
	}
	i.Inlet.Take(s, hold)
}

// taken is a message as streams and bridges see it.
func (m *seam) taken(k *engine.Message) messaging.Message {
	return messaging.Message{
		Topic: k.Topic, Payload: k.Payload, Properties: k.Properties, QoS: k.QoS, Retain: k.Retain,
		At: m.timeline.Out(k.CreatedAt), ExpiresAt: m.timeline.Out(k.ExpiresAt), Serial: m.engine.Serial(k), ClientID: k.Publisher,
	}
}
