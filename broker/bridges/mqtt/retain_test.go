package mqtt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"signalbox/broker/brokertest"
)

// retainedAt returns a broker's retained messages, as a new subscriber receives them.
func retainedAt(t testing.TB, n *node, last string) []string {
	t.Helper()
	c := join(t, n, "#")
	defer c.leave()
	brokertest.WaitFor(t, "the last of "+n.name+" has come", func() bool { return slices.Contains(c.texts(), last) })
	return c.texts()
}

// TestMirror retains, replaces and clears messages at three brokers, also while a link is down:
// afterwards all of them retain the same.
func TestMirror(t *testing.T) {
	t.Parallel()
	a, b := signalbox(t, "A"), signalbox(t, "B")
	m, _ := mosquitto(t)
	early := join(t, m)
	for k := range 5 {
		early.send(fmt.Sprint("early/", k), "x", 1, true)
	}
	l, proxy := cuttableLink(t, m, "both")
	b.bridge(t, all(a, "both"))
	a.bridge(t, l)
	b.bridge(t, all(a, "both"), all(m, "both"))
	c := listen(t, a, b, m)
	change := func(round string) {
		for i := range c.clients {
			for k := range 6 {
				topic := fmt.Sprintf("%s/%d/%d", round, i, k)
				c.clients[i].send(topic, "old", byte(1+k%2), true)
				if k%3 > 0 {
					c.clients[i].send(topic, []string{"", "", "new"}[k%3], byte(1+k%2), true)
				}
			}
		}
	}
	change("calm")
	proxy.Refuse()
	proxy.Cut()
	change("down")
	c.clients[2].send("early/1", "", 1, true)
	proxy.Pass()
	a.connected(t)
	var want []string
	for _, round := range []string{"calm", "down"} {
		for i := range c.clients {
			for k := range 6 {
				if text := []string{"old", "", "new"}[k%3]; text != "" {
					want = append(want, fmt.Sprintf("%s/%d/%d=%s/%dr", round, i, k, text, 1+k%2))
				}
			}
		}
	}
	for _, k := range []int{0, 2, 3, 4} {
		want = append(want, fmt.Sprintf("early/%d=x/1r", k))
	}
	for i, cl := range c.clients {
		brokertest.WaitFor(t, "all has come to "+c.nodes[i].name, func() bool {
			n := 0
			for _, p := range cl.list() {
				if !strings.HasPrefix(p.Topic, "early/") {
					n++
				}
			}
			return n >= 2*3*(6+4)
		})
	}
	for i, cl := range c.clients {
		cl.send(fmt.Sprint("zz/", i), "last", 2, true)
		want = append(want, fmt.Sprintf("zz/%d=last/2r", i))
	}
	slices.Sort(want)
	for i, n := range c.nodes {
		brokertest.WaitFor(t, "the last has come to "+n.name, func() bool {
			return len(slices.DeleteFunc(c.clients[i].list(), func(p *paho.Publish) bool { return !strings.HasPrefix(p.Topic, "zz/") })) == 3
		})
		if got := retainedAt(t, n, want[len(want)-1]); !slices.Equal(got, want) {
			t.Errorf("%s retains\n%q, want\n%q", n.name, got, want)
		}
	}
}

// TestExchange bridges brokers with different retained messages for one topic: they are exchanged
// once, and do not oscillate.
func TestExchange(t *testing.T) {
	t.Parallel()
	a, b := signalbox(t, "A"), signalbox(t, "B")
	ca, cb := join(t, a, "#"), join(t, b, "#")
	ca.send("t", "a", 1, true)
	cb.send("t", "b", 1, true)
	a.bridge(t, all(b, "both"))
	b.bridge(t, all(a, "both"))
	ca.want("exchanged at A", "t=a/1r", "t=b/1r")
	cb.want("exchanged at B", "t=a/1r", "t=b/1r")
	ca.send("t", "c", 1, true)
	ca.want("the same at A", "t=a/1r", "t=b/1r", "t=c/1r")
	cb.want("the same at B", "t=a/1r", "t=b/1r", "t=c/1r")
}

// TestPrefixCircle has a loop with prefixes that make topics longer each time: a message passes
// it once.
func TestPrefixCircle(t *testing.T) {
	t.Parallel()
	a, b, x := signalbox(t, "A"), signalbox(t, "B"), signalbox(t, "X")
	m, _ := mosquitto(t)
	longer := func(to *node) link {
		return link{to: to, mappings: []map[string]any{
			{"mqttTopics": []string{"#"}, "remotePrefix": "a/"},
			{"mqttTopics": []string{"#"}, "localPrefix": "a/", "remotePrefix": "b/"},
			{"mqttTopics": []string{"#"}, "localPrefix": "b/", "direction": "in"},
		}}
	}
	a.bridge(t, longer(b), longer(m))
	b.bridge(t, longer(x), longer(m))
	x.bridge(t, longer(a), longer(m))
	c := listen(t, a, b, x, m)
	for i, client := range c.clients {
		client.send(fmt.Sprint("a/", i), "x", 2, false)
	}
	for i, client := range c.clients {
		own := fmt.Sprintf("a/%d=x/2", i)
		brokertest.WaitFor(t, own+" has come", func() bool { return slices.Contains(client.texts(), own) })
	}
	last := c.awaitQuiet()
	for i, client := range c.clients {
		if n := len(client.list()); n > 400 {
			t.Errorf("%d messages came to %s", n, c.nodes[i].name)
		}
		seen := map[string]int{}
		for _, text := range client.texts() {
			seen[text]++
		}
		if own := fmt.Sprintf("a/%d=x/2", i); seen[own] != 1 {
			t.Errorf("%s came %d times back to %s", own, seen[own]-1, c.nodes[i].name)
		}
	}
	t.Logf("%d messages in all", last)
}
