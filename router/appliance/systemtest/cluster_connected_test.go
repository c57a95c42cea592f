package systemtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// TestClusterRunsConnectedStreams has a cluster that shares the data of the platform run a stream and a bridge of a
// connected broker. They were made before the cluster; one node at a time takes their messages, and when that is killed
// another one continues: no acknowledged message is lost, and until then none is delivered twice. What the killed node had
// not delivered is delivered when it is back.
func TestClusterRunsConnectedStreams(t *testing.T) {
	t.Parallel()
	const phase = 400 // messages
	c, source, at := startConnected(t)
	first := c.machines[0]
	first.api.must(t, "POST", at+"/streams", object{"streamname": "before", "sourcetopic": "plant/#", "persist": true}, nil)

	target := startHTTPPeer(t)
	bridge, document := target.bridge()
	config := at + "/bridges/" + bridge + "/config"
	first.api.must(t, "PUT", config, document, nil)
	c.createShared(t)
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has the stream and the bridge", m.id), func() bool {
			return m.streamState(t, at, "before") == "active" && m.hasBridge(t, at, bridge)
		})
	}

	publishers := newPublishers(t, endpoint{address: source.Addr})
	suite.WaitFor(t, "messages come", func() bool { return target.count(t) >= phase })
	_, others := c.leading(t)
	others[0].change(t, "POST", at+"/streams", object{"streamname": "meanwhile", "sourcetopic": "plant/#", "persist": true, "active": false})
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has the new stream", m.id), func() bool { return m.streamState(t, at, "meanwhile") == "inactive" })
	}
	others[1].change(t, "PUT", at+"/streams", object{"streamname": "meanwhile", "active": true})
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has the change", m.id), func() bool { return m.streamState(t, at, "meanwhile") == "active" })
	}
	for _, m := range c.machines {
		if page := m.page(t, strings.NewReplacer("/api/projects/", "/ui/p/", "/brokers/", "/b/").Replace(at)+"/streams"); !strings.Contains(page, "meanwhile") {
			t.Errorf("the console of node %d does not show the stream: %s", m.id, page)
		}
		if n := m.stored(t, at, "before"); n < phase {
			t.Errorf("node %d reports that the stream has stored %d messages, want %d at least", m.id, n, phase)
		}
	}
	if twice := repeated(target.all(t)); twice > 0 {
		t.Errorf("%d messages were delivered twice, and no node has failed", twice)
	}

	leader, others := c.leading(t)
	came := target.count(t)
	leader.run.Kill()
	began, killed := target.count(t), time.Now()
	suite.WaitFor(t, "another node continues", func() bool { return target.count(t) > began })
	t.Logf("continued %v after the kill", since(killed))
	suite.WaitFor(t, "messages come", func() bool { return target.count(t) >= began+phase })
	others[0].change(t, "DELETE", at+"/streams?streamname=before", nil)
	leader.start(t)
	c.console = first.api // which has another address if it was the leader
	t.Logf("killed after %d deliveries, of %d acknowledged messages", came, publishers.acknowledged())
	suite.WaitFor(t, "the killed node shows that the stream was deleted meanwhile", func() bool { return leader.streamState(t, at, "before") == "absent" })
	last := publishers.finish(t, came+3*phase)
	suite.WaitFor(t, "all messages have come", func() bool { return len(missing(target.all(t), last)) == 0 })
	t.Logf("%d deliveries, %d of them repeated", target.count(t), repeated(target.all(t)))

	_, others = c.leading(t)
	gone := others[0]
	if gone == first { // which would have to leave through another node's console
		gone = others[1]
	}
	if status, answer := c.ask(t, "PUT", c.at("/leave"), gone.node(c.brokers[gone.id])); status != http.StatusNoContent {
		t.Fatalf("leave of node %d: %d %s", gone.id, status, answer)
	}
	suite.WaitFor(t, "what the node that has left keeps is switched off", func() bool {
		return gone.streamState(t, at, "meanwhile") == "inactive" && !gone.hasBridge(t, at, bridge)
	})
	if first.streamState(t, at, "meanwhile") != "active" || !first.hasBridge(t, at, bridge) {
		t.Error("the cluster does not go on with them")
	}
}

// TestClusterMovesConnectedBridge has a cluster that shares the data of the platform run a bridge that receives messages from
// another broker for a connected one. One node at a time is connected to that, until it is killed.
func TestClusterMovesConnectedBridge(t *testing.T) {
	t.Parallel()
	const phase = 400 // messages
	c, target, at := startConnected(t)
	c.createShared(t)
	arrivals := collect(t, endpoint{address: target.Addr})
	source := newMosquittoPeer(t, "in")
	bridge, document := source.bridge()
	_, others := c.leading(t)
	others[1].change(t, "PUT", at+"/bridges/"+bridge+"/config", document)
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d shows that the bridge is connected", m.id), func() bool {
			var list []bridgeStatus
			status, answer, err := m.api.do(t.Context(), "GET", at+"/bridges/"+bridge+"/status", nil)
			return err == nil && status == http.StatusOK && json.Unmarshal(answer, &list) == nil && len(list) == 1 && list[0].IsConnected
		})
	}
	publishers := newPublishers(t, source.entrance())
	suite.WaitFor(t, "messages come", func() bool { return arrivals.count(t) >= phase })
	if twice := repeated(arrivals.all(t)); twice > 0 {
		t.Errorf("%d messages came twice, and no node has failed", twice)
	}
	leader, _ := c.leading(t)
	leader.run.Kill()
	began := arrivals.count(t)
	suite.WaitFor(t, "another node continues", func() bool { return arrivals.count(t) >= began+phase })
	leader.start(t)
	last := publishers.finish(t, began+3*phase)
	suite.WaitFor(t, "all messages have come", func() bool { return len(missing(arrivals.all(t), last)) == 0 })
	t.Logf("%d arrivals, %d of them repeated", arrivals.count(t), repeated(arrivals.all(t)))
}

// startConnected starts three machines that will share the data of the platform, and connects the first one to a Mosquitto
// without a plugin. It returns the path of that broker.
func startConnected(t testing.TB) (c *cluster, connected *brokertest.Server, at string) {
	t.Helper()
	c = &cluster{}
	for id := range 3 {
		m := newMachine(t, id+1)
		m.shareData = true
		c.machines = append(c.machines, m)
	}
	startAll(t, c.machines...)
	first := c.machines[0]
	c.manageFrom(t, first, c.machines[1:]...)
	connected, at = first.addConnected(t)
	return c, connected, at
}

// addConnected connects a machine to a new Mosquitto without a plugin, and returns the path of that broker.
func (m *machine) addConnected(t testing.TB) (connected *brokertest.Server, at string) {
	t.Helper()
	connected = brokertest.Mosquitto(t, brokertest.WithoutPlugin(), brokertest.WithConfig(
		"persistence true", "persistence_location "+t.TempDir()+"/", "max_queued_messages 0"))
	var added struct{ ID string }
	if err := json.Unmarshal(m.change(t, "POST", m.api.inProject("/brokers"), object{"name": "connected", "url": connected.URL}), &added); err != nil {
		t.Fatal(err)
	}
	suite.WaitFor(t, "the broker is connected", func() bool { return m.api.connected(t, added.ID) })
	return connected, m.api.inProject("/brokers/" + added.ID)
}

// createShared creates the cluster, and has the administrator of the first machine work at all of them.
func (c *cluster) createShared(t testing.TB) {
	t.Helper()
	c.create(t)
	first := c.machines[0].api
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has the session", m.id), func() bool { return m.reads(t, first.token, first.project) })
		m.api.token, m.api.project = first.token, first.project
	}
}

// streamState returns whether a machine shows a stream of the broker with that path: "active", "inactive", "absent", or
// "" while it cannot tell.
func (m *machine) streamState(t testing.TB, at, name string) string {
	t.Helper()
	var all []struct {
		StreamName string
		Active     bool
	}
	status, answer, err := m.api.do(t.Context(), "GET", at+"/streams", nil)
	if err != nil || status != http.StatusOK || json.Unmarshal(answer, &all) != nil {
		return ""
	}
	for _, s := range all {
		switch {
		case s.StreamName == name && s.Active:
			return "active"
		case s.StreamName == name:
			return "inactive"
		}
	}
	return "absent"
}

// page returns a page of the console, as the user of the API sees it.
func (m *machine) page(t testing.TB, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.api.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: "signalbox_session", Value: m.api.token})
	resp, err := m.api.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %v %s", path, resp.StatusCode, err, text)
	}
	return string(text)
}

// stored returns how many messages a stream has stored, as a machine reports it.
func (m *machine) stored(t testing.TB, at, name string) int {
	t.Helper()
	var stored struct{ Count int }
	m.api.must(t, "GET", at+"/streams/messages/count?streamname="+name, nil, &stored)
	return stored.Count
}

// hasBridge reports whether a machine has connections of a bridge of the broker with that path that are enabled.
func (m *machine) hasBridge(t testing.TB, at, id string) bool {
	t.Helper()
	var config struct{ Connections []struct{ Enabled *bool } }
	m.api.must(t, "GET", at+"/bridges/"+id+"/config", nil, &config)
	for _, c := range config.Connections {
		if c.Enabled == nil || *c.Enabled {
			return true
		}
	}
	return false
}

// repeated returns how many deliveries were of messages that had been delivered as they were sent.
func repeated(list []arrival) (n int) {
	seen := map[arrival]bool{}
	for _, a := range list {
		a.ID = ""
		if seen[a] {
			n++
		}
		seen[a] = true
	}
	return n
}

// missing returns messages that have not come, of each topic those up to its last number.
func missing(list []arrival, last map[string]int) (left []string) {
	came := map[arrival]bool{}
	for _, a := range list {
		came[arrival{Topic: a.Topic, N: a.N}] = true
	}
	for topic, end := range last {
		for n := 1; n <= end; n++ {
			if !came[arrival{Topic: topic, N: n}] {
				left = append(left, fmt.Sprint(topic, " ", n))
			}
		}
	}
	return left
}
