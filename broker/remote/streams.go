package remote

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/remote/endpoint"
	"signalbox/broker/remote/feed"
	"signalbox/broker/streams"
)

// ownStreams are streams of this service on a broker, through a client of its
// own. Nothing connects before there is a first one.
type ownStreams struct {
	*streams.Engine
	broker *Broker
	feed   *feed.Feed
	needed chan struct{} // closed when there has been a stream
	once   sync.Once     // guards the closing of needed
}

// openStreams has streams of this service, until the context ends and they are
// closed before that.
func (b *Broker) openStreams(ctx context.Context, host *streams.Host, id string) {
	o := &ownStreams{broker: b, needed: make(chan struct{})}
	o.feed = feed.New(b.feedOptions(id))
	o.Engine = host.Open(id, o.feed)
	b.own = o
	b.wg.Go(func() { o.run(ctx) })
}

// run runs the feed as soon as there is a stream. That it waits for all
// definitions matters: what sessions have kept comes at once.
func (o *ownStreams) run(ctx context.Context) {
	if o.Ready(ctx) != nil {
		return
	}
	if n, err := o.Len(ctx); err == nil && n > 0 {
		o.need()
	}
	select {
	case <-o.needed:
		o.feed.Run(ctx)
	case <-ctx.Done():
	}
}

func (o *ownStreams) need() { o.once.Do(func() { close(o.needed) }) }

// close ends the streams. What they have taken they keep and acknowledge; their
// sessions stay, for the next run.
func (o *ownStreams) close(ctx context.Context) error {
	o.feed.Leave()
	return o.Close(ctx)
}

// CreateStream creates a stream. Where there is a connection, it is subscribed
// when this returns.
func (o *ownStreams) CreateStream(ctx context.Context, s broker.StreamSpec) error {
	err := o.Engine.CreateStream(ctx, s)
	o.settle(ctx)
	return err
}

// ModifyStream changes a stream; see CreateStream.
func (o *ownStreams) ModifyStream(ctx context.Context, s broker.StreamSpec, replace bool) error {
	err := o.Engine.ModifyStream(ctx, s, replace)
	o.settle(ctx)
	return err
}

// ReplayStream begins a replay, when the connection for it is there.
func (o *ownStreams) ReplayStream(ctx context.Context, r broker.StreamReplay) error {
	o.settle(ctx)
	return o.Engine.ReplayStream(ctx, r)
}

// settle waits for the feed where it has something to work with.
func (o *ownStreams) settle(ctx context.Context) {
	if n, err := o.Len(ctx); err != nil || n == 0 {
		return
	}
	o.need()
	if !o.broker.link.status().Connected {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, o.broker.timing.answer)
	defer cancel()
	if err := o.feed.Settled(ctx); err != nil {
		o.broker.log.Warn("streams are not subscribed in time", "error", err)
	}
}

// feedOptions say how streams reach the broker: as everything else does, and not
// before that does.
func (b *Broker) feedOptions(id string) feed.Options {
	t := b.timing
	return feed.Options{
		Open: func(ctx context.Context) (net.Conn, error) {
			conn, f := b.endpoint.Open(ctx, new(atomic.Bool))
			if f != nil {
				return nil, f
			}
			return conn, nil
		},
		Await: func(ctx context.Context) error {
			_, err := b.link.wait(ctx, connecting, resting, retrying)
			return err
		},
		Explain:  b.explainFeed,
		ClientID: streamsClientID(id), Username: b.username, Password: b.password,
		Timing: feed.Timing{Connect: t.connect, Answer: t.answer, Write: t.write, MinPause: t.minPause, MaxPause: t.maxPause,
			Stable: t.stable, Ping: t.ping, Silence: t.silence, Retry: time.Minute, Linger: time.Second},
		Now: b.now, Log: b.log,
	}
}

// streamsClientID makes a client id that is the same in every run, with room for
// two more characters: 23 are the most that each broker takes [MQTT-3.1.3-5].
func streamsClientID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "signalbox-" + base32.HexEncoding.EncodeToString(sum[:])[:11]
}

// explainFeed says why streams have no connection.
func (b *Broker) explainFeed(err error) *broker.Error {
	f, opening := errors.AsType[*failure](err)
	refusal, refused := errors.AsType[*feed.Refusal](err)
	ended, said := errors.AsType[*feed.Ended](err)
	switch {
	case opening:
		return b.explain(f)
	case refused:
		return b.explain(&failure{Stage: endpoint.Greeting, Err: &endpoint.Refused{Code: refusal.Older(), Err: err}})
	case said && ended.TakenOver():
		return &broker.Error{Kind: broker.Unavailable, Op: "connect", Err: err,
			Msg: "somebody else connects with the client id of this service's streams: does it run twice?"}
	}
	return b.explain(&failure{Stage: attending, Err: err})
}

// streams gives what has the broker's streams: this service where it has some;
// otherwise the broker itself, if it can.
func (b *Broker) streams(ctx context.Context, op string) (broker.Streams, error) {
	if b.own == nil {
		return plugin{b}, nil
	}
	n, err := b.own.Len(ctx)
	switch {
	case err != nil:
		return nil, b.unavailable(op, err)
	case n > 0:
		return b.own, nil
	case !b.link.known():
		if _, err := b.link.current(ctx); err != nil {
			return nil, b.unavailable(op, err)
		}
	}
	if b.link.offers(broker.CapStreams) {
		return plugin{b}, nil
	}
	return b.own, nil
}

// ListStreams gives a part of the streams, in order of their names.
func (b *Broker) ListStreams(ctx context.Context, o broker.ListOptions[broker.Stream]) (broker.Page[broker.Stream], error) {
	s, err := b.streams(ctx, "listStreams")
	if err != nil {
		return broker.Page[broker.Stream]{}, err
	}
	return s.ListStreams(ctx, o)
}

// GetStream gives the record of a stream.
func (b *Broker) GetStream(ctx context.Context, streamname string) (broker.Stream, error) {
	s, err := b.streams(ctx, "getStream")
	if err != nil {
		return broker.Stream{}, err
	}
	return s.GetStream(ctx, streamname)
}

// CreateStream creates a stream: on the broker if it has its own ones, otherwise
// in this service.
func (b *Broker) CreateStream(ctx context.Context, spec broker.StreamSpec) error {
	return b.withStreams(ctx, "createStream", func(s broker.Streams) error { return s.CreateStream(ctx, spec) })
}

// ModifyStream changes a stream.
func (b *Broker) ModifyStream(ctx context.Context, spec broker.StreamSpec, replace bool) error {
	return b.withStreams(ctx, "modifyStream", func(s broker.Streams) error { return s.ModifyStream(ctx, spec, replace) })
}

// DeleteStream deletes a stream with its messages.
func (b *Broker) DeleteStream(ctx context.Context, streamname string) error {
	return b.withStreams(ctx, "deleteStream", func(s broker.Streams) error { return s.DeleteStream(ctx, streamname) })
}

// CountStreamMessages tells how much a stream keeps.
func (b *Broker) CountStreamMessages(ctx context.Context, streamname string) (broker.StreamCount, error) {
	s, err := b.streams(ctx, "countStreamMessages")
	if err != nil {
		return broker.StreamCount{}, err
	}
	return s.CountStreamMessages(ctx, streamname)
}

// ClearStreamMessages deletes messages of a stream.
func (b *Broker) ClearStreamMessages(ctx context.Context, streamname string, gte, lte *float64) error {
	return b.withStreams(ctx, "clearStreamMessages", func(s broker.Streams) error { return s.ClearStreamMessages(ctx, streamname, gte, lte) })
}

// ReplayStream begins a replay.
func (b *Broker) ReplayStream(ctx context.Context, r broker.StreamReplay) error {
	return b.withStreams(ctx, "replayStream", func(s broker.Streams) error { return s.ReplayStream(ctx, r) })
}

// StopStreamReplay ends the replay that runs.
func (b *Broker) StopStreamReplay(ctx context.Context, streamname string) error {
	return b.withStreams(ctx, "stopStreamReplay", func(s broker.Streams) error { return s.StopStreamReplay(ctx, streamname) })
}

func (b *Broker) withStreams(ctx context.Context, op string, do func(broker.Streams) error) error {
	s, err := b.streams(ctx, op)
	if err != nil {
		return err
	}
	return do(s)
}
