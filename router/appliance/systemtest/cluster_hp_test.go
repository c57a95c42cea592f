package systemtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"signalbox/scripts/suite"
)

// TestClusterHP has clients publish and read on a cluster of which every node
// serves clients: messages cross in all qualities of service, and what is retained
// is retained everywhere.
func TestClusterHP(t *testing.T) {
	t.Parallel()
	c := gatherApart(t, 3, steady)
	c.mode = "hp"
	c.create(t)
	tr := newTraffic(t, c.machines[0], c.machines...)
	var shared []*reader
	for _, m := range c.machines {
		here := clientAddresses(m)
		tr.read(t, fmt.Sprint("reader-1-", m.id), "traffic/#", 1, here)
		tr.read(t, fmt.Sprint("reader-2-", m.id), "traffic/#", 2, here)
		shared = append(shared, tr.read(t, fmt.Sprint("shared-", m.id), "$share/g/traffic/#", 2, here))
	}
	for _, qos := range []byte{1, 2} {
		tr.roam(t, fmt.Sprint("roamer-", qos), "traffic/#", qos, clientAddresses(c.machines...))
	}
	tr.publishAtEach(c.machines)
	tr.more(t, 1000)
	c.crossUnsafely(t)
	c.retainEverywhere(t)
	c.wander(t)
	c.askTopics(t)
	tr.judge(t)
	tr.wantShared(t, shared)
}

// TestCampaignClusterHPFaults is TestClusterHP with nodes that fail, and come back before
// the others give up what waits for them.
func TestCampaignClusterHPFaults(t *testing.T) {
	t.Parallel()
	s := besiege(t, "hp", 3)
	tr := newTraffic(t, s.machines[0], s.machines...)
	tr.again = true
	for _, m := range s.machines {
		here := clientAddresses(m)
		tr.read(t, fmt.Sprint("reader-1-", m.id), "traffic/#", 1, here)
		tr.read(t, fmt.Sprint("reader-2-", m.id), "traffic/#", 2, here)
	}
	for _, qos := range []byte{1, 2} {
		tr.roam(t, fmt.Sprint("roamer-", qos), "traffic/#", qos, clientAddresses(s.machines...))
	}
	tr.publishAtEach(s.machines)
	tr.more(t, 100)
	s.endure(t, tr.heard(hpSieges(t, s.random))...)
	s.judge(t)
	tr.judge(t)
}

// publishAtEach has clients publish that are served by one machine each.
func (tr *traffic) publishAtEach(machines []*machine) {
	for _, m := range machines {
		for _, qos := range []byte{1, 2} {
			tr.publish(qos, false, clientAddresses(m))
		}
	}
}

// hpSieges are the faults that TestCampaignClusterHPFaults has happen.
func hpSieges(t *testing.T, random *rand.Rand) []fault {
	t.Helper()
	if os.Getenv("SIGNALBOX_TEST_SIEGES") == "" {
		return []fault{faults[0], faults[2], faults[8], faults[9]}
	}
	return slices.DeleteFunc(sieges(t, random), func(f fault) bool { // sessions are their node's own
		return f.name == "leader without its data" || f.name == "follower without its data"
	})
}

// wantShared makes sure that each message came to one member of a shared
// subscription.
func (tr *traffic) wantShared(t testing.TB, members []*reader) {
	t.Helper()
	all, lost, doubled, got := tr.promises(), 0, 0, make([]int, len(members))
	for _, p := range all {
		for i := range p.done {
			times := 0
			for n, r := range members {
				r.mu.Lock()
				times += r.came[note{p.publisher, i}]
				got[n] += r.came[note{p.publisher, i}]
				r.mu.Unlock()
			}
			if times == 0 {
				lost++
			} else if times > 1 {
				doubled++
			}
		}
	}
	if lost+doubled > 0 || slices.Contains(got, 0) {
		t.Errorf("the members of a shared subscription got %v messages; %d nobody, %d more than once", got, lost, doubled)
	}
	t.Logf("the members of a shared subscription got %v messages", got)
}

// crossUnsafely has messages of QoS 0 go from each node to each other one, as soon
// as the subscription is answered.
func (c *club) crossUnsafely(t *testing.T) {
	t.Helper()
	for _, from := range c.machines {
		for _, to := range c.machines {
			topic := fmt.Sprintf("cross/%d/%d", from.id, to.id)
			reads := visit(t, to, "reads-"+topic)
			reads.wantSubscribed(t, topic, 0)
			writes := visit(t, from, "writes-"+topic)
			for i := range 20 {
				writes.put(t, topic, fmt.Sprint(i), 0, false)
			}
			for i := range 20 {
				if m := reads.get(t); string(m.Topic) != topic || string(m.Payload) != fmt.Sprint(i) || m.QoS != 0 {
					t.Fatalf("%s: got %s %q, QoS %d, want %d", topic, m.Topic, m.Payload, m.QoS, i)
				}
			}
		}
	}
}

// retainEverywhere has messages be retained and cleared through each node.
func (c *club) retainEverywhere(t *testing.T) {
	t.Helper()
	for _, m := range c.machines {
		writer, topic := visit(t, m, fmt.Sprint("keeps-", m.id)), fmt.Sprint("cross/kept/", m.id)
		writer.put(t, topic, "first", 1, true)
		writer.put(t, topic, "second", 1, true)
		for _, other := range c.machines {
			wantKeptAt(t, other, topic, "second")
		}
		writer.put(t, topic, "", 1, true)
		for _, other := range c.machines {
			wantKeptAt(t, other, topic, "")
		}
	}
	for _, m := range c.machines { // all set the same one
		visit(t, m, fmt.Sprint("keeps-too-", m.id)).put(t, "cross/kept/all", fmt.Sprint(m.id), 1, true)
	}
	suite.WaitFor(t, "all nodes retain the same", func() bool {
		want := retainedAt(t, c.machines[0], "cross/kept/all")
		return want != "" && !slices.ContainsFunc(c.machines, func(m *machine) bool { return retainedAt(t, m, "cross/kept/all") != want })
	})
}

// wantKeptAt waits until a machine retains a payload for a topic.
func wantKeptAt(t testing.TB, m *machine, topic, want string) {
	t.Helper()
	suite.WaitFor(t, fmt.Sprintf("node %d retains %q for %s", m.id, want, topic), func() bool { return retainedAt(t, m, topic) == want })
}

// askTopics asks for the topics of all nodes, and of each by its number, through
// each node.
func (c *club) askTopics(t *testing.T) {
	t.Helper()
	for _, m := range c.machines {
		at := c.console.inProject("/brokers/" + c.brokers[m.id] + "/topictree")
		var trees []json.RawMessage
		if text := c.console.text(t, at+"?count=1"); json.Unmarshal([]byte(text), &trees) != nil || len(trees) != len(c.machines) {
			t.Errorf("through node %d: got %s, want a tree for each node", m.id, text)
		}
		c.console.must(t, "PUT", at+"/ttl", object{"ttl_sec": 1000 + m.id}, nil)
		c.console.must(t, "PUT", at+"/ttl?nodeid=2", object{"ttl_sec": 2000 + m.id}, nil)
		var ttls struct{ TTLs []int }
		c.console.must(t, "GET", at+"/ttl", nil, &ttls)
		if want := []int{1000 + m.id, 2000 + m.id, 1000 + m.id}; !slices.Equal(ttls.TTLs, want) {
			t.Errorf("through node %d: got times to live %v, want %v", m.id, ttls.TTLs, want)
		}
		for _, other := range c.machines {
			var one struct {
				TTL *int `json:"ttl_sec"`
			}
			c.console.must(t, "GET", fmt.Sprint(at, "/ttl?nodeid=", other.id), nil, &one)
			if one.TTL == nil || *one.TTL != ttls.TTLs[other.id-1] {
				t.Errorf("node %d through node %d: got %+v, want %d", other.id, m.id, one, ttls.TTLs[other.id-1])
			}
			var tree map[string]json.RawMessage
			c.console.must(t, "GET", fmt.Sprint(at, "?count=1&nodeid=", other.id), nil, &tree)
		}
		wantCode(t, c.console, "GET", at+"?nodeid=9", nil, 404, "NOT_FOUND")
	}
}
