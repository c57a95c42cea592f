package systemtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"signalbox/broker/mqtt/hosted"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// TestClusterRunsItsStreams has a cluster that shares messages and the data of the platform run a stream and a bridge of the
// embedded broker of its first node. They were made before the cluster; one node at a time takes their messages, from
// whichever node they are published at, and when that is killed another one continues: no acknowledged message is lost, and
// until then none is delivered twice.
func TestClusterRunsItsStreams(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"hp", "full"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			runEmbedded(t, mode)
		})
	}
}

func runEmbedded(t *testing.T, mode string) {
	const phase = 400 // messages
	c := startSharing(t, mode)
	first := c.machines[0]
	at := first.ownBroker()
	first.api.must(t, "POST", at+"/streams", object{"streamname": "before", "sourcetopic": "plant/#", "persist": true}, nil)
	first.api.must(t, "POST", at+"/messages", object{"topic": "plant/0", "payload": "kept", "qos": 1}, nil)
	suite.WaitFor(t, "the stream keeps a message", func() bool { return first.stored(t, at, "before") == 1 })
	second := c.machines[1].ownBroker()
	c.machines[1].api.must(t, "POST", second+"/streams", object{"streamname": "replaced", "sourcetopic": "plant/#"}, nil)
	target := startHTTPPeer(t)
	bridge, document := target.bridge()
	first.api.must(t, "PUT", at+"/bridges/"+bridge+"/config", document, nil)
	c.createShared(t)
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has the stream with its message, and the bridge", m.id), func() bool {
			return m.streamState(t, at, "before") == "active" && m.hasBridge(t, at, bridge) && m.countStored(t, at, "before") == 1
		})
		if state := m.streamState(t, at, "replaced"); state != "absent" {
			t.Errorf("node %d has a stream of a node that has joined: %s", m.id, state)
		}
	}

	publishers := newPublishers(t, endpoint{c.balance(t), mqttAdmin, mqttPassword})
	suite.WaitFor(t, "messages come", func() bool { return target.count(t) >= phase })
	leader, others := c.leading(t)
	others[0].change(t, "POST", at+"/streams", object{"streamname": "meanwhile", "sourcetopic": "plant/#", "persist": true})
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has the new stream", m.id), func() bool { return m.streamState(t, at, "meanwhile") == "active" })
		if n := m.stored(t, at, "before"); n < phase {
			t.Errorf("node %d reports that the stream has stored %d messages, want %d at least", m.id, n, phase)
		}
	}
	if mode == "hp" { // in full the other nodes accept administrators only
		c.controlStreams(t, others[1], phase)
		others[1].wantReserved(t, at)
	}
	if twice := repeated(target.all(t)); twice > 0 {
		t.Errorf("%d messages were delivered twice, and no node has failed", twice)
	}

	came := target.count(t)
	leader.run.Kill()
	began := target.count(t)
	suite.WaitFor(t, "another node continues", func() bool { return target.count(t) >= began+phase })
	others[0].change(t, "DELETE", at+"/streams?streamname=before", nil)
	leader.start(t)
	c.console = first.api // which has another address if it was the leader
	suite.WaitFor(t, "the killed node shows that the stream was deleted meanwhile", func() bool { return leader.streamState(t, at, "before") == "absent" })
	last := publishers.finish(t, came+3*phase)
	suite.WaitFor(t, "all messages have come", func() bool { return len(missing(target.all(t), last)) == 0 })
	t.Logf("%d deliveries, %d of them repeated", target.count(t), repeated(target.all(t)))

	_, others = c.leading(t)
	gone := others[0]
	if gone == first { // which would have to leave through another node's console
		gone = others[1]
	}
	own := gone.sharedBroker(t, c)
	if status, answer := c.ask(t, "PUT", c.at("/leave"), gone.node(c.brokers[gone.id])); status != http.StatusNoContent {
		t.Fatalf("leave of node %d: %d %s", gone.id, status, answer)
	}
	suite.WaitFor(t, "what the node that has left keeps is switched off", func() bool {
		return gone.streamState(t, own, "meanwhile") == "inactive" && !gone.hasBridge(t, own, bridge)
	})
	if first.streamState(t, at, "meanwhile") != "active" || !first.hasBridge(t, at, bridge) {
		t.Error("the cluster does not go on with them")
	}
}

// startSharing starts three machines that will share the data of the platform in a cluster of a syncmode.
func startSharing(t testing.TB, mode string) *cluster {
	t.Helper()
	c := &cluster{mode: mode}
	for id := range 3 {
		m := newMachine(t, id+1)
		m.shareData = true
		if mode == "full" {
			withAdminListener(t, m)
		}
		c.machines = append(c.machines, m)
	}
	startAll(t, c.machines...)
	c.manageFrom(t, c.machines[0], c.machines[1:]...)
	return c
}

// ownBroker returns the path of the embedded broker of a machine before it is a node.
func (m *machine) ownBroker() string { return m.api.inProject("/brokers/" + m.api.embedded) }

// sharedBroker returns the path of the embedded broker of a node, as all nodes have it.
func (m *machine) sharedBroker(t testing.TB, c *cluster) string {
	t.Helper()
	if m == c.machines[0] {
		return m.ownBroker()
	}
	var all []struct{ ID, Name string }
	m.api.must(t, "GET", m.api.inProject("/brokers"), nil, &all)
	for _, b := range all {
		if b.Name == fmt.Sprintf("embedded (node %d)", m.id) {
			return m.api.inProject("/brokers/" + b.ID)
		}
	}
	t.Fatalf("there is no record of the embedded broker of node %d: %+v", m.id, all)
	return ""
}

// countStored is stored that does not fail: it returns -1 while the machine cannot tell.
func (m *machine) countStored(t testing.TB, at, name string) int {
	t.Helper()
	var stored struct{ Count int }
	status, answer, err := m.api.do(t.Context(), "GET", at+"/streams/messages/count?streamname="+name, nil)
	if err != nil || status != http.StatusOK || json.Unmarshal(answer, &stored) != nil {
		return -1
	}
	return stored.Count
}

// controlStreams asks a node that does not run the streams about one over MQTT, as mosquitto_rr.
func (c *cluster) controlStreams(t testing.TB, m *machine, atLeast int) {
	t.Helper()
	out, err := tool(t, "mosquitto_rr", m.mqtt, mqttAdmin, mqttPassword, "-W", "30", "-t", "$CONTROL/stream-processing/v1", "-e", "$CONTROL/stream-processing/v1/response",
		"-m", `{"commands":[{"command":"getStreamMessageCount","streamname":"before"}]}`).Output()
	if err != nil {
		t.Fatalf("ask node %d over MQTT: %v %s", m.id, err, out)
	}
	var answer struct {
		Responses []struct{ Data struct{ Count int } }
	}
	if err := json.Unmarshal(out, &answer); err != nil || len(answer.Responses) != 1 || answer.Responses[0].Data.Count < atLeast {
		t.Errorf("node %d responds over MQTT: %v %s, want %d messages at least", m.id, err, out, atLeast)
	}
}

// wantReserved checks that no client has the name of the client of the streams and bridges, or one of its client ids.
func (m *machine) wantReserved(t testing.TB, at string) {
	t.Helper()
	const name = "cluster streams and bridges"
	m.change(t, "POST", at+"/clients", object{"username": name, "password": passwordOf(name)})
	if mqtttest.Accepts(t, m.mqtt, name, passwordOf(name)) {
		t.Errorf("a client named %q is let in", name)
	}
	id := hosted.ClientID("embedded") + "-0"
	if out, err := tool(t, "mosquitto_pub", m.mqtt, mqttAdmin, mqttPassword, "-i", id, "-t", "taken", "-m", "over").CombinedOutput(); err == nil {
		t.Errorf("a client with the client id %s is let in: %s", id, out)
	}
	if out, err := tool(t, "mosquitto_pub", m.mqtt, mqttAdmin, mqttPassword, "-i", "another", "-t", "taken", "-m", "over").CombinedOutput(); err != nil {
		t.Errorf("another client is not let in: %v %s", err, out)
	}
}

// balance returns an address that leads to the first machine that serves clients.
func (c *cluster) balance(t testing.TB) string {
	t.Helper()
	var addresses []string
	for _, m := range c.machines {
		addresses = append(addresses, m.mqtt)
	}
	return suite.Listen(t, func(conn net.Conn) { relay(conn, addresses) })
}

// relay forwards a connection to the first address that accepts it.
func relay(conn net.Conn, addresses []string) {
	for _, address := range addresses {
		there, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		var back sync.WaitGroup
		back.Go(func() {
			io.Copy(conn, there) //nolint:errcheck // it ends in any case
			conn.Close()
		})
		io.Copy(there, conn) //nolint:errcheck // it ends in any case
		there.Close()
		back.Wait()
		return
	}
	conn.Close()
}

// TestClusterUndoesReplacedStreams has a node with a stream of its own join a cluster whose nodes have the same streams, leave it and
// undo that it had joined: it has its own stream again, with its messages. In a cluster whose nodes share no messages it keeps it.
func TestClusterUndoesReplacedStreams(t *testing.T) {
	t.Parallel()
	c := startSharing(t, "hp")
	second := c.machines[1]
	at := second.ownBroker()
	second.api.must(t, "POST", at+"/streams", object{"streamname": "own", "sourcetopic": "plant/#", "persist": true}, nil)
	second.keep(t, at, 1)
	c.createShared(t)
	shared := second.sharedBroker(t, c)
	suite.WaitFor(t, "the node has the streams of the cluster", func() bool { return second.streamState(t, shared, "own") == "absent" })
	second.change(t, "POST", shared+"/streams", object{"streamname": "shared", "sourcetopic": "plant/#", "persist": true})
	if status, answer := c.ask(t, "PUT", c.at("/leave"), second.node(c.brokers[second.id])); status != http.StatusNoContent {
		t.Fatalf("leave: %d %s", status, answer)
	}
	suite.WaitFor(t, "the node that has left keeps a copy", func() bool { return second.streamState(t, shared, "shared") == "inactive" })
	out, err := tool(t, "mosquitto_rr", second.mqtt, mqttAdmin, mqttPassword, "-W", "30", "-t", "$CONTROL/cedalo/ha/v1", "-e", "$CONTROL/cedalo/ha/v1/response",
		"-m", `{"commands":[{"command":"undoJoin","clustername":"plant"}]}`).Output()
	if err != nil || strings.Contains(string(out), "error") {
		t.Fatalf("undo: %v %s", err, out)
	}
	second.api = root(t, second.run)
	suite.WaitFor(t, "the node has its own stream again", func() bool { return second.countStored(t, at, "own") == 1 })
	second.keep(t, at, 2)
	second.run.stop(t)
	second.start(t)
	second.api = root(t, second.run)
	second.keep(t, at, 3)
}

// TestClusterKeepsOwnStreams has nodes that share no messages keep their streams when they share the data of the platform.
func TestClusterKeepsOwnStreams(t *testing.T) {
	t.Parallel()
	c := startSharing(t, "dynsec")
	second := c.machines[1]
	at := second.ownBroker()
	second.api.must(t, "POST", at+"/streams", object{"streamname": "own", "sourcetopic": "plant/#", "persist": true}, nil)
	second.keep(t, at, 1)
	c.createShared(t)
	at = second.sharedBroker(t, c)
	suite.WaitFor(t, "the node has its stream", func() bool { return second.countStored(t, at, "own") == 1 })
	second.keep(t, at, 2)
	second.run.stop(t)
	second.start(t)
	second.keep(t, at, 3)
	if state := c.machines[0].streamState(t, c.machines[0].ownBroker(), "own"); state != "absent" {
		t.Errorf("another node has the stream: %s", state)
	}
}

// keep has the stream "own" keep another message, of that number.
func (m *machine) keep(t testing.TB, at string, n int) {
	t.Helper()
	m.api.must(t, "POST", at+"/messages", object{"topic": "plant/0", "payload": "kept", "qos": 1}, nil)
	suite.WaitFor(t, "the stream keeps the message", func() bool { return m.countStored(t, at, "own") == n })
}
