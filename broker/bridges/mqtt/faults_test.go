package mqtt_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
)

// TestCuts cuts the links of a triangle while messages of QoS 1 and 2 are sent: each arrives
// exactly once.
func TestCuts(t *testing.T) {
	t.Parallel()
	a, b := signalbox(t, "A"), signalbox(t, "B")
	m, _ := mosquitto(t)
	ab, am := brokertest.NewProxy(t, b.addr), brokertest.NewProxy(t, m.addr)
	toB, toM := all(b, "both"), all(m, "both")
	toB.addr, toM.addr = ab.Addr, am.Addr
	a.bridge(t, toB, toM)
	b.bridge(t, all(m, "both"))
	c := listen(t, a, b, m)
	var texts []string
	for round := range 40 {
		switch round % 10 {
		case 2:
			ab.Cut()
		case 4:
			am.Cut()
		case 5:
			ab.CutBefore(brokertest.Pubrec)
		case 7:
			am.CutAfter(brokertest.Publish)
		case 8:
			am.CutBefore(brokertest.Pubcomp)
		}
		for i, n := range c.nodes {
			topic := fmt.Sprintf("%s/%d", n.name, round)
			c.clients[i].send(topic, "x", 2, false)
			texts = append(texts, topic+"=x/2")
		}
	}
	ab.Pass()
	am.Pass()
	c.want(texts)
}

// TestDown has one link of a triangle down for a while: messages of that time arrive over the
// other path or, after reconnecting, over the link; never twice.
func TestDown(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"A-B", "A-M", "B-M"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			a, b := signalbox(t, "A"), signalbox(t, "B")
			m, _ := mosquitto(t)
			target, from, other := m, a, all(b, "both")
			switch which {
			case "A-B":
				target, other = b, all(m, "both")
			case "B-M":
				from = b
			}
			proxy := brokertest.NewProxy(t, target.addr)
			weak := all(target, "both")
			weak.addr = proxy.Addr
			if from == a {
				a.bridge(t, weak, other)
				b.bridge(t, all(m, "both"))
			} else {
				a.bridge(t, all(m, "both"), all(b, "both"))
				b.bridge(t, weak)
			}
			c := listen(t, a, b, m)
			texts := c.want(c.publish("before"))
			texts = c.want(texts) // so QoS 1 before that is acknowledged, and not sent again
			proxy.Refuse()
			proxy.Cut()
			brokertest.WaitFor(t, "the link is seen to be down", func() bool { return !from.status(t)[0].IsConnected })
			for i, n := range c.nodes {
				for k := range 10 {
					topic := fmt.Sprintf("down/%s/%d", n.name, k)
					c.clients[i].send(topic, "x", byte(1+k%2), k%5 == 0)
					text := fmt.Sprintf("%s=x/%d", topic, 1+k%2)
					if k%5 == 0 {
						text += "r"
					}
					texts = append(texts, text)
				}
			}
			proxy.Pass()
			from.connected(t)
			c.want(texts)
		})
	}
}

// TestRemoteRestarts restarts the other broker.
func TestRemoteRestarts(t *testing.T) {
	t.Parallel()
	a := signalbox(t, "A")
	m, server := mosquitto(t)
	a.bridge(t, all(m, "both"))
	p := join(t, a)
	server.Stop(t)
	brokertest.WaitFor(t, "it is told why there is no connection", func() bool {
		s := a.status(t)[0]
		return !s.IsConnected && strings.Contains(s.Error, "refuses connections")
	})
	var want []string
	for i := range 30 {
		topic := fmt.Sprint("kept/", i)
		p.send(topic, "x", 1, true)
		want = append(want, topic+"=x/1r")
	}
	brokertest.WaitFor(t, "messages wait", func() bool { return a.status(t)[0].QueuedMessages == 30 })
	server.Start(t)
	a.connected(t)
	brokertest.WaitFor(t, "all are sent", func() bool { return a.status(t)[0].Stats.Delivered == 30 })
	join(t, m, "kept/#").want("at the other broker", want...)
}

// TestTakeover checks the error for a client id that another client uses, if the broker sends a
// reason.
func TestTakeover(t *testing.T) {
	t.Parallel()
	m, _ := mosquitto(t)
	for name, c := range map[string]struct {
		to   *node
		text string
	}{
		"told":     {signalbox(t, "M"), "give each bridge a clientId of its own"},
		"not told": {m, "perhaps another client uses client ids that begin with \"same\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := signalbox(t, "A"), signalbox(t, "B")
			same := all(c.to, "out")
			same.connection = map[string]any{"clientId": "same"}
			a.bridge(t, same)
			b.configure(t, same)
			brokertest.WaitFor(t, "the error says so", func() bool {
				return strings.Contains(a.status(t)[0].Error+b.status(t)[0].Error, c.text)
			})
		})
	}
}

// TestUsernamesAsClientIDs checks the error if a broker uses user names as client ids, which ends
// the connections of a bridge in both directions: it has two.
func TestUsernamesAsClientIDs(t *testing.T) {
	t.Parallel()
	m, _ := mosquitto(t, brokertest.WithConfig("use_username_as_clientid true"))
	a := signalbox(t, "A")
	a.configure(t, all(m, "both"))
	brokertest.WaitFor(t, "the error names the setting", func() bool {
		return strings.Contains(a.status(t)[0].Error, "use_username_as_clientid")
	})
}
