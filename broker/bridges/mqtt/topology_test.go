package mqtt_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

var topologies = flag.Int("topologies", 8, "how many topologies TestCampaignTopology tests")

// edge sends topics of one broker to another.
type edge struct {
	from, to int
	filter   string
}

// connection is a connection between two brokers of a topology.
type connection struct {
	owner, to int
	link      link
	proxy     *brokertest.Proxy
}

// topology is a random topology of brokers.
type topology struct {
	*network
	random   *rand.Rand
	edges    []edge
	passages []*connection
	want     []map[string]span // by broker: how often each message must arrive
}

// span bounds how often a message may arrive.
type span struct{ least, most int }

// Topics of a topology: each filter is for one of them, or for all.
var topologyTopics = []string{"t", "u"}

// newTopology starts brokers and bridges them at random.
func newTopology(t *testing.T, random *rand.Rand) *topology {
	m := &topology{random: random}
	var nodes []*node
	boxes := 2 + m.random.IntN(3)
	for i := range boxes {
		nodes = append(nodes, signalbox(t, fmt.Sprint("S", i)))
	}
	for i := range m.random.IntN(3) {
		n, _ := mosquitto(t)
		n.name = fmt.Sprint("M", i)
		nodes = append(nodes, n)
	}
	m.network = listen(t, nodes...)
	for range nodes {
		m.want = append(m.want, map[string]span{})
	}
	for owner := range boxes {
		for to := range nodes {
			m.join(owner, to)
		}
	}
	m.configure()
	for i := range boxes {
		if len(m.links(i)) > 0 {
			nodes[i].connected(t)
		}
	}
	return m
}

// join may bridge a broker to another one. Two connections to the same signalbox may have the
// same topics.
func (m *topology) join(owner, to int) {
	many := 0
	if owner != to && m.random.IntN(10) < 6 {
		many = 1
		if m.nodes[to].embedded != nil && m.random.IntN(4) == 0 {
			many = 2
		}
	}
	for range many {
		proxy := brokertest.NewProxy(m.t, m.nodes[to].addr)
		p := &connection{owner: owner, to: to, proxy: proxy, link: link{to: m.nodes[to], addr: proxy.Addr}}
		for _, topic := range topologyTopics {
			direction := []string{"out", "in", "both", "both", ""}[m.random.IntN(5)]
			if direction == "" {
				continue
			}
			filter := topic + "/#"
			p.link.mappings = append(p.link.mappings, map[string]any{"name": topic, "mqttTopics": []string{filter}, "direction": direction})
			if direction != "in" {
				m.edges = append(m.edges, edge{owner, to, topic})
			}
			if direction != "out" {
				m.edges = append(m.edges, edge{to, owner, topic})
			}
		}
		if len(p.link.mappings) > 0 {
			m.passages = append(m.passages, p)
		}
	}
}

// links returns the connections of a broker.
func (m *topology) links(owner int) (list []link) {
	for _, p := range m.passages {
		if p.owner == owner {
			list = append(list, p.link)
		}
	}
	return list
}

func (m *topology) configure() {
	m.t.Helper()
	for i, n := range m.nodes {
		if l := m.links(i); len(l) > 0 {
			n.configure(m.t, l...)
		}
	}
}

// reach returns the brokers that messages of one can reach.
func (m *topology) reach(from int, topic string) map[int]bool {
	found := map[int]bool{from: true}
	for more := true; more; {
		more = false
		for _, e := range m.edges {
			if e.filter == topic && found[e.from] && !found[e.to] {
				found[e.to], more = true, true
			}
		}
	}
	return found
}

// senders counts the brokers that send messages to one.
func (m *topology) senders(to int, topic string, found map[int]bool) int {
	from := map[int]bool{}
	for _, e := range m.edges {
		if e.filter == topic && e.to == to && found[e.from] {
			from[e.from] = true
		}
	}
	return len(from)
}

// expect records how often a message must arrive at a broker: once at a signalbox, if it was
// published at one.
func (m *topology) expect(at int, topic, text string) {
	found := m.reach(at, topic)
	takers := 0
	for _, e := range m.edges {
		if e.from == at && e.filter == topic {
			takers++
		}
	}
	for to := range found {
		s := span{1, 1}
		if to != at && m.nodes[to].embedded == nil {
			s.most = m.senders(to, topic, found)
		}
		if to != at && m.nodes[at].embedded == nil {
			s.most *= takers
			if slices.Contains(m.edges, edge{at, to, topic}) && m.nodes[to].embedded != nil {
				s.most = 1
			}
		}
		m.want[to][text] = s
	}
}

// publish publishes some messages at random brokers.
func (m *topology) publish(round string, many int, least byte) {
	for k := range many {
		at, topic := m.random.IntN(len(m.nodes)), topologyTopics[m.random.IntN(len(topologyTopics))]
		qos, retain := least+byte(m.random.IntN(int(3-least))), m.random.IntN(4) == 0
		name := fmt.Sprintf("%s/%s/%s/%d", topic, round, m.nodes[at].name, k)
		text := fmt.Sprintf("%s=x/%d", name, qos)
		if retain {
			text += "r"
		}
		m.clients[at].publish(&paho.Publish{Topic: name, Payload: []byte("x"), QoS: qos, Retain: retain})
		m.expect(at, topic, text)
	}
}

// counts returns how often a client received each message.
func counts(c *client) map[string]int {
	n := map[string]int{}
	for _, text := range c.texts() {
		n[text]++
	}
	return n
}

// checkAll waits until all messages have arrived and nothing more does, and compares.
func (m *topology) checkAll() {
	m.t.Helper()
	m.complete()
	m.awaitQuiet()
	for i, c := range m.clients {
		for text, n := range counts(c) {
			if s := m.want[i][text]; n < s.least || n > s.most {
				m.t.Errorf("%s came %d times to %s, want %+v", text, n, m.nodes[i].name, s)
			}
		}
	}
}

// complete waits until all messages have arrived.
func (m *topology) complete() {
	m.t.Helper()
	for i, c := range m.clients {
		brokertest.WaitFor(m.t, "all has come to "+m.nodes[i].name, func() bool { return len(m.missing(i, c)) == 0 })
	}
}

func (m *topology) missing(i int, c *client) (list []string) {
	got := counts(c)
	for text, s := range m.want[i] {
		if got[text] < s.least {
			list = append(list, text)
		}
	}
	return list
}

// String describes the bridges.
func (m *topology) String() string {
	var b strings.Builder
	for _, p := range m.passages {
		fmt.Fprintf(&b, "%s-%s", m.nodes[p.owner].name, m.nodes[p.to].name)
		for _, t := range p.link.mappings {
			fmt.Fprintf(&b, " %s:%s", t["name"], t["direction"])
		}
		b.WriteString("; ")
	}
	return b.String()
}

// injectFault injects a fault.
func (m *topology) injectFault() {
	if len(m.passages) == 0 {
		return
	}
	p := m.passages[m.random.IntN(len(m.passages))]
	switch m.random.IntN(6) {
	case 0:
		p.proxy.Cut()
	case 1:
		p.proxy.CutBefore(brokertest.Pubrec)
	case 2:
		p.proxy.CutAfter(brokertest.Publish)
	case 3:
		p.proxy.CutBefore(brokertest.Pubcomp)
	case 4:
		p.proxy.Refuse()
		p.proxy.Cut()
	case 5: // messages in flight on a lost connection would be sent again
		for _, other := range m.passages {
			other.proxy.Pass()
		}
		for i := range m.nodes {
			if len(m.links(i)) > 0 {
				m.nodes[i].connected(m.t)
			}
		}
		m.complete()
		p.link.options = map[string]any{"batchSize": 1 + m.random.IntN(256)}
		m.nodes[p.owner].configure(m.t, m.links(p.owner)...)
	}
}

// TestCampaignTopology publishes at random brokers of a random topology, while links are cut, stay
// down for a while and are configured again: each message reaches every broker that it can reach,
// and exactly once if that is possible.
func TestCampaignTopology(t *testing.T) {
	t.Parallel()
	for i := range *topologies {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			m := newTopology(t, suite.Rand(t))
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(m)
					for i, c := range m.clients {
						t.Logf("missing at %s: %q", m.nodes[i].name, m.missing(i, c))
					}
				}
			})
			m.publish("calm", 40, 0)
			m.checkAll()
			for round := range 10 {
				m.injectFault()
				m.publish(fmt.Sprint("rough", round), 8, 2)
			}
			for _, p := range m.passages {
				p.proxy.Pass()
			}
			m.checkAll()
		})
	}
}
