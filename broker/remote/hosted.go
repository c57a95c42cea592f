package remote

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"net"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/dial"
)

// hostedFeatures are the streams and bridges of this service on a broker. Its client keeps no
// connections before there is a first one. The zero value has none.
type hostedFeatures struct {
	broker  *Broker
	engines []messaging.Engine
	streams *hostedStreams // nil if only the broker itself may have streams
	bridges *hostedBridges // like streams

	serving  func(context.Context) (context.Context, error) // Dialer.Serving
	node     func() string                                  // Dialer.Node
	dialedAs string                                         // what node returned when the client ids were made

	started chan struct{} // closed when there is something to do
	once    sync.Once     // guards the closing of started
}

// openHosted opens the features that the dialer has, until ctx ends; close comes before that.
func (b *Broker) openHosted(ctx context.Context, d *Dialer, id string) {
	h := &b.hosted
	h.broker, h.started = b, make(chan struct{})
	if id == "" || d.Streams == nil && d.Bridges == nil {
		return
	}
	if d.Streams != nil {
		h.streams = &hostedStreams{d.Streams(id, hostedBroker{b.flow, h}), h}
		h.engines = append(h.engines, h.streams)
	}
	if d.Bridges != nil {
		h.bridges = &hostedBridges{d.Bridges(id, b.endpoint.Addr, hostedBroker{b.flow, h}), h}
		h.engines = append(h.engines, h.bridges)
	}
	b.wg.Go(func() { h.run(ctx) })
}

// run runs the client when there is something to do. It waits for all definitions, because
// messages queued in sessions arrive at once.
func (o *hostedFeatures) run(ctx context.Context) {
	for _, e := range o.engines {
		if e.Ready(ctx) != nil {
			return
		}
	}
	for _, e := range o.engines {
		if n, err := e.Len(ctx); err == nil && n > 0 {
			o.start()
		}
	}
	select {
	case <-o.started:
		o.broker.flow.Run(ctx)
	case <-ctx.Done():
	}
}

func (o *hostedFeatures) start() { o.once.Do(func() { close(o.started) }) }

// Serving waits until this service takes the messages of the broker; see [messaging.ServingBroker].
func (o *hostedFeatures) Serving(ctx context.Context) (context.Context, error) {
	if o.serving == nil {
		return context.Background(), nil
	}
	for {
		serving, err := o.serving(ctx)
		if err != nil || o.node() == o.dialedAs {
			return serving, err
		}
		if !messaging.Sleep(ctx, time.Second) { // this connection is about to be replaced by one with another client id
			return nil, ctx.Err()
		}
	}
}

// refresh waits until the definitions are those that the nodes of a cluster know.
func (o *hostedFeatures) refresh(ctx context.Context) error {
	for _, e := range o.engines {
		for e.Refresh(ctx) != nil { // its engine logs why
			if !messaging.Sleep(ctx, time.Second) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// hostedBroker is the broker of the features.
type hostedBroker struct {
	*client.Client
	hosted *hostedFeatures
}

var _ messaging.ServingBroker = hostedBroker{}

// Serving waits until this service takes the messages.
func (b hostedBroker) Serving(ctx context.Context) (context.Context, error) {
	return b.hosted.Serving(ctx)
}

// Subscribe subscribes; see [messaging.Broker].
func (b hostedBroker) Subscribe(filter string, t messaging.Tap) (cancel func()) {
	b.hosted.start()
	return b.Client.Subscribe(filter, t)
}

// Publish publishes messages; see [messaging.Broker].
func (b hostedBroker) Publish(ctx context.Context, messages []messaging.Message) (done, refused int, err error) {
	b.hosted.start()
	return b.Client.Publish(ctx, messages)
}

// Reached returns nil if messages can be published now.
func (b hostedBroker) Reached() error {
	if !messaging.IsServing(b) {
		return &broker.Error{Kind: broker.Unavailable, Msg: "another node of the cluster, its leader, takes and publishes the messages of this broker's streams and bridges: use that one"}
	}
	return b.Client.Reached()
}

// close ends the features. Received messages are stored and acknowledged; the sessions stay
// for the next run.
func (o *hostedFeatures) close(ctx context.Context) error {
	if len(o.engines) == 0 {
		return nil
	}
	o.broker.flow.StopReceiving()
	errs := make([]error, len(o.engines))
	var wg sync.WaitGroup
	for i, e := range o.engines {
		wg.Go(func() { errs[i] = e.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// waitSubscribed waits for the subscriptions if an engine has something to do.
func (o *hostedFeatures) waitSubscribed(ctx context.Context, e messaging.Engine) {
	if n, err := e.Len(ctx); err != nil || n == 0 {
		return
	}
	o.start()
	if !o.broker.link.status().Connected || !messaging.IsServing(hostedBroker{o.broker.flow, o}) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, o.broker.timing.responseTimeout)
	defer cancel()
	if err := o.broker.flow.WaitSubscribed(ctx); err != nil {
		o.broker.log.Warn("what is wanted of the broker is not subscribed to in time", "error", err)
	}
}

// serves reports whether an engine implements a feature of the broker: if it has definitions,
// or if the broker does not offer the feature.
func (o *hostedFeatures) serves(ctx context.Context, e messaging.Engine, feature broker.Capability, op string) (bool, error) {
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
	o.ClientID = hostedClientID(id)
	o.Serving = b.hosted.Serving
	await := o.Await
	o.Await = func(ctx context.Context) error {
		if err := await(ctx); err != nil {
			return err
		}
		return b.hosted.refresh(ctx)
	}
	return o
}

// hostedClientID returns a client id that is the same in every run, two characters shorter
// than the 23 that every broker accepts [MQTT-3.1.3-5].
func hostedClientID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "signalbox-" + base32.HexEncoding.EncodeToString(sum[:])[:11]
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
