package remote

import (
	"context"
	"errors"
	"net"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/dial"
	"signalbox/broker/mqtt/hosted"
)

// openHosted opens the streams and bridges that the dialer has, until ctx ends; Close comes before that.
func (b *Broker) openHosted(ctx context.Context, d *Dialer, id string) {
	node := d.Node
	if node == nil {
		node = func() string { return "" }
	}
	dialedAs := node()
	b.hosted = hosted.New(hosted.Options{
		Serving:   servingAs(d.Serving, func() bool { return node() == dialedAs }),
		Connected: func() bool { return b.link.status().Connected }, ResponseTimeout: b.timing.responseTimeout, Log: b.log,
	})
	var openStreams func(messaging.Broker) messaging.StreamEngine
	if id != "" && d.Streams != nil {
		openStreams = func(m messaging.Broker) messaging.StreamEngine { return d.Streams(id, m) }
	}
	var openBridges func(messaging.Broker) messaging.BridgeEngine
	if id != "" && d.Bridges != nil {
		openBridges = func(m messaging.Broker) messaging.BridgeEngine { return d.Bridges(id, b.endpoint.Addr, m) }
	}
	b.hosted.Open(client.New(b.flowOptions(id+dialedAs)), openStreams, openBridges)
	b.wg.Go(func() { b.hosted.Run(ctx) })
}

// servingAs returns the function of a Dialer that waits until this service takes the messages, which then waits until the
// client id is the current one, too. It is nil if none is set.
func servingAs(wait func(context.Context) (context.Context, error), current func() bool) func(context.Context) (context.Context, error) {
	if wait == nil {
		return nil
	}
	return func(ctx context.Context) (context.Context, error) {
		for {
			serving, err := wait(ctx)
			if err != nil || current() {
				return serving, err
			}
			if !messaging.Sleep(ctx, time.Second) { // this connection is about to be replaced by one with another client id
				return nil, ctx.Err()
			}
		}
	}
}

// serves reports whether an engine implements a feature of the broker: if it has definitions,
// or if the broker does not offer the feature.
func (b *Broker) serves(ctx context.Context, e messaging.Engine, feature broker.Capability, op string) (bool, error) {
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
		b.checkSecondConnection(ctx, op, feature) //nolint:errcheck // only the known result counts
	}
	return true, b.singleConnectionError(op, feature)
}

// receiverOptions returns the options of a client that connects like the session and only after it.
func (b *Broker) receiverOptions() client.Options {
	t := b.timing
	return client.Options{
		Open: func(ctx context.Context) (net.Conn, error) {
			if err := b.checkSecondConnection(ctx, "connect", broker.CapStreams); err != nil {
				return nil, err
			}
			conn, f := b.endpoint.Open(ctx, new(dial.Handshake))
			if f != nil {
				return nil, f
			}
			return conn, nil
		},
		Await: func(ctx context.Context) error {
			_, err := b.link.wait(ctx, connecting, waitingToRetry, retrying)
			return err
		},
		Explain: b.explainFlow, Username: b.username, Password: b.password,
		Timing: client.Timing{Connect: t.connectTimeout, ResumeTimeout: t.responseTimeout, Write: t.writeTimeout, MinDelay: t.minDelay, MaxDelay: t.maxDelay,
			Stable: t.stable, Ping: t.pingInterval, ReadTimeout: t.readTimeout, Retry: time.Minute, IdleTimeout: time.Second},
		Now: b.messageTime, Log: b.log,
	}
}

// flowOptions returns the options of the client of streams and bridges, which is connected only while this service takes
// their messages. It connects when their definitions are those that the other nodes of a cluster know: what waits in a
// session arrives at once.
func (b *Broker) flowOptions(id string) client.Options {
	o := b.receiverOptions()
	o.ClientID = hosted.ClientID(id)
	o.Serving = b.hosted.Serving
	await := o.Await
	o.Await = func(ctx context.Context) error {
		if err := await(ctx); err != nil {
			return err
		}
		return b.hosted.Refresh(ctx)
	}
	return o
}

// explainFlow explains why the client has no connection.
func (b *Broker) explainFlow(err error) *broker.Error {
	f := dial.FailureOf(err)
	ended, isDisconnect := errors.AsType[*client.DisconnectError](err)
	known, explained := errors.AsType[*broker.Error](err)
	switch {
	case explained:
		return known
	case f != nil:
		return b.explain(f)
	case isDisconnect && ended.TakenOver():
		return &broker.Error{Kind: broker.Unavailable, Op: "connect", Err: err,
			Msg: "another client connects with the client id of this service's streams; make sure that the service runs only once, and that this node has not left a cluster that goes on with them"}
	}
	return b.explain(&failure{Stage: serving, Err: err})
}
