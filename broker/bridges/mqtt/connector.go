package mqtt

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/packet"
)

// connector is a connection to another broker. Sent messages come from the engine's queue;
// received messages have a queue of their own.
type connector struct {
	name           string
	document       *document
	guard          *loopGuard
	local          messaging.Broker
	meter          *bridges.Meter
	trial          bool
	now            func() time.Time  // clock of the messages' times
	outRoutes      map[string]*route // by the name of the topic mapping
	inRoutes       []*route
	configuredPeer token // name of the other broker according to the configuration

	client         *client.Client
	peerBroker     atomic.Pointer[peerBroker]
	losses         lossHistory
	previousPeer   atomic.Pointer[token]    // name of the other broker according to the previous connector; nil if unknown
	refusedFilters atomic.Pointer[[]string] // filters that the other broker has refused; nil for none
	hasConnected   atomic.Bool              // has been connected
	closed         atomic.Bool              // closed; a connector with the same name may replace it
	disconnectedAt atomic.Int64             // time of the disconnect in milliseconds of now; 0 while connected
	changed        chan struct{}            // buffered by one, for the engine
	stateChanged   chan struct{}            // buffered by one, for waits in Connect and Deliver
	inbound        inbound

	// Used only by the engine's goroutine.
	started       bool
	publishCtx    context.Context // ends publishing here
	cancelPublish context.CancelFunc
	cancels       []func()      // of the subscriptions at the other broker
	stop          func()        // ends the client
	inboundDone   chan struct{} // closed when no more incoming messages are published
	tasks         sync.WaitGroup
	inFlight      map[uint64]inFlightMessage // by entry
	published     string                     // last published notification
}

// peerBroker is a broker that has sent its name.
type peerBroker struct {
	name  string
	token token
}

var (
	_ bridges.Selective = (*connector)(nil)
	_ bridges.Watched   = (*connector)(nil)
)

func newConnector(s *loopGuard, c *bridges.Connection, d *document) *connector {
	n := &connector{
		name: c.Name, document: d, guard: s, local: c.Local, meter: c.Meter, trial: c.Trial, now: c.Clock(), outRoutes: map[string]*route{},
		configuredPeer: tokenOf(d.Connection.BrokerID), changed: make(chan struct{}, 1), stateChanged: make(chan struct{}, 1),
		inbound: inbound{wake: make(chan struct{}, 1)}, inFlight: map[uint64]inFlightMessage{}, inboundDone: make(chan struct{}),
	}
	for _, r := range d.routes {
		if r.out {
			n.outRoutes[r.name] = r
		}
		if r.in {
			n.inRoutes = append(n.inRoutes, r)
		}
	}
	n.publishCtx, n.cancelPublish = context.WithCancel(context.Background())
	n.client = client.New(n.options(c.Identity))
	if !n.trial {
		s.register(n)
	}
	return n
}

// options returns the client's options. A trial has a random client id, so that it disturbs no
// other connection.
func (c *connector) options(identity string) client.Options {
	s := &c.document.Connection
	o := client.Options{
		Open: c.open, Serving: c.serving,
		Await: func(ctx context.Context) error { return ctx.Err() }, Explain: c.explain,
		Retained: true, ClientID: s.ClientID, Session: c.document.sessionOptions(),
		Timing: c.document.timing(), Now: c.now, Log: slog.New(slog.DiscardHandler),
	}
	if s.Credentials != nil {
		o.Username, o.Password = s.Credentials.Username, broker.Secret(s.Credentials.Password)
	}
	o.Session.BridgeIdentity = identity
	o.Session.OnChange = func() { signal(c.changed); signal(c.stateChanged) }
	if c.trial {
		o.ClientID, o.Session.StateTopic = "signalbox-"+rand.Text()[:11], ""
	}
	return o
}

// peer returns the token of the other broker's name.
func (c *connector) peer() token {
	p := c.client.Peer()
	name := p.Identity
	if former := c.previousPeer.Load(); former != nil && p.Version == 0 {
		return *former
	}
	if name == "" {
		return c.configuredPeer
	}
	if a := c.peerBroker.Load(); a != nil && a.name == name {
		return a.token
	}
	a := &peerBroker{name, tokenOf(name)}
	c.peerBroker.Store(a)
	return a.token
}

// addPending adds the targets at the other broker to which messages of a local topic are sent to a
// trace.
func (c *connector) addPending(t *trace, topic string) {
	peer := c.peer()
	if t.hasVisited(peer) {
		return
	}
	for _, r := range c.outRoutes {
		if there, ok := r.toRemote(topic); ok && r.matchesLocal(topic) {
			t.addPending(targetOf(peer, there))
		}
	}
}

// receives reports whether messages of a remote topic are received at a local topic.
func (c *connector) receives(there token, here string) bool {
	for _, r := range c.inRoutes {
		if topic, ok := r.toRemote(here); ok && c.firstGranted(r, topic) >= 0 && tokenOf(topic) == there {
			return true
		}
	}
	return false
}

// Filters returns the local filters of a topic mapping.
func (c *connector) Filters(mapping string) []string {
	r := c.outRoutes[mapping]
	if r == nil {
		return nil
	}
	return r.filters(r.local)
}

// Retained reports whether messages keep RETAIN at the other broker.
func (c *connector) Retained(mapping string) bool {
	return c.outRoutes[mapping] != nil && c.outRoutes[mapping].retain
}

// Enter adds a trace to a message that is to be queued. It reports false if the other broker has
// the message, or receives it from another broker.
func (c *connector) Enter(mapping string, m *messaging.Message) bool {
	t, rest := splitTrace(m.Properties)
	if t != nil {
		there, _ := c.outRoutes[mapping].toRemote(m.Topic)
		if t.covers(c.peer(), there) {
			return false
		}
	}
	properties, ok := c.guard.outgoingProperties(t, rest, m.Topic, m.Serial)
	if ok {
		m.Properties = properties
	}
	return ok
}

// Changed returns a channel that receives when a connection was made or lost.
func (c *connector) Changed() <-chan struct{} { return c.changed }

// Connect has the client connect, and waits for that. The client reconnects by itself.
func (c *connector) Connect(ctx context.Context) error {
	if !c.started {
		c.start()
	}
	if _, err := c.serving(ctx); err != nil {
		return errNotServing
	}
	if err := c.awaitConnected(ctx); err != nil {
		c.markDisconnected()
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if c.trial {
		return nil
	}
	if err := c.client.WaitSubscribed(ctx); err != nil {
		return errors.New("the broker does not answer subscriptions in time: it may be overloaded")
	}
	c.markConnected()
	return nil
}

// start starts the client.
func (c *connector) start() {
	c.started = true
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	if !c.trial {
		c.guard.add(c)
		for _, r := range c.inRoutes {
			for i, filter := range r.filters(r.remote) {
				c.cancels = append(c.cancels, c.client.Subscribe(filter, &receiver{c, r, i}))
			}
		}
		go func() {
			defer close(c.inboundDone)
			c.publishInbound(c.publishCtx)
		}()
	} else {
		close(c.inboundDone)
	}
	c.tasks.Go(func() { c.client.Run(ctx) })
}

// awaitConnected waits until all connections are established, or an attempt has failed.
func (c *connector) awaitConnected(ctx context.Context) error {
	attempts := c.client.Attempts()
	for {
		err := c.client.ConnectionError()
		switch {
		case err == nil:
			return nil
		case c.client.Attempts() > attempts && !errors.Is(err, client.ErrNotConnectedYet):
			return err
		}
		select {
		case <-c.stateChanged:
		case <-ctx.Done():
			return err
		}
	}
}

// check returns why an established connection cannot be used.
func (c *connector) check() error {
	switch p := c.client.Peer(); {
	case p.Identity == c.guard.identity:
		return errors.New("the url leads to the broker to which this bridge belongs")
	case p.Version != packet.V5 && c.mayLoop():
		return errors.New("the broker speaks MQTT 3.1.1 only, in which messages cannot be kept from going in circles: " +
			"give topics that are sent and topics that are taken prefixes of their own")
	}
	return nil
}

// mayLoop reports whether messages that are sent may be received again.
func (c *connector) mayLoop() bool {
	for _, out := range c.outRoutes {
		for _, in := range c.inRoutes {
			if out.mayLoop(in) {
				return true
			}
		}
	}
	return false
}

// Check reports an error unless all connections are established.
func (c *connector) Check(context.Context) error {
	if err := c.client.ConnectionError(); err != nil {
		c.markDisconnected()
		return err
	}
	c.markConnected()
	return c.refusedError()
}

// publishTimeout is the timeout for publishing a notification.
const publishTimeout = 2 * time.Second

// publishState publishes here whether the bridge is connected.
func (c *connector) publishState(state string) {
	topic := c.document.Connection.NotificationTopic
	if topic == "" || c.trial || c.local == nil || c.published == state {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishTimeout)
	defer cancel()
	m := messaging.Message{Topic: topic, Payload: []byte(state), Retain: true}
	c.published = "" // if it fails, another node of the cluster may publish it meanwhile
	if _, _, err := c.local.Publish(ctx, []messaging.Message{m}); err == nil {
		c.published = state
	}
}

// Close ends the client. Received messages are published first, unless the context ends.
func (c *connector) Close(ctx context.Context) error {
	defer c.cancelPublish()
	c.guard.remove(c)
	if !c.started {
		return nil
	}
	c.client.StopReceiving()
	c.inbound.close()
	defer context.AfterFunc(ctx, c.cancelPublish)()
	<-c.inboundDone
	for _, cancel := range c.cancels {
		cancel()
	}
	c.stop()
	c.tasks.Wait()
	c.publishState("0")
	return ctx.Err()
}
