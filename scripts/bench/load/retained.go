//go:build linux

package load

import (
	"context"
	"fmt"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// Retained is a load of retained messages that a new subscriber receives at once. A
// Play subscribes one client after another, as often as the number of messages needs
// it.
type Retained struct {
	Topics int
	QoS    byte // of the subscriptions
}

// retainedSet is a broker that has the retained messages.
type retainedSet struct {
	Retained
	target Target
	ended  context.Context
}

// Open publishes the retained messages, with QoS 1.
func (r Retained) Open(ctx context.Context, t Target) (Session, error) {
	if err := AddRetained(ctx, t, 0, r.Topics); err != nil {
		return nil, fmt.Errorf("set retained messages: %w", err)
	}
	return &retainedSet{Retained: r, target: t, ended: ctx}, nil
}

func (a *retainedSet) Play(ctx context.Context, messages int) (Pass, error) {
	began := time.Now()
	var pass Pass
	for pass.Delivered < messages {
		if err := a.fetch(ctx); err != nil {
			return pass, err
		}
		pass.Delivered += a.Topics
	}
	pass.Took = time.Since(began)
	return pass, nil
}

// Close leaves the messages in place: the broker ends with the run.
func (a *retainedSet) Close() error { return nil }

// fetch subscribes a new client to everything, which must receive each message once.
func (a *retainedSet) fetch(ctx context.Context) error {
	c, err := dial(ctx, a.target.Addr, a.target.login("bench-reader", "", true), nil, bufferSize)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := c.Write(packet.AppendSubscribe(nil, 1, "bench/#", a.QoS)); err != nil {
		return err
	}
	got := make([]bool, a.Topics)
	return c.readAll(a.Topics, a.QoS, func(m packet.Message) error {
		s, ok := readStamp(m.Payload, 1, false)
		if !ok || !m.Retain || s.seq < 0 || s.seq >= int64(a.Topics) || string(m.Topic) != string(retainedTopic(int(s.seq))) {
			return fmt.Errorf("retained message %d on %s: %w", s.seq, m.Topic, errWrong)
		}
		if got[s.seq] {
			return fmt.Errorf("retained message %d came twice: %w", s.seq, errWrong)
		}
		got[s.seq] = true
		return nil
	})
}

func retainedTopic(n int) []byte { return fmt.Appendf(nil, "bench/site/%03d/device/%05d", n%100, n) }

func payloadOf(n int) []byte {
	return stamp{seq: int64(n)}.append(nil, false)
}
