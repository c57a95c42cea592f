package systemtest

import (
	"context"
	"sync"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// mosquittoPeer is a Mosquitto with persistence.
type mosquittoPeer struct {
	*collector
	server    *brokertest.Server
	direction string
}

func newMosquittoPeer(t testing.TB, direction string) *mosquittoPeer {
	t.Helper()
	return &mosquittoPeer{direction: direction, server: brokertest.Mosquitto(t, brokertest.WithoutPlugin(), brokertest.WithConfig(
		"persistence true", "persistence_location "+t.TempDir()+"/", "max_queued_messages 0"))}
}

// newOutboundPeer returns one that messages are sent to.
func newOutboundPeer(t testing.TB, _ endpoint) peer {
	t.Helper()
	p := newMosquittoPeer(t, "out")
	p.collector = collect(t, p.entrance())
	return outbound{p}
}

// outbound hides that messages could be published there.
type outbound struct{ peer }

// newInboundPeer returns one that messages come from.
func newInboundPeer(t testing.TB, own endpoint) peer {
	t.Helper()
	p := newMosquittoPeer(t, "in")
	p.collector = collect(t, own)
	return p
}

func (p *mosquittoPeer) entrance() endpoint { return endpoint{address: p.server.Addr} }
func (p *mosquittoPeer) start(t testing.TB) { t.Helper(); p.server.Start(t) }
func (p *mosquittoPeer) stop(t testing.TB)  { t.Helper(); p.server.Stop(t) }

func (p *mosquittoPeer) bridge() (string, object) {
	return "mqtt-bridge", connectTo(object{"url": p.server.URL}, object{}, object{"direction": p.direction})
}

// collector subscribes to all messages with a persistent session, wherever the broker
// moves.
type collector struct {
	arrivals
	entrance endpoint
	at       sync.Once
	ready    chan struct{} // closed when it is subscribed
}

// collect starts a collector, which ends with the test.
func collect(t testing.TB, e endpoint) *collector {
	t.Helper()
	c := &collector{entrance: e, ready: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		work.Wait()
	})
	work.Go(func() { c.run(ctx) })
	select {
	case <-c.ready:
	case <-time.After(suite.HangLimit):
		t.Fatal("the collector gets no subscription")
	}
	return c
}

// run connects repeatedly.
func (c *collector) run(ctx context.Context) {
	again := time.NewTicker(tick)
	defer again.Stop()
	for ctx.Err() == nil {
		c.connect(ctx)
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// connect receives messages over one connection, until it ends.
func (c *collector) connect(ctx context.Context) {
	d := mqtttest.NewPaho(c.entrance.address, func(o *mqtt.ClientOptions) {
		o.SetClientID("collector").SetUsername(c.entrance.username).SetPassword(c.entrance.password).
			SetCleanSession(false).SetConnectTimeout(time.Second).SetDefaultPublishHandler(c.message)
	})
	defer d.Disconnect(0)
	if token := d.Connect(); !token.WaitTimeout(suite.HangLimit) || token.Error() != nil {
		return
	}
	if token := d.Subscribe("plant/#", 1, nil); !token.WaitTimeout(suite.HangLimit) || token.Error() != nil {
		return
	}
	c.at.Do(func() { close(c.ready) })
	select {
	case <-d.Lost:
	case <-ctx.Done():
	}
}

func (c *collector) message(_ mqtt.Client, m mqtt.Message) {
	a := readArrival(m.Payload())
	if a.Topic != m.Topic() {
		a = arrival{Topic: "damaged: " + m.Topic()}
	}
	c.take(a)
}
