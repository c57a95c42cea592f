package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"signalbox/broker"
	"signalbox/broker/pages"
)

// Bounds of a list of retained messages. A broker cannot be asked for a page of them or their
// number.
const (
	maxRetained      = 50_000
	maxRetainedBytes = 64 << 20 // of topics and payloads, as returned
)

// Publish publishes on the session's connection. The broker has processed the message when it
// returns. MQTT 3.1.1 does not report missing rights, and a broker may close the connection
// for them; so dynamic security is consulted if necessary.
func (b *Broker) Publish(ctx context.Context, p broker.PublishSpec) error {
	const op = "publish"
	if p.NeedsMQTT5() {
		return &broker.Error{Kind: broker.Invalid, Op: op,
			Msg: "this broker is reached over MQTT 3.1.1, which carries no expiry and no properties"}
	}
	ctx, cancel := context.WithTimeout(ctx, b.timing.responseTimeout)
	defer cancel()
	if err := b.mayPublish(ctx, op, p.Topic); err != nil {
		return err
	}
	return b.send(ctx, op, &call{topic: p.Topic, payload: p.Payload, qos: byte(p.QoS), retain: p.Retain, probe: p.QoS == 0})
}

// send sends a message without a response and waits until the broker has it.
func (b *Broker) send(ctx context.Context, op string, message *call) error {
	s, err := b.link.current(ctx)
	if err != nil {
		return b.unavailable(op, err)
	}
	c := newCall(message.topic, "", message.payload)
	c.qos, c.retain, c.probe, c.unanswered = message.qos, message.retain, message.probe, true
	if _, err := s.submit(ctx, c); err != nil {
		return c.failedMessage(op, err)
	}
	return nil
}

// failedMessage explains a failed message. Mosquitto closes the connection on some messages
// that it rejects.
func (c *call) failedMessage(op string, err error) error {
	failed := request{op: op, feature: broker.CapMessages}.failed(err)
	e, ok := errors.AsType[*broker.Error](failed)
	if !ok || e.Kind != broker.Unconfirmed || !errors.Is(err, errLost) {
		return failed
	}
	e.Msg = "the connection to the broker was lost before it confirmed the message: it may have been published, or the broker may not take it: " +
		"check that the connection's user may publish to the topic"
	if c.qos > 0 {
		e.Msg += fmt.Sprintf(", that the broker takes QoS %d (max_qos)", c.qos)
	}
	if c.retain {
		e.Msg += ", that it retains messages (retain_available)"
	}
	if n := len(c.topic) + len(c.payload); n > 100 {
		e.Msg += fmt.Sprintf(", that it takes packets of %d bytes (max_packet_size)", n)
	}
	return e
}

// ListRetained receives all matching retained messages that this service's user may receive,
// and returns a page of them.
func (b *Broker) ListRetained(ctx context.Context, filter string, offset, count int) (broker.Page[broker.RetainedMessage], error) {
	all, err := b.collect(ctx, "listRetained", filter, broker.PreviewLimit)
	if err != nil {
		return broker.Page[broker.RetainedMessage]{}, err
	}
	slices.SortFunc(all, func(a, b broker.RetainedMessage) int { return cmp.Compare(a.Topic, b.Topic) })
	part := all[min(offset, len(all)):]
	if count >= 0 {
		part = part[:min(count, len(part))]
	}
	return broker.Page[broker.RetainedMessage]{Total: len(all), Items: pages.Of(part)}, nil
}

// GetRetained receives the retained message of a topic.
func (b *Broker) GetRetained(ctx context.Context, topic string) (broker.RetainedMessage, error) {
	const op = "getRetained"
	found, err := b.collect(ctx, op, topic, -1)
	if err != nil {
		return broker.RetainedMessage{}, err
	}
	if len(found) == 0 {
		return broker.RetainedMessage{}, nothingRetained(op)
	}
	return found[0], nil
}

func nothingRetained(op string) error {
	return &broker.Error{Kind: broker.NotFound, Op: op, Msg: "the topic retains no message"}
}

// DeleteRetained clears the retained message of a topic and verifies that.
func (b *Broker) DeleteRetained(ctx context.Context, topic string) error {
	n, err := b.clear(ctx, topic)
	if err == nil && n == 0 {
		return nothingRetained(opDeleteRetained)
	}
	return err
}

// DeleteRetainedMatching clears all matching retained messages and returns how many were
// deleted.
func (b *Broker) DeleteRetainedMatching(ctx context.Context, filter string) (int, error) {
	return b.clear(ctx, filter)
}

const opDeleteRetained = "deleteRetained"

// clear publishes an empty retained message to each topic [MQTT-3.3.1-10] at QoS 0, which
// every broker accepts. MQTT 3.1.1 does not report missing rights, so it verifies the result,
// repeatedly: NATS clears after it acknowledges.
func (b *Broker) clear(ctx context.Context, filter string) (gone int, err error) {
	found, err := b.collect(ctx, opDeleteRetained, filter, 0)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	for _, m := range found {
		if err := b.sendEmpty(ctx, m.Topic); err != nil {
			return 0, err
		}
	}
	left, err := b.awaitCleared(ctx, filter)
	switch {
	case err != nil:
		return 0, err
	case left >= len(found):
		return 0, stillRetained()
	}
	return len(found) - left, nil
}

// sendEmpty sends an empty retained message.
func (b *Broker) sendEmpty(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, b.timing.responseTimeout)
	defer cancel()
	return b.send(ctx, opDeleteRetained, &call{topic: topic, retain: true})
}

func stillRetained() error {
	return &broker.Error{Kind: broker.Denied, Op: opDeleteRetained,
		Msg: "the broker keeps what it retains: check that the connection's user may publish there"}
}

// awaitCleared waits until no matching message is retained, at most for timing.clearTimeout,
// and returns how many are left.
func (b *Broker) awaitCleared(ctx context.Context, filter string) (left int, err error) {
	over := time.NewTimer(b.timing.clearTimeout)
	defer over.Stop()
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		list, err := b.collect(ctx, opDeleteRetained, filter, 0)
		if err != nil || len(list) == 0 {
			return 0, err
		}
		select {
		case <-time.After(pause):
		case <-over.C:
			return len(list), nil
		case <-ctx.Done():
			return len(list), nil
		}
	}
}

// collect receives the retained messages that match a filter, with payloads up to a limit.
func (b *Broker) collect(ctx context.Context, op, filter string, limit int) (found []broker.RetainedMessage, err error) {
	found, size := []broker.RetainedMessage{}, 0
	for p, err := range b.retained(ctx, op, filter) {
		if err != nil {
			return nil, err
		}
		m := broker.RetainedMessage{Topic: p.TopicName}.WithPayload(p.Payload, limit)
		size += len(m.Topic) + len(m.Payload)
		if len(found) == maxRetained || size > maxRetainedBytes {
			return nil, &broker.Error{Kind: broker.Invalid, Op: op,
				Msg: fmt.Sprintf("more than %d retained messages, or %d MiB, match: give a narrower filter", maxRetained, maxRetainedBytes>>20)}
		}
		found = append(found, m)
	}
	return found, nil
}
