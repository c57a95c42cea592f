package mqtt_test

import (
	"fmt"
	"testing"
	"time"

	"signalbox/broker/brokertest"
)

// network is a set of brokers with a client at each.
type network struct {
	t       *testing.T
	nodes   []*node
	clients []*client
	sent    int
}

// listen connects a client to each broker, subscribed to every topic.
func listen(t *testing.T, nodes ...*node) *network {
	t.Helper()
	c := &network{t: t, nodes: nodes}
	for _, n := range nodes {
		c.clients = append(c.clients, join(t, n, "#"))
	}
	return c
}

// publish publishes messages of each QoS at each broker, some of them duplicated, some retained,
// and returns what each client must receive.
func (c *network) publish(round string) (want []string) {
	for i, n := range c.nodes {
		for k := range 12 {
			qos, retain := byte(k%3), k%4 == 0
			topic := fmt.Sprintf("%s/%s/%d", round, n.name, k)
			c.clients[i].send(topic, "same", qos, retain)
			text := fmt.Sprintf("%s=same/%d", topic, qos)
			if retain {
				text += "r"
			}
			want = append(want, text)
		}
		for range 10 {
			topic := fmt.Sprintf("%s/%s/again", round, n.name)
			c.clients[i].send(topic, "same", 1, false)
			want = append(want, topic+"=same/1")
		}
	}
	return want
}

// want waits until each client has received exactly these messages; a last message from each
// broker to each shows that nothing else arrives.
func (c *network) want(texts []string) []string {
	c.t.Helper()
	for i, n := range c.nodes {
		brokertest.WaitFor(c.t, fmt.Sprintf("%d messages at %s", len(texts), n.name), func() bool { return len(c.clients[i].list()) >= len(texts) })
	}
	for i, n := range c.nodes {
		topic := fmt.Sprintf("last/%s/%d", n.name, c.sent)
		c.clients[i].send(topic, "last", 2, false)
		texts = append(texts, topic+"=last/2")
	}
	c.sent++
	for i, n := range c.nodes {
		c.clients[i].want("at "+n.name, texts...)
	}
	return texts
}

// awaitQuiet waits until nothing more arrives, and returns the total number of messages.
func (c *network) awaitQuiet() (total int) {
	c.t.Helper()
	since := time.Now()
	brokertest.WaitFor(c.t, "nothing more comes", func() bool {
		n := 0
		for _, client := range c.clients {
			n += len(client.list())
		}
		if n != total {
			total, since = n, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
	return total
}

// TestTriangle bridges each pair of three brokers, in both directions, for all topics: each
// message arrives at each broker once, whichever side runs the bridges.
func TestTriangle(t *testing.T) {
	t.Parallel()
	for name, bridge := range map[string]func(t *testing.T, a, b, m *node){
		"A bridges to B": func(t *testing.T, a, b, m *node) {
			a.bridge(t, all(b, "both"), all(m, "both"))
			b.bridge(t, all(m, "both"))
		},
		"both push": func(t *testing.T, a, b, m *node) {
			a.bridge(t, all(b, "out"), all(m, "both"))
			b.bridge(t, all(a, "out"), all(m, "both"))
		},
		"both pull": func(t *testing.T, a, b, m *node) {
			a.bridge(t, all(b, "in"), all(m, "both"))
			b.bridge(t, all(a, "in"), all(m, "both"))
		},
		"both bridge both ways": func(t *testing.T, a, b, m *node) {
			a.bridge(t, all(b, "both"), all(m, "both"))
			b.bridge(t, all(a, "both"), all(m, "both"))
		},
		"a line": func(t *testing.T, a, b, m *node) {
			a.bridge(t, all(b, "both"))
			b.bridge(t, all(m, "both"))
		},
		"a ring": func(t *testing.T, a, b, m *node) {
			a.bridge(t, all(b, "out"), all(m, "in"))
			b.bridge(t, all(m, "out"))
		},
		"the ring turned round": func(t *testing.T, a, b, m *node) {
			a.bridge(t, all(m, "out"), all(b, "in"))
			b.bridge(t, all(m, "in"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := signalbox(t, "A"), signalbox(t, "B")
			m, _ := mosquitto(t)
			bridge(t, a, b, m)
			c := listen(t, a, b, m)
			c.want(c.publish("first"))
		})
	}
}

// TestDiamond has two paths from one broker to another.
func TestDiamond(t *testing.T) {
	t.Parallel()
	for _, direction := range []string{"out", "in", "both"} {
		t.Run(direction, func(t *testing.T) {
			t.Parallel()
			a, b, x, d := signalbox(t, "A"), signalbox(t, "B"), signalbox(t, "X"), signalbox(t, "D")
			if direction == "in" {
				d.bridge(t, all(b, "in"), all(x, "in"))
				b.bridge(t, all(a, "in"))
				x.bridge(t, all(a, "in"))
			} else {
				b.bridge(t, all(d, direction))
				x.bridge(t, all(d, direction))
				a.bridge(t, all(b, direction), all(x, direction))
			}
			c := listen(t, a, b, x, d)
			if direction == "both" {
				c.want(c.publish("first"))
				return
			}
			from := &network{t: t, nodes: c.nodes[:1], clients: c.clients[:1]}
			texts := from.want(from.publish("first"))
			for i, n := range c.nodes {
				c.clients[i].want("at "+n.name, texts...)
			}
		})
	}
}
