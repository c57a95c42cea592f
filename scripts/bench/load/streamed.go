//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Streamed is a Flow on a broker with streams. It waits until the watched stream has
// processed its messages.
type Streamed struct {
	Flow
	Streams []Stream
	Watched int  // index of the stream; -1 is none
	Lossy   bool // the flow does not wait for the stream, which may drop messages
}

// Stream is a stream that a load creates.
type Stream struct {
	Name, Source string
	Target       string // empty is none
	Query        string // empty is none
	Persist      bool
}

func (s Stream) create() command {
	c := command{"command": "createStream", "streamname": s.Name, "sourcetopic": s.Source, "persist": s.Persist}
	if s.Target != "" {
		c["targettopic"] = s.Target
	}
	if s.Query != "" {
		c["process"], c["query"] = true, rawJSON(s.Query)
	}
	return c
}

// rawJSON is JSON that is part of a command unchanged.
type rawJSON string

// MarshalJSON returns it.
func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// streamedSession is a Streamed whose clients are connected.
type streamedSession struct {
	Streamed
	flow   *stream
	target Target
	kept   int64 // messages stored so far
}

// Open creates the streams and connects the clients.
func (l Streamed) Open(ctx context.Context, t Target) (Session, error) {
	c := &streamedSession{Streamed: l, target: t}
	if err := c.withControlClient(ctx, func(d *controlClient) error { return d.create(l.Streams) }); err != nil {
		return nil, err
	}
	flow, err := l.open(ctx, t)
	if err != nil {
		return nil, errors.Join(err, c.drop())
	}
	c.flow = flow
	return c, nil
}

func (c *streamedSession) withControlClient(ctx context.Context, do func(*controlClient) error) error {
	return withControlClient(ctx, c.target, c.client("control", 0), do)
}

// create creates streams, several per request.
func (d *controlClient) create(streams []Stream) error { return d.each(streams, Stream.create) }

// each sends one command about each of many streams.
func (d *controlClient) each(streams []Stream, about func(Stream) command) error {
	const most = 50 // commands per request
	var commands []command
	for i, s := range streams {
		commands = append(commands, about(s))
		if len(commands) < most && i < len(streams)-1 {
			continue
		}
		if _, err := d.send(commands...); err != nil {
			return err
		}
		commands = nil
	}
	return nil
}

// Play plays the flow, and then waits for the stream.
func (c *streamedSession) Play(ctx context.Context, messages int) (pass Pass, err error) {
	if c.Watched < 0 {
		return c.flow.Play(ctx, messages)
	}
	err = c.withControlClient(ctx, func(d *controlClient) error {
		began := time.Now()
		pass, err = c.watch(ctx, d, messages)
		pass.Took = time.Since(began)
		return err
	})
	return pass, err
}

// watch plays while a goroutine polls the broker for the stream's progress.
func (c *streamedSession) watch(ctx context.Context, d *controlClient, messages int) (Pass, error) {
	before, err := d.state(c.watched().Name)
	if err != nil {
		return Pass{}, err
	}
	most := backlog
	if c.Lossy {
		most = 0
	}
	g := newGauge(most)
	c.flow.gauge = g
	ctx, stop := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	var after streamState
	asking.Go(func() { after = c.poll(ctx, stop, d, g, before) })
	pass, err := c.flow.Play(ctx, messages)
	if err == nil {
		err = g.rest(ctx)
	}
	stop(errDone)
	asking.Wait()
	if err != nil {
		return pass, err
	}
	return c.account(pass, before, after)
}

// backlog bounds the messages within a stream: the product queues 10,000.
const backlog = 8_000

// errDone ends the polling.
var errDone = errors.New("the messages are done with")

func (c *streamedSession) watched() Stream { return c.Streams[c.Watched] }

// poll passes the progress of the stream to the gauge, until ctx is done, and returns
// the last state. It pauses between two requests, so that these cost the broker little.
func (c *streamedSession) poll(ctx context.Context, stop context.CancelCauseFunc, d *controlClient, g *gauge, last streamState) streamState {
	const breath = 4 * time.Millisecond
	again := time.NewTicker(breath)
	defer again.Stop()
	done := c.done(last)
	for {
		select {
		case <-ctx.Done():
			return last
		case <-again.C:
		}
		now, err := d.state(c.watched().Name)
		if err != nil {
			stop(err)
			return last
		}
		last = now
		g.update(c.done(now) - done)
	}
}

// done returns how many messages the stream is done with.
func (c *streamedSession) done(s streamState) int64 {
	return c.passed(s) + s.Stats.Filtered + s.Stats.Invalid + s.Stats.Dropped
}

// passed returns how many messages have passed through the stream.
func (c *streamedSession) passed(s streamState) int64 {
	if c.watched().Persist {
		return s.Stats.Persisted
	}
	return s.Stats.Republished
}

// account adds what has passed the stream to the result. A message that has not is an
// error, unless the flow is lossy.
func (c *streamedSession) account(pass Pass, before, after streamState) (Pass, error) {
	passed, done := c.passed(after)-c.passed(before), c.done(after)-c.done(before)
	pass.Delivered, pass.Dropped = int(passed), int(done-passed)
	c.kept += passed
	if dropped := after.Stats.Dropped - before.Stats.Dropped; int(dropped) != pass.Dropped || dropped > 0 && !c.Lossy {
		return pass, fmt.Errorf("%d messages came through the stream, %d were dropped, of %d: %w", passed, dropped, done, errWrong)
	}
	return pass, nil
}

// Close closes the connections, compares the number of stored messages with the
// stream's own count, and deletes the streams.
func (c *streamedSession) Close() error { return errors.Join(c.flow.Close(), c.check(), c.drop()) }

func (c *streamedSession) check() error {
	if c.Watched < 0 || !c.watched().Persist {
		return nil
	}
	return c.withControlClient(context.Background(), func(d *controlClient) error {
		count, err := d.count(c.watched().Name)
		if err == nil && count != c.kept {
			err = fmt.Errorf("the stream keeps %d messages and said that it kept %d: %w", count, c.kept, errWrong)
		}
		return err
	})
}

func (c *streamedSession) drop() error {
	return c.withControlClient(context.Background(), func(d *controlClient) error {
		return d.each(c.Streams, func(s Stream) command { return command{"command": "deleteStream", "streamname": s.Name} })
	})
}
