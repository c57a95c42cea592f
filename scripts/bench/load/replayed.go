//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// Replayed is a load that replays the stored messages of a stream without a rate limit.
// A Play repeats the replay as often as the number of messages needs it.
type Replayed struct {
	Name       string // part of its stream's name, and of its topics
	Stored     int    // messages stored in the stream
	Subscribed bool   // a client subscribes to the replay
	QoS        byte   // of its subscription
}

// storedStream is a broker whose stream has stored the messages.
type storedStream struct {
	Replayed
	target Target
	stream Stream
}

// Open creates the stream and fills it with messages of QoS 1.
func (r Replayed) Open(ctx context.Context, t Target) (Session, error) {
	l := &storedStream{Replayed: r, target: t, stream: Stream{Name: r.Name, Source: "bench/" + r.Name, Persist: true}}
	if err := l.withControlClient(ctx, func(d *controlClient) error { return d.create([]Stream{l.stream}) }); err != nil {
		return nil, err
	}
	if err := l.record(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *storedStream) withControlClient(ctx context.Context, do func(*controlClient) error) error {
	return withControlClient(ctx, l.target, "bench-control-"+l.Name, do)
}

func (l *storedStream) record(ctx context.Context) error {
	c, err := dial(ctx, l.target.Addr, l.target.login("bench-writer-"+l.Name, "", true), nil, bufferSize)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := c.publishAll(l.Stored, func(n int) packet.Message {
		return packet.Message{Topic: []byte(l.stream.Source), Payload: stamp{seq: int64(n)}.append(nil, true), QoS: 1}
	}); err != nil {
		return errors.Join(fmt.Errorf("have messages kept: %w", err), c.Close())
	}
	return c.leave()
}

// Play replays.
func (l *storedStream) Play(ctx context.Context, messages int) (pass Pass, err error) {
	err = l.withControlClient(ctx, func(d *controlClient) error {
		began := time.Now()
		for pass.Delivered < messages {
			if err := l.replay(ctx, d); err != nil {
				return err
			}
			pass.Delivered += l.Stored
		}
		pass.Took = time.Since(began)
		return nil
	})
	return pass, err
}

// topic returns the target of replays.
func (l *storedStream) topic() string { return "bench/" + l.Name + "/again" }

// replay replays everything, and waits until the reader has it and the replay is
// complete.
func (l *storedStream) replay(ctx context.Context, d *controlClient) error {
	before, err := d.state(l.stream.Name)
	if err != nil {
		return err
	}
	begin := func() error {
		_, err := d.send(command{"command": "replayStream", "streamname": l.stream.Name, "replaytopic": l.topic(), "speed": 0})
		return err
	}
	if l.Subscribed {
		err = l.read(ctx, begin)
	} else {
		err = begin()
	}
	if err != nil {
		return err
	}
	return l.rest(ctx, d, before.Stats.Replayed+int64(l.Stored))
}

// read reads a replay with a client, every message once and in order.
func (l *storedStream) read(ctx context.Context, begin func() error) error {
	c, err := dial(ctx, l.target.Addr, l.target.login("bench-reader-"+l.Name, "", true), nil, bufferSize)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := c.subscribe(l.topic(), l.QoS); err != nil {
		return errors.Join(err, c.Close())
	}
	if err := begin(); err != nil {
		return errors.Join(err, c.Close())
	}
	var want int64
	err = c.readAll(l.Stored, l.QoS, func(m packet.Message) error {
		s, ok := readStamp(m.Payload, 1, true)
		if !ok || s.seq != want || m.Dup || m.Retain {
			return fmt.Errorf("replayed message %d instead of %d: %w", s.seq, want, errWrong)
		}
		want++
		return nil
	})
	if err != nil {
		return errors.Join(err, c.Close())
	}
	return c.leave()
}

// rest waits until no replay runs, and checks that this many messages were replayed.
func (l *storedStream) rest(ctx context.Context, d *controlClient, replayed int64) error {
	const breath = 2 * time.Millisecond
	again := time.NewTicker(breath)
	defer again.Stop()
	for {
		s, err := d.state(l.stream.Name)
		if err != nil {
			return err
		}
		if !s.Replaying {
			if s.Stats.Replayed != replayed {
				return fmt.Errorf("%d messages were replayed instead of %d: %w", s.Stats.Replayed, replayed, errWrong)
			}
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close deletes the stream.
func (l *storedStream) Close() error {
	return l.withControlClient(context.Background(), func(d *controlClient) error {
		_, err := d.send(command{"command": "deleteStream", "streamname": l.stream.Name})
		return err
	})
}
