//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// Backlog is a load of QoS 1 messages for a session whose client is offline. The client
// reconnects when all are acknowledged, and receives them.
type Backlog struct{}

// offlineSession is a session whose client is offline.
type offlineSession struct{ target Target }

const (
	absentee     = "bench-absentee"
	backlogTopic = "bench/backlog"
)

// Open creates the session and disconnects its client.
func (b Backlog) Open(ctx context.Context, t Target) (Session, error) {
	c, err := dial(ctx, t.Addr, t.login(absentee, "", false), nil, bufferSize)
	if err != nil {
		return nil, err
	}
	if err := c.subscribe(backlogTopic, 1); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &offlineSession{target: t}, c.leave()
}

// Play publishes while the client is offline, then connects it and receives everything.
func (a *offlineSession) Play(ctx context.Context, messages int) (Pass, error) {
	began := time.Now()
	if err := a.target.asClient(ctx, "bench-writer", true, func(c *client) error { return c.fill(messages) }); err != nil {
		return Pass{}, fmt.Errorf("publish to an absent session: %w", err)
	}
	if err := a.target.asClient(ctx, absentee, false, func(c *client) error { return c.drain(messages) }); err != nil {
		return Pass{}, fmt.Errorf("take what has waited: %w", err)
	}
	return Pass{Delivered: messages, Took: time.Since(began)}, nil
}

// Close ends the session.
func (a *offlineSession) Close() error {
	return a.target.asClient(context.Background(), absentee, true, func(*client) error { return nil })
}

// asClient connects a client, calls do, and disconnects.
func (t Target) asClient(ctx context.Context, name string, clean bool, do func(*client) error) error {
	c, err := dial(ctx, t.Addr, t.login(name, "", clean), nil, bufferSize)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := do(c); err != nil {
		return errors.Join(err, c.Close())
	}
	return c.leave()
}

func (c *client) fill(messages int) error {
	return c.publishAll(messages, func(n int) packet.Message {
		return packet.Message{Topic: []byte(backlogTopic), Payload: payloadOf(n), QoS: 1}
	})
}

// drain receives the messages in the order in which they were published.
func (c *client) drain(messages int) error {
	var want int64
	err := c.readAll(messages, 1, func(m packet.Message) error {
		s, ok := readStamp(m.Payload, 1, false)
		if !ok || s.seq != want || m.Dup {
			return fmt.Errorf("message %d instead of %d: %w", s.seq, want, errWrong)
		}
		want++
		return nil
	})
	if err != nil {
		return err
	}
	_, err = c.ask(packet.AppendEmpty(nil, packet.Pingreq), packet.Pingresp) // its response shows that all acknowledgements were processed
	return err
}
