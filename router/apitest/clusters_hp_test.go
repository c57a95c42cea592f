package apitest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/router/apitest"
)

// accesses are the two accesses to a site's broker: its own service, and the connection
// that the first site has.
func (s *site) accesses(first *site) map[string]struct {
	api *apitest.API
	id  string
} {
	return map[string]struct {
		api *apitest.API
		id  string
	}{"itself": {s.API, s.Embedded}, "a connection": {first.API, s.at}}
}

// TestTopicsOfAnHPCluster requests the topics and the TTL of nodes, operations 51 to
// 53: at each node, by its own service and by a connection.
func TestTopicsOfAnHPCluster(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3)
	first := all[0]
	path := formCluster(t, all, "hp")
	first.Root.Get(first.At("/topictree")).Want(200) // the first request starts the trees
	for _, s := range all {
		s.Root.Post(s.At("/messages"), object{"topic": fmt.Sprint("node/", s.id), "payload": "x", "qos": 1}).Want(204)
	}
	for i, s := range all {
		for name, way := range s.accesses(first) {
			t.Run(fmt.Sprintf("node %d by %s", s.id, name), func(t *testing.T) {
				c, at := way.api.Token("viewer"), way.api.BrokerAt(way.id, "/topictree")
				wantTrees(t, c, at)
				wantTTLs(t, c, at+"/ttl", 1000*(i+1)) // long enough that no topic expires
			})
		}
	}
	last := all[2]
	last.Stop()
	for _, answer := range []*apitest.Response{first.Root.Get(first.At("/topictree")), first.Root.Get(first.At("/topictree/ttl")),
		first.Root.Get(first.At("/topictree?nodeid=3")), first.Root.Put(first.At("/topictree/ttl"), object{"ttl_sec": 9})} {
		if e := answer.WantError(503, "BROKER_UNAVAILABLE").Error(); !strings.HasPrefix(e.Message, "node 3: ") {
			t.Errorf("the node is not named: %q", e.Message)
		}
	}
	first.Root.Put(first.At("/topictree/ttl?nodeid=2"), object{"ttl_sec": 22}).Want(204)
	if got := strings.TrimSpace(string(all[1].Root.Get(all[1].At("/topictree/ttl?nodeid=2")).Want(200).Body)); got != `{"ttl_sec":22}` {
		t.Errorf("TTL of node 2: %s", got)
	}
	first.Root.Delete(path).Want(200)
	for _, s := range all[:2] {
		waitFor(t, "the broker is alone", func() bool { return brokerRecord(s.API, s.Embedded).ClusterMode == nil })
		s.Root.Get(s.At("/topictree?nodeid=1")).WantError(400, "INVALID_REQUEST")
		wantTTL(t, s.Root, s.At(""), map[int]int{1: 3001, 2: 22}[s.id])
	}
}

// wantTrees requests the trees of three nodes, each with one topic.
func wantTrees(t *testing.T, c *apitest.Caller, at string) {
	t.Helper()
	var trees []broker.TopicTree
	c.Get(at + "?count=5").Want(200).Decode(&trees)
	var got [][]string
	for _, tree := range trees {
		got = append(got, tree.PublishTopics.Topics)
	}
	if diff := cmp.Diff([][]string{{"node/1"}, {"node/2"}, {"node/3"}}, got); diff != "" {
		t.Errorf("trees (-want +got):\n%s", diff)
	}
	for id := 1; id <= 3; id++ {
		var tree broker.TopicTree
		c.Get(at + fmt.Sprint("?nodeid=", id)).Want(200).Decode(&tree)
		if got, want := tree.PublishTopics, trees[id-1].PublishTopics; cmp.Diff(want, got) != "" {
			t.Errorf("tree of node %d: %+v, want %+v", id, got, want)
		}
	}
	if e := c.Get(at+"?nodeid=4").WantError(404, "NOT_FOUND").Error(); !strings.Contains(e.Message, "node 4") {
		t.Errorf("the node is not named: %q", e.Message)
	}
}

// wantTTLs sets the TTL of all nodes, and then others of single ones.
func wantTTLs(t *testing.T, c *apitest.Caller, at string, seconds int) {
	t.Helper()
	want := func(query, want string) {
		t.Helper()
		if got := strings.TrimSpace(string(c.Get(at + query).Want(200).Body)); got != want {
			t.Errorf("%q: got %s, want %s", query, got, want)
		}
	}
	c.Put(at, object{"ttl_sec": seconds}).Want(204)
	want("", fmt.Sprintf(`{"ttls":[%d,%d,%d]}`, seconds, seconds, seconds))
	for id := 1; id <= 3; id++ {
		c.Put(at+fmt.Sprint("?nodeid=", id), object{"ttl_sec": seconds + id}).Want(204)
		want(fmt.Sprint("?nodeid=", id), fmt.Sprintf(`{"ttl_sec":%d}`, seconds+id))
	}
	want("", fmt.Sprintf(`{"ttls":[%d,%d,%d]}`, seconds+1, seconds+2, seconds+3))
	c.Put(at+"?nodeid=4", object{"ttl_sec": 1}).WantError(404, "NOT_FOUND")
}

// TestHPCluster publishes over the API to the clients of other nodes.
func TestHPCluster(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3)
	formCluster(t, all, "hp")
	for i, s := range all {
		if r := brokerRecord(s.API, s.Embedded); !r.HA || r.ClusterMode == nil || *r.ClusterMode != "hp" {
			t.Errorf("node %d of itself: ha %t, clustermode %v", s.id, r.HA, r.ClusterMode)
		}
		d := join(t, s.API, 5, fmt.Sprint("d", s.id), asAdmin)
		topic := fmt.Sprint("plant/", s.id)
		d.SubscribeTo(filter(topic, 1))
		far := all[(i+1)%3]
		s.waitRoute(t, far)
		far.Root.Post(far.At("/messages"), object{"topic": topic, "payload": "x", "qos": 1, "retain": true}).Want(204)
		if m := d.WantMessage(topic, "x"); m.QoS != 1 {
			t.Errorf("node %d: got QoS %d", s.id, m.QoS)
		}
	}
	for _, s := range all {
		waitFor(t, "what is retained anywhere", func() bool {
			var kept []struct{ Topic string }
			s.Root.Get(s.At("/messages/retained?filter=plant/%2B")).Want(200).Decode(&kept)
			return len(kept) == 3
		})
	}
	for i, s := range all {
		wantLinks(t, s, all[(i+1)%3], all[(i+2)%3])
	}
}

// link returns the name of a metric that other nodes have of their link to a site.
func (s *site) link(name string) string {
	return fmt.Sprintf(`signalbox_cluster_link_%s{node="%d"}`, name, s.id)
}

// waitRoute waits until another node knows a subscription of the site: SUBACK waits for
// that, but not for ever.
func (s *site) waitRoute(t *testing.T, at *site) {
	t.Helper()
	waitFor(t, "the subscription to be known to the other node", func() bool { return metrics(at.API)[s.link("routes")] == "1" })
}

// wantLinks checks the metrics of a node's links: it published one message, which is
// retained and so goes to all nodes, as did the others; on each there is one
// subscriber.
func wantLinks(t *testing.T, s *site, others ...*site) {
	t.Helper()
	var got map[string]string
	waitFor(t, "the others to have acknowledged what was sent, and to have told their subscriptions", func() bool {
		got = metrics(s.API)
		return !slices.ContainsFunc(others, func(other *site) bool {
			return got[other.link("up")] != "1" || got[other.link("waiting_messages")] != "0" || got[other.link("routes")] != "1"
		})
	})
	for name, want := range map[string]string{
		"up": "1", "routes": "1", "sent_messages_total": "1", "received_messages_total": "1", "repeated_messages_total": "0",
		"waiting_messages": "0", "waiting_bytes": "0", "dropped_messages_total": "0", "refused_messages_total": "0", "given_up_messages_total": "0",
	} {
		for _, other := range others {
			if series := other.link(name); got[series] != want {
				t.Errorf("node %d: %s is %q, want %q", s.id, series, got[series], want)
			}
		}
	}
	for _, other := range others {
		for _, name := range []string{"sent_bytes_total", "received_bytes_total"} {
			if v := got[other.link(name)]; v == "" || v == "0" {
				t.Errorf("node %d: %s is %q", s.id, name, v)
			}
		}
	}
}

// TestSessionThatMoves is counted at both nodes.
func TestSessionThatMoves(t *testing.T) {
	t.Parallel()
	all := startSites(t, 2)
	formCluster(t, all, "hp")
	from, to := all[0], all[1]
	d := join(t, from.API, 5, "mover", asAdmin, persistent)
	d.SubscribeTo(filter("plant/#", 1))
	from.waitRoute(t, to)
	d.Drop()
	waitFor(t, "the session waits", func() bool { return !detail(from.API, "mover").Connected })
	to.Root.Post(to.At("/messages"), object{"topic": "plant/7", "payload": "x", "qos": 1}).Want(204)
	join(t, to.API, 5, "mover", asAdmin, persistent).WantMessage("plant/7", "x")
	if !detail(to.API, "mover").Connected {
		t.Error("the client is not connected where it is")
	}
	waitFor(t, "the session has gone", func() bool {
		gone, come := metrics(from.API), metrics(to.API)
		return gone["signalbox_cluster_sessions_given_total"] == "1" && come["signalbox_cluster_sessions_taken_total"] == "1" &&
			come["signalbox_cluster_sessions_messages_total"] == "1" && gone["signalbox_cluster_sessions_under_way"] == "0"
	})
	from.Root.Get(from.At("/client-inspect/detail?clientid=mover")).WantError(404, "NOT_FOUND")
}
