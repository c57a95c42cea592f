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
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/dial"
)

// own is what this service has on a broker, through a client of its own: streams
// and bridges. Nothing connects before there is a first one. The zero value has none.
type own struct {
	broker  *Broker
	feed    *client.Client
	engines []engine
	streams *ownStreams // nil where only the broker itself may have some
	bridges *ownBridges // as streams

	needed chan struct{} // closed when there has been something to do
	once   sync.Once     // guards the closing of needed
}

// engine works with the messages of a broker.
type engine interface {
	// Ready waits until it is known what there is to do.
	Ready(ctx context.Context) error
	// Len tells how much there is to do, when it is known.
	Len(ctx context.Context) (int, error)
	Close(ctx context.Context) error
}

// openOwn has what the dialer offers, until the context ends and it is closed
// before that.
func (b *Broker) openOwn(ctx context.Context, d *Dialer, id string) {
	o := &b.own
	o.broker, o.needed = b, make(chan struct{})
	if id == "" || d.Streams == nil && d.Bridges == nil {
		return
	}
	o.feed = client.New(b.feedOptions(id))
	if d.Streams != nil {
		o.streams = &ownStreams{d.Streams.Open(id, o.feed), o}
		o.engines = append(o.engines, o.streams)
	}
	if d.Bridges != nil {
		o.bridges = &ownBridges{d.Bridges.Open(id, b.endpoint.Addr, o.feed), o}
		o.engines = append(o.engines, o.bridges)
	}
	b.wg.Go(func() { o.run(ctx) })
}

// run runs the feed as soon as there is something to do. That it waits for all
// that is known matters: what sessions have kept comes at once.
func (o *own) run(ctx context.Context) {
	for _, e := range o.engines {
		if e.Ready(ctx) != nil {
			return
		}
	}
	for _, e := range o.engines {
		if n, err := e.Len(ctx); err == nil && n > 0 {
			o.need()
		}
	}
	select {
	case <-o.needed:
		o.feed.Run(ctx)
	case <-ctx.Done():
	}
}

func (o *own) need() { o.once.Do(func() { close(o.needed) }) }

// close ends what is done. What was taken is kept and acknowledged; the sessions
// stay, for the next run.
func (o *own) close(ctx context.Context) error {
	if o.feed == nil {
		return nil
	}
	o.feed.StopReceiving()
	errs := make([]error, len(o.engines))
	var wg sync.WaitGroup
	for i, e := range o.engines {
		wg.Go(func() { errs[i] = e.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// settle waits for the feed where an engine has something to do.
func (o *own) settle(ctx context.Context, e engine) {
	if n, err := e.Len(ctx); err != nil || n == 0 {
		return
	}
	o.need()
	if !o.broker.link.status().Connected {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, o.broker.timing.answer)
	defer cancel()
	if err := o.feed.WaitSubscribed(ctx); err != nil {
		o.broker.log.Warn("what is wanted of the broker is not subscribed to in time", "error", err)
	}
}

// has tells whether a feature of a broker is an engine's: where that has
// something, and where the broker does not offer the feature itself.
func (o *own) has(ctx context.Context, e engine, feature broker.Capability, op string) (bool, error) {
	b := o.broker
	n, err := e.Len(ctx)
	switch {
	case err != nil:
		return false, b.unavailable(op, err)
	case n > 0:
		return true, nil
	case !b.link.known():
		if _, err := b.link.current(ctx); err != nil {
			return false, b.unavailable(op, err)
		}
	}
	if b.link.offers(feature) {
		return false, nil
	}
	if b.link.status().Connected {
		b.maySecond(ctx, op, feature) //nolint:errcheck // only what is known then counts
	}
	return true, b.knownSingle(op, feature)
}

// feedOptions say how own streams and bridges reach the broker: as everything else does, and not
// before that does.
func (b *Broker) feedOptions(id string) client.Options {
	t := b.timing
	return client.Options{
		Open: func(ctx context.Context) (net.Conn, error) {
			if err := b.maySecond(ctx, "connect", broker.CapStreams); err != nil {
				return nil, err
			}
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
		ClientID: ownClientID(id), Username: b.username, Password: b.password,
		Timing: client.Timing{Connect: t.connect, ResumeTimeout: t.answer, Write: t.write, MinDelay: t.minPause, MaxDelay: t.maxPause,
			Stable: t.stable, Ping: t.ping, ReadTimeout: t.silence, Retry: time.Minute, IdleTimeout: time.Second},
		Now: b.messageTime, Log: b.log,
	}
}

// ownClientID makes a client id that is the same in every run, with room for
// two more characters: 23 are the most that each broker takes [MQTT-3.1.3-5].
func ownClientID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "signalbox-" + base32.HexEncoding.EncodeToString(sum[:])[:11]
}

// explainFeed says why own streams and bridges have no connection.
func (b *Broker) explainFeed(err error) *broker.Error {
	f, opening := errors.AsType[*failure](err)
	refusal, refused := errors.AsType[*client.ConnackError](err)
	ended, said := errors.AsType[*client.DisconnectError](err)
	known, explained := errors.AsType[*broker.Error](err)
	switch {
	case explained:
		return known
	case opening:
		return b.explain(f)
	case refused:
		return b.explain(&failure{Stage: dial.StageConnect, Err: &dial.ConnackError{Code: refusal.V311Code(), Err: err}})
	case said && ended.TakenOver():
		return &broker.Error{Kind: broker.Unavailable, Op: "connect", Err: err,
			Msg: "somebody else connects with the client id of this service's streams: does it run twice?"}
	}
	return b.explain(&failure{Stage: attending, Err: err})
}
