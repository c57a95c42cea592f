package brokertest_test

import (
	"net"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// client is a plain MQTT client that records what it receives.
type client struct {
	mqtt.Client
	got  chan string   // payloads, in order
	lost chan struct{} // closed when the connection is lost
}

// join connects to url as the admin of s, and subscribes to "t".
func join(t *testing.T, s *brokertest.Server, url string) *client {
	t.Helper()
	c := &client{got: make(chan string, 100), lost: make(chan struct{})}
	o := mqtt.NewClientOptions().AddBroker(url).SetUsername(s.AdminUsername).SetPassword(string(s.AdminPassword)).
		SetProtocolVersion(4).SetAutoReconnect(false).SetConnectTimeout(suite.HangLimit).SetKeepAlive(0).
		SetConnectionLostHandler(func(mqtt.Client, error) { close(c.lost) }).
		SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { c.got <- string(m.Payload()) })
	c.Client = mqtt.NewClient(o)
	done(t, c.Connect(), "connect")
	t.Cleanup(func() { c.Disconnect(0) })
	done(t, c.Subscribe("t", 1, nil), "subscribe")
	return c
}

// done waits for an operation that must succeed.
func done(t *testing.T, token mqtt.Token, what string) {
	t.Helper()
	if !token.WaitTimeout(suite.HangLimit) {
		t.Fatalf("%s: no answer", what)
	}
	if err := token.Error(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// next returns the next payload.
func (c *client) next(t *testing.T) string {
	t.Helper()
	select {
	case payload := <-c.got:
		return payload
	case <-time.After(suite.HangLimit):
		t.Fatal("nothing comes")
		return ""
	}
}

func within(t *testing.T, what string, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(suite.HangLimit):
		t.Fatalf("waited in vain until %s", what)
	}
}

// stage starts a broker, a witness connected to it, and a client connected through a proxy.
func stage(t *testing.T) (p *brokertest.Proxy, witness, c *client, again func() *client) {
	t.Helper()
	s := brokertest.Mosquitto(t)
	p = brokertest.NewProxy(t, s.Addr)
	again = func() *client { return join(t, s, p.URL) }
	return p, join(t, s, s.URL), again(), again
}

func TestProxyPasses(t *testing.T) {
	t.Parallel()
	p, witness, c, _ := stage(t)
	done(t, c.Publish("t", 1, false, "up"), "publish")
	if got := witness.next(t); got != "up" {
		t.Errorf("the broker got %q, want %q", got, "up")
	}
	if got := c.next(t); got != "up" {
		t.Errorf("the client got %q, want %q", got, "up")
	}
	if got := p.Accepted(); got != 1 {
		t.Errorf("accepted %d connections, want 1", got)
	}
}

func TestProxyCutsBefore(t *testing.T) {
	t.Parallel()
	p, witness, c, again := stage(t)
	struck := p.CutBefore(brokertest.Publish)
	done(t, c.Subscribe("other", 1, nil), "subscribe") // not the packet type of the fault
	c.Publish("t", 1, false, "lost")
	within(t, "the fault has struck", struck)
	within(t, "the client has lost its connection", c.lost)
	done(t, again().Publish("t", 1, false, "later"), "publish after the fault")
	if got := witness.next(t); got != "later" {
		t.Errorf("the broker got %q, want only %q", got, "later")
	}
}

func TestProxyCutsAfter(t *testing.T) {
	t.Parallel()
	p, witness, c, again := stage(t)
	struck := p.CutAfter(brokertest.Publish)
	token := c.Publish("t", 1, false, "arrived")
	within(t, "the fault has struck", struck)
	within(t, "the client has lost its connection", c.lost)
	if token.WaitTimeout(suite.HangLimit) && token.Error() == nil {
		t.Error("the client got an acknowledgement")
	}
	if got := witness.next(t); got != "arrived" {
		t.Errorf("the broker got %q, want %q", got, "arrived")
	}
	done(t, again().Publish("t", 1, false, "later"), "publish after the fault")
}

func TestProxyDropsAnswers(t *testing.T) {
	t.Parallel()
	p, witness, c, _ := stage(t)
	struck := p.DropAnswers()
	done(t, witness.Publish("t", 1, false, "dropped"), "publish")
	within(t, "the fault has struck", struck)
	done(t, c.Publish("x", 1, false, ""), "publish while answers are dropped")
	p.Pass()
	done(t, witness.Publish("t", 1, false, "passed"), "publish")
	if got := c.next(t); got != "passed" {
		t.Errorf("the client got %q, want only %q", got, "passed")
	}
}

func TestProxySilences(t *testing.T) {
	t.Parallel()
	p, witness, c, _ := stage(t)
	done(t, witness.Subscribe("u", 1, nil), "subscribe")
	struck := p.Silence()
	token := c.Publish("u", 1, false, "unanswered")
	within(t, "the fault has struck", struck)
	if got := witness.next(t); got != "unanswered" {
		t.Errorf("the broker got %q, want %q", got, "unanswered")
	}
	p.Pass()
	done(t, c.Publish("t", 1, false, "answered"), "publish after the fault")
	select {
	case <-token.Done():
		t.Error("the acknowledgement was not swallowed")
	default:
	}
}

func TestProxyHolds(t *testing.T) {
	t.Parallel()
	p, witness, c, _ := stage(t)
	struck := p.Hold()
	token := c.Publish("t", 1, false, "held")
	within(t, "there is something to hold", struck)
	done(t, witness.Publish("t", 1, false, "free"), "publish past the proxy")
	if got := witness.next(t); got != "free" {
		t.Errorf("the broker got %q before the gate was opened", got)
	}
	p.Pass()
	done(t, token, "publish once the gate is open")
	for _, want := range []string{"free", "held"} {
		if got := c.next(t); got != want {
			t.Errorf("the client got %q, want %q", got, want)
		}
	}
}

func TestProxySendsGarbage(t *testing.T) {
	t.Parallel()
	p, witness, c, again := stage(t)
	struck := p.Garbage([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	done(t, witness.Publish("t", 1, false, "replaced"), "publish")
	within(t, "the fault has struck", struck)
	within(t, "the client has given the connection up", c.lost)
	done(t, again().Publish("t", 1, false, ""), "publish after the fault")
}

func TestProxyPassesUnsolicited(t *testing.T) {
	t.Parallel()
	p, witness, c, _ := stage(t)
	struck := p.Garbage([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	done(t, c.Subscribe("$SYS/broker/uptime", 0, nil), "subscribe")
	for range 2 { // a retained one, and one that the broker publishes by itself
		if got := c.next(t); !strings.HasSuffix(got, " seconds") {
			t.Errorf("the client got %q", got)
		}
	}
	done(t, witness.Publish("t", 1, false, "replaced"), "publish")
	within(t, "the fault has struck", struck)
	within(t, "the client has given the connection up", c.lost)
}

// TestProxySevers checks that held packets are discarded.
func TestProxySevers(t *testing.T) {
	t.Parallel()
	p, witness, c, again := stage(t)
	struck := p.Hold()
	c.Publish("t", 1, false, "held")
	within(t, "there is something to hold", struck)
	p.Sever()
	within(t, "the client has lost its connection", c.lost)
	conn, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a refused connection can be read from")
	}
	p.Pass()
	done(t, again().Publish("t", 1, false, "later"), "publish after the fault")
	if got := witness.next(t); got != "later" {
		t.Errorf("the broker got %q, want only %q", got, "later")
	}
}

func TestProxyRefuses(t *testing.T) {
	t.Parallel()
	p, _, c, _ := stage(t)
	struck := p.Refuse()
	conn, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	within(t, "the fault has struck", struck)
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a refused connection can be read from")
	}
	done(t, c.Publish("t", 1, false, ""), "publish over an older connection")
}

func TestProxyCuts(t *testing.T) {
	t.Parallel()
	p, _, c, again := stage(t)
	p.Cut()
	within(t, "the client has lost its connection", c.lost)
	again()
	if got := p.Accepted(); got != 2 {
		t.Errorf("accepted %d connections, want 2", got)
	}
}

// TestProxyEnds checks that a proxy leaves no goroutine behind; TestMain detects it.
func TestProxyEnds(t *testing.T) {
	t.Parallel()
	p, witness, c, _ := stage(t)
	struck := p.Hold()
	c.Publish("t", 1, false, "held for ever")
	within(t, "there is something to hold", struck)
	done(t, witness.Publish("t", 1, false, ""), "publish")
}
