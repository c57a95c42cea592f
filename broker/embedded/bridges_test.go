package embedded

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// bridged configures bridges to targets in memory, with their state in memory.
func bridged(t *testing.T, c *Config, kinds ...bridges.Kind) {
	c.Bridges = bridges.NewHost(&bridgestest.Store{}, kinds, slog.New(slog.NewTextHandler(testLog{t}, nil)))
}

// leads returns a configuration of the fake bridge with one connection.
func leads(address string) json.RawMessage {
	return json.RawMessage(`{"connections":[{"name":"c","connection":{"address":"` + address + `"},"topicMappings":[{"name":"m","mqttTopics":["in/#"],"target":"x"}]}]}`)
}

// slow is a kind whose connections block until they are released.
type slow struct {
	bridgestest.Kind
	let chan struct{}
}

func (k *slow) Compile(c *bridges.Connection) (bridges.Connector, bridges.Problems) {
	made, problems := k.Kind.Compile(c)
	return &slowly{made, k.let}, problems
}

type slowly struct {
	bridges.Connector
	let chan struct{}
}

func (c *slowly) Connect(ctx context.Context) error {
	select {
	case <-c.let:
		return c.Connector.Connect(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestBridgesOnControl handles requests on the topics of the existing bridges, also while
// one of them is being tested.
func TestBridgesOnControl(t *testing.T) {
	t.Parallel()
	k := &slow{let: make(chan struct{})}
	b := start(t, func(c *Config) { bridged(t, c, k, &bridgestest.Kind{Name: "other-bridge"}) })
	if !slices.Contains(b.Capabilities(), broker.CapBridges) {
		t.Errorf("capabilities %v", b.Capabilities())
	}
	topic := control.BridgeTopic("fake-bridge")
	d := join(t, b, 5, as(adminName, adminPassword))
	d.Subscribe(0, "$CONTROL/#")
	ask := func(topic, command string) { d.Send(d.Message(topic, `{"commands":[`+command+`]}`, 0, false)) }
	want := func(topic, answer string) {
		t.Helper()
		got := d.Want(packet.Publish)
		if got.Topic != topic+control.ResponseSuffix || !strings.Contains(string(got.Payload), answer) {
			t.Errorf("on %s: %s, want %s", got.Topic, got.Payload, answer)
		}
	}
	ask(topic, `{"command":"testConfig","config":`+string(leads("a"))+`}`)
	ask(topic, `{"command":"getConfig"}`)
	want(topic, `"data":{"version":"v1","connections":[]`)
	close(k.let)
	want(topic, `"data":[{"connectionName":"c","isConnected":true}]`)
	ask(topic, `{"command":"updateConfig","configChange":`+string(leads("a"))+`}`)
	want(topic, `"data":{"response":"SUCCESS"}`)
	ask(control.BrokerTopic, `{"command":"listPlugins"}`)
	want(control.BrokerTopic, `{"name":"fake-bridge","control-endpoints":["$CONTROL/cedalo/fake-bridge/v1"],"active":true},`+
		`{"name":"other-bridge","control-endpoints":["$CONTROL/cedalo/other-bridge/v1"],"active":false}`)
	ask(control.BridgeTopic("none-bridge"), `{"command":"getConfig"}`)
	want(control.BridgeTopic("none-bridge"), noEndpoint)
	d.Publish("in/1", "x", 1)
	eventually(t, "the message is delivered", func() bool { return slices.Equal(k.Target("a").Payloads(), []string{"x"}) })
}

// TestBridgesAreClosedToOthers refuses clients without a right to the topics.
func TestBridgesAreClosedToOthers(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) { bridged(t, c, &bridgestest.Kind{}) })
	allow(t, b, "dev", acl(broker.PublishClientSend, "#", true), acl(broker.PublishClientSend, "$CONTROL/dynamic-security/v1", true))
	d := join(t, b, 5, as("dev", "pw"))
	config := `{"commands":[{"command":"updateConfig","configChange":` + string(leads("a")) + `}]}`
	if code := d.Publish(control.BridgeTopic("fake-bridge"), config, 1); code < 0x80 {
		t.Errorf("PUBACK code %#x", code)
	}
	if got, err := b.GetBridgeConfig(t.Context(), "fake-bridge"); err != nil || strings.Contains(string(got), "in/#") {
		t.Errorf("configuration %s, %v", got, err)
	}
}

// TestFullBridges: only the bridge of the serving node delivers; those of the other nodes
// receive no messages until their node serves.
func TestFullBridges(t *testing.T) {
	t.Parallel()
	kinds := map[int]*bridgestest.Kind{}
	all := newCluster(t, 3, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) }, func(n *node) {
		k := &bridgestest.Kind{}
		kinds[n.at.NodeID] = k
		bridged(t, &n.config, k)
	})
	for _, n := range all {
		if err := n.SetBridgeConfig(t.Context(), "fake-bridge", leads("a")); err != nil {
			t.Fatal(err)
		}
	}
	delivered := func() (payloads []string) {
		for id := range len(all) {
			payloads = append(payloads, kinds[id+1].Target("a").Payloads()...)
		}
		slices.Sort(payloads)
		return payloads
	}
	leader := all.serving(t)
	join(t, leader.Broker, 5, as("dev", "pw")).Publish("in/1", "1", 1)
	eventually(t, "the first message is delivered", func() bool { return len(delivered()) > 0 })
	leader.stop()
	next := all.serving(t)
	join(t, next.Broker, 5, as("dev", "pw")).Publish("in/1", "2", 1)
	eventually(t, "the second message is delivered", func() bool { return len(delivered()) > 1 })
	if got := delivered(); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("delivered %q", got)
	}
	if got := kinds[next.at.NodeID].Target("a").Payloads(); !slices.Equal(got, []string{"2"}) {
		t.Errorf("the next node delivered %q", got)
	}
}
