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
	name     string
	document *document
	site     *site
	local    messaging.Broker
	meter    *bridges.Meter
	trial    bool
	now      func() time.Time  // clock of the messages' times
	outs     map[string]*route // by the name of the topic mapping
	ins      []*route
	guess    token // name of the other broker according to the configuration

	feed    *client.Client
	known   atomic.Pointer[acquaintance]
	losses  losses
	former  atomic.Pointer[token]    // name of the other broker according to the previous connector; nil if unknown
	barred  atomic.Pointer[[]string] // filters that the other broker has refused; nil for none
	met     atomic.Bool              // has been connected
	left    atomic.Bool              // closed; a connector with the same name may replace it
	downAt  atomic.Int64             // time of the disconnect in milliseconds of now; 0 while connected
	changed chan struct{}            // buffered by one, for the engine
	stir    chan struct{}            // buffered by one, for waits in Connect and Deliver
	inbound inbound

	// Used only by the engine's goroutine.
	started bool
	life    context.Context // ends publishing here
	end     context.CancelFunc
	cancels []func()      // of the subscriptions at the other broker
	stop    func()        // ends the client
	brought chan struct{} // closed when no more incoming messages are published
	tasks   sync.WaitGroup
	flights map[uint64]flight // by entry
	state   string            // last published notification
}

// acquaintance is a broker that has sent its name.
type acquaintance struct {
	name  string
	token token
}

var (
	_ bridges.Selective = (*connector)(nil)
	_ bridges.Watched   = (*connector)(nil)
)

func newConnector(s *site, c *bridges.Connection, d *document) *connector {
	n := &connector{
		name: c.Name, document: d, site: s, local: c.Local, meter: c.Meter, trial: c.Trial, now: c.Clock(), outs: map[string]*route{},
		guess: tokenOf(d.Connection.BrokerID), changed: make(chan struct{}, 1), stir: make(chan struct{}, 1),
		inbound: inbound{wake: make(chan struct{}, 1)}, flights: map[uint64]flight{}, brought: make(chan struct{}),
	}
	for _, r := range d.routes {
		if r.out {
			n.outs[r.name] = r
		}
		if r.in {
			n.ins = append(n.ins, r)
		}
	}
	n.life, n.end = context.WithCancel(context.Background())
	n.feed = client.New(n.options(c.Identity))
	if !n.trial {
		s.announce(n)
	}
	return n
}

// options returns the client's options. A trial has a random client id, so that it disturbs no
// other connection.
func (c *connector) options(identity string) client.Options {
	s := &c.document.Connection
	o := client.Options{
		Open:  c.open,
		Await: c.awaitServing, Explain: c.explain,
		Retained: true, ClientID: s.ClientID, Session: c.document.client(),
		Timing: c.document.timing(), Now: c.now, Log: slog.New(slog.DiscardHandler),
	}
	if s.Credentials != nil {
		o.Username, o.Password = s.Credentials.Username, broker.Secret(s.Credentials.Password)
	}
	o.Session.BridgeIdentity = identity
	o.Session.OnChange = func() { signal(c.changed); signal(c.stir) }
	if c.trial {
		o.ClientID, o.Session.StateTopic = "signalbox-"+rand.Text()[:11], ""
	}
	return o
}

// peer returns the token of the other broker's name.
func (c *connector) peer() token {
	p := c.feed.Peer()
	name := p.Identity
	if former := c.former.Load(); former != nil && p.Version == 0 {
		return *former
	}
	if name == "" {
		return c.guess
	}
	if a := c.known.Load(); a != nil && a.name == name {
		return a.token
	}
	a := &acquaintance{name, tokenOf(name)}
	c.known.Store(a)
	return a.token
}

// expect adds the targets at the other broker to which messages of a local topic are sent to a
// trace.
func (c *connector) expect(t *trace, topic string) {
	peer := c.peer()
	if t.hasVisited(peer) {
		return
	}
	for _, r := range c.outs {
		if there, ok := r.abroad(topic); ok && r.takesHere(topic) {
			t.expect(placeOf(peer, there))
		}
	}
}

// fetches reports whether messages of a remote topic are received at a local topic.
func (c *connector) fetches(there token, here string) bool {
	for _, r := range c.ins {
		if topic, ok := r.abroad(here); ok && c.granted(r, topic) >= 0 && tokenOf(topic) == there {
			return true
		}
	}
	return false
}

// Filters returns the local filters of a topic mapping.
func (c *connector) Filters(mapping string) []string {
	r := c.outs[mapping]
	if r == nil {
		return nil
	}
	return r.filters(r.local)
}

// Retained reports whether messages keep RETAIN at the other broker.
func (c *connector) Retained(mapping string) bool {
	return c.outs[mapping] != nil && c.outs[mapping].retain
}

// Enter adds a trace to a message that is to be queued. It reports false if the other broker has
// the message, or receives it from another broker.
func (c *connector) Enter(mapping string, m *messaging.Message) bool {
	t, rest := splitTrace(m.Properties)
	if t != nil {
		there, _ := c.outs[mapping].abroad(m.Topic)
		if t.covers(c.peer(), there) {
			return false
		}
	}
	properties, ok := c.site.sign(t, rest, m)
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
	if c.awaitServing(ctx) != nil {
		return errElsewhere
	}
	if err := c.reach(ctx); err != nil {
		c.down()
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if c.trial {
		return nil
	}
	if err := c.feed.WaitSubscribed(ctx); err != nil {
		return errors.New("the broker does not answer subscriptions in time: it may be overloaded")
	}
	c.up()
	return nil
}

// start starts the client.
func (c *connector) start() {
	c.started = true
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	if !c.trial {
		c.site.add(c)
		for _, r := range c.ins {
			for i, filter := range r.filters(r.remote) {
				c.cancels = append(c.cancels, c.feed.Subscribe(filter, &intake{c, r, i}))
			}
		}
		go func() {
			defer close(c.brought)
			c.bring(c.life)
		}()
	} else {
		close(c.brought)
	}
	c.tasks.Go(func() { c.feed.Run(ctx) })
}

// reach waits until all connections are established, or an attempt has failed.
func (c *connector) reach(ctx context.Context) error {
	tries := c.feed.Attempts()
	for {
		err := c.feed.ConnectionError()
		switch {
		case err == nil:
			return nil
		case c.feed.Attempts() > tries && !errors.Is(err, client.ErrNotConnectedYet):
			return err
		}
		select {
		case <-c.stir:
		case <-ctx.Done():
			return err
		}
	}
}

// check returns why an established connection cannot be used.
func (c *connector) check() error {
	switch p := c.feed.Peer(); {
	case p.Identity == c.site.identity:
		return errors.New("the url leads to the very broker that this bridge belongs to")
	case p.Version != packet.V5 && c.circular():
		return errors.New("the broker speaks MQTT 3.1.1 only, in which messages cannot be kept from going in circles: " +
			"give topics that are sent and topics that are taken prefixes of their own")
	}
	return nil
}

// circular reports whether messages that are sent may be received again.
func (c *connector) circular() bool {
	for _, out := range c.outs {
		for _, in := range c.ins {
			if out.echoes(in) {
				return true
			}
		}
	}
	return false
}

// Check reports an error unless all connections are established.
func (c *connector) Check(context.Context) error {
	if err := c.feed.ConnectionError(); err != nil {
		c.down()
		return err
	}
	c.up()
	return c.refused()
}

// tellTime is the timeout for publishing a notification.
const tellTime = 2 * time.Second

// tell publishes here whether the bridge is connected.
func (c *connector) tell(state string) {
	topic := c.document.Connection.NotificationTopic
	if topic == "" || c.trial || c.local == nil || c.state == state {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	m := messaging.Message{Topic: topic, Payload: []byte(state), Retain: true}
	if _, _, err := c.local.Publish(ctx, []messaging.Message{m}); err == nil {
		c.state = state
	}
}

// Close ends the client. Received messages are published first, unless the context ends.
func (c *connector) Close(ctx context.Context) error {
	defer c.end()
	c.site.remove(c)
	if !c.started {
		return nil
	}
	c.feed.StopReceiving()
	c.inbound.end()
	defer context.AfterFunc(ctx, c.end)()
	<-c.brought
	for _, cancel := range c.cancels {
		cancel()
	}
	c.stop()
	c.tasks.Wait()
	c.tell("0")
	return ctx.Err()
}
