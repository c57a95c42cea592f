package embedded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/streams"
)

// streamsID is under which the streams of this broker are kept.
const streamsID = "embedded"

// streamsPatience is how long the stored streams may take to be read.
const streamsPatience = 10 * time.Second

// openStreams sets the streams going, before the first message is published.
func (b *Broker) openStreams(ctx context.Context) error {
	if b.config.Streams == nil {
		return nil
	}
	b.streams = b.config.Streams.Open(streamsID, &messaging{engine: b.engine, now: b.now,
		publishers: sync.Pool{New: func() any { return b.engine.NewPublisher() }}})
	b.Streams = b.streams
	ctx, cancel := context.WithTimeout(ctx, streamsPatience)
	defer cancel()
	if err := b.streams.Ready(ctx); err != nil {
		return fmt.Errorf("read the broker's stored streams: %w; the log says what is wrong", err)
	}
	return nil
}

// closeStreams waits until what streams have taken is kept and published.
func (b *Broker) closeStreams(ctx context.Context) error {
	if b.streams == nil {
		return nil
	}
	return b.streams.Close(ctx)
}

// messaging is the engine as streams use it.
type messaging struct {
	engine     *engine.Engine
	now        func() time.Time
	publishers sync.Pool
}

// Subscribe opens a tap.
func (m *messaging) Subscribe(filter string, in streams.Inlet) (cancel func()) {
	return m.engine.Open(filter, inlet{in})
}

// Publish publishes all at once. What cannot be stored is refused.
func (m *messaging) Publish(_ context.Context, list []streams.Message) (done, refused int, err error) {
	p := m.publishers.Get().(*engine.Publisher)
	defer m.publishers.Put(p)
	now := m.now().UnixMilli()
	for i := range list {
		s := &list[i]
		if !p.Publish(&engine.Message{
			Topic: s.Topic, Payload: s.Payload, Properties: s.Properties, QoS: s.QoS,
			CreatedAt: now, ExpiresAt: s.ExpiresAt,
		}) {
			refused++
		}
	}
	p.Flush()
	return len(list), refused, nil
}

// Room waits for the subscribers of the topic.
func (m *messaging) Room(ctx context.Context, topic string) {
	p := m.publishers.Get().(*engine.Publisher)
	defer m.publishers.Put(p)
	p.Room(ctx, topic)
}

// Refused is never so: the streams are the broker's own.
func (*messaging) Refused(string) bool { return false }

// Reached is always so: the broker is here.
func (*messaging) Reached() error { return nil }

// inlet is where a stream takes messages, as a tap of the engine.
type inlet struct{ streams.Inlet }

// Holds tells whether a message is to be safe before it is acknowledged.
func (i inlet) Holds() bool { return i.Keeps() }

// Take hands the stream a message.
func (i inlet) Take(m *engine.Message, hold *engine.Hold) {
	s := streams.Message{
		Topic: m.Topic, Payload: m.Payload, Properties: m.Properties, QoS: m.QoS, At: m.CreatedAt, ExpiresAt: m.ExpiresAt,
	}
	if hold == nil {
		i.Inlet.Take(s, nil)
		return
	}
	i.Inlet.Take(s, hold)
}
