package systemtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestClusterHP publishes and subscribes on a cluster all of whose nodes serve clients:
// messages are forwarded at each QoS, and retained messages are retained on all nodes.
func TestClusterHP(t *testing.T) {
	t.Parallel()
	c := startExternalCluster(t, 3, withSteadyLeader)
	c.mode = "hp"
	c.create(t)
	tr := newTraffic(t, c.machines[0], c.machines...)
	var shared []*subscriber
	for _, m := range c.machines {
		here := clientAddresses(m)
		tr.subscribe(t, fmt.Sprint("reader-1-", m.id), "traffic/#", 1, here)
		tr.subscribe(t, fmt.Sprint("reader-2-", m.id), "traffic/#", 2, here)
		shared = append(shared, tr.subscribe(t, fmt.Sprint("shared-", m.id), "$share/g/traffic/#", 2, here))
	}
	for _, qos := range []byte{1, 2} {
		tr.roam(t, fmt.Sprint("roamer-", qos), "traffic/#", qos, clientAddresses(c.machines...))
	}
	tr.publishAtEach(c.machines)
	tr.awaitAcknowledged(t, 1000)
	c.checkQoS0(t)
	c.checkRetained(t)
	c.checkRoaming(t)
	c.checkTopicTrees(t)
	tr.check(t)
	tr.wantShared(t, shared)
}

// TestCampaignClusterHPFaults is TestClusterHP with nodes that fail, and restart before or after
// the others store on their disks what waits for them.
func TestCampaignClusterHPFaults(t *testing.T) {
	t.Parallel()
	s := startFaultCampaign(t, "hp", 3)
	tr := newTraffic(t, s.machines[0], s.machines...)
	tr.allowDuplicates = true
	for _, m := range s.machines {
		here := clientAddresses(m)
		tr.subscribe(t, fmt.Sprint("reader-1-", m.id), "traffic/#", 1, here)
		tr.subscribe(t, fmt.Sprint("reader-2-", m.id), "traffic/#", 2, here)
	}
	for _, qos := range []byte{1, 2} {
		tr.roam(t, fmt.Sprint("roamer-", qos), "traffic/#", qos, clientAddresses(s.machines...))
	}
	tr.publishAtEach(s.machines)
	tr.awaitAcknowledged(t, 100)
	s.runFaults(t, tr.checkingTraffic(hpFaults(t, s.random))...)
	s.check(t)
	tr.check(t)
}

// publishAtEach starts publishers that are served by one machine each.
func (tr *traffic) publishAtEach(machines []*machine) {
	for _, m := range machines {
		for _, qos := range []byte{1, 2} {
			tr.publish(qos, false, clientAddresses(m))
		}
	}
}

// hpFaults returns the faults of TestCampaignClusterHPFaults.
func hpFaults(t *testing.T, random *rand.Rand) []fault {
	t.Helper()
	if os.Getenv("SIGNALBOX_TEST_FAULT_ROUNDS") == "" {
		return []fault{faults[0], faults[2], faults[8], faults[9], away}
	}
	return slices.DeleteFunc(campaignFaults(t, random, append(faults, away)), func(f fault) bool { // sessions are local to their node
		return f.losesData
	})
}

// away is a node that is killed for so long that the others store what waits for it, and one of
// these is killed meanwhile.
var away = fault{name: "follower killed for long", happen: func(t testing.TB, s *faultCampaign) time.Duration {
	m, others := s.victim(t, false)
	m.run.Kill()
	took := s.recovery(t, others...)
	for _, other := range others {
		suite.WaitFor(t, fmt.Sprintf("node %d stores messages for node %d", other.id, m.id), func() bool {
			status, text, err := other.api.do(t.Context(), "GET", "/metrics", nil)
			stored := regexp.MustCompile(fmt.Sprintf(`(?m)^signalbox_cluster_link_stored_messages{node="%d"} [1-9]`, m.id))
			return err == nil && status == 200 && stored.Match(text)
		})
	}
	s.awaitAcknowledged(t, 20)
	others[0].run.Kill()
	s.restart(t, others[0])
	s.awaitAcknowledged(t, 20)
	s.restart(t, m)
	return took
}}

// wantShared checks that each message was delivered to one member of a shared
// subscription.
func (tr *traffic) wantShared(t testing.TB, members []*subscriber) {
	t.Helper()
	all, lost, doubled, got := tr.progress(), 0, 0, make([]int, len(members))
	for _, p := range all {
		for i := range p.acknowledged {
			times := 0
			for n, r := range members {
				r.mu.Lock()
				times += r.deliveries[message{p.publisher, i}]
				got[n] += r.deliveries[message{p.publisher, i}]
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
		t.Errorf("the members of a shared subscription got %v messages; %d reached none, %d more than one", got, lost, doubled)
	}
	t.Logf("the members of a shared subscription got %v messages", got)
}

// checkQoS0 sends messages of QoS 0 from each node to each other one, as soon as the
// subscription is acknowledged.
func (c *cluster) checkQoS0(t *testing.T) {
	t.Helper()
	for _, from := range c.machines {
		for _, to := range c.machines {
			topic := fmt.Sprintf("cross/%d/%d", from.id, to.id)
			reads := connectClean(t, to, "reads-"+topic)
			reads.wantSubscribed(t, topic, 0)
			writes := connectClean(t, from, "writes-"+topic)
			for i := range 20 {
				writes.publish(t, topic, fmt.Sprint(i), 0, false)
			}
			for i := range 20 {
				if m := reads.receive(t); string(m.Topic) != topic || string(m.Payload) != fmt.Sprint(i) || m.QoS != 0 {
					t.Fatalf("%s: got %s %q, QoS %d, want %d", topic, m.Topic, m.Payload, m.QoS, i)
				}
			}
		}
	}
}

// checkRetained sets and clears retained messages through each node.
func (c *cluster) checkRetained(t *testing.T) {
	t.Helper()
	for _, m := range c.machines {
		writer, topic := connectClean(t, m, fmt.Sprint("keeps-", m.id)), fmt.Sprint("cross/kept/", m.id)
		writer.publish(t, topic, "first", 1, true)
		writer.publish(t, topic, "second", 1, true)
		for _, other := range c.machines {
			awaitRetained(t, other, topic, "second")
		}
		writer.publish(t, topic, "", 1, true)
		for _, other := range c.machines {
			awaitRetained(t, other, topic, "")
		}
	}
	for _, m := range c.machines { // all set the same one
		connectClean(t, m, fmt.Sprint("keeps-too-", m.id)).publish(t, "cross/kept/all", fmt.Sprint(m.id), 1, true)
	}
	suite.WaitFor(t, "all nodes retain the same", func() bool {
		want := retainedAt(t, c.machines[0], "cross/kept/all")
		return want != "" && !slices.ContainsFunc(c.machines, func(m *machine) bool { return retainedAt(t, m, "cross/kept/all") != want })
	})
}

// awaitRetained waits until a machine retains a payload for a topic.
func awaitRetained(t testing.TB, m *machine, topic, want string) {
	t.Helper()
	suite.WaitFor(t, fmt.Sprintf("node %d retains %q for %s", m.id, want, topic), func() bool { return retainedAt(t, m, topic) == want })
}

// checkTopicTrees requests the topic trees of all nodes, and of each by its number,
// through each node.
func (c *cluster) checkTopicTrees(t *testing.T) {
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
