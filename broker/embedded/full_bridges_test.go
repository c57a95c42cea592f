package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pahomqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mqtt"
	"signalbox/broker/bridges/store"
	"signalbox/broker/brokertest"
	"signalbox/broker/control"
	"signalbox/broker/storage"
)

// unsealed seals nothing.
type unsealed struct{}

func (unsealed) Seal(plain, _ []byte) []byte             { return plain }
func (unsealed) Unseal(sealed, _ []byte) ([]byte, error) { return sealed, nil }

// TestFullBridgesTake: each node of a cluster receives messages from the same broker by the
// same client id, but only the serving one connects, and the next one continues where it
// stopped. Nothing is lost, and what was acknowledged is not repeated: that broker sends
// one message at a time, so only the last one before a change may be unacknowledged
// [MQTT-4.4.0-1].
func TestFullBridgesTake(t *testing.T) {
	t.Parallel()
	other := brokertest.Mosquitto(t, brokertest.WithoutPlugin(), brokertest.WithConfig("max_inflight_messages 1"))
	all := newCluster(t, 3, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) }, func(n *node) {
		log := slog.New(slog.NewTextHandler(testLog{t}, nil))
		s, err := store.Open(t.Context(), filepath.Join(n.dir, "bridges.db"), store.Options{Durability: storage.Process, Seal: unsealed{}, Log: log, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close(context.WithoutCancel(t.Context())) })
		n.config.Bridges = bridges.NewHost(s, []bridges.Kind{mqtt.New()}, log)
	})
	for _, n := range all {
		if err := n.SetBridgeConfig(t.Context(), "mqtt-bridge", json.RawMessage(`{"connections":[{"name":"c",
			"connection":{"url":"`+other.URL+`","clientId":"plant"},
			"topicMappings":[{"name":"m","mqttTopics":["in/#"],"direction":"in","qos":1}]}]}`)); err != nil {
			t.Fatal(err)
		}
	}
	leader := all.serving(t)
	reader := join(t, leader.Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	reader.Subscribe(1, "in/#")
	reader.Conn.Close()
	connected := func(n *node) bool {
		s, err := n.GetBridgeStatus(t.Context(), "mqtt-bridge")
		return err == nil && len(s) == 1 && s[0].IsConnected
	}
	publisher := pahomqtt.NewClient(pahomqtt.NewClientOptions().AddBroker(strings.Replace(other.URL, "mqtt://", "tcp://", 1)).SetClientID("publisher"))
	if token := publisher.Connect(); token.Wait() && token.Error() != nil {
		t.Fatal(token.Error())
	}
	defer publisher.Disconnect(0)
	var want []string
	publish := func(n int) {
		for range n {
			text := fmt.Sprint(len(want))
			want = append(want, text)
			if token := publisher.Publish("in/1", 1, false, text); token.Wait() && token.Error() != nil {
				t.Fatal(token.Error())
			}
		}
	}
	brought := func(n *node) int64 {
		s, err := n.GetBridgeStatus(t.Context(), "mqtt-bridge")
		if err != nil {
			return 0
		}
		return s[0].Stats.Inbound
	}
	eventually(t, "the bridge of the node that serves", func() bool { return connected(leader) })
	publish(20)
	eventually(t, "they are brought", func() bool { return brought(leader) == 20 })
	for _, n := range all.others(leader) {
		if connected(n) {
			t.Errorf("node %d takes messages beside the one that serves", n.at.NodeID)
		}
	}
	second := all[leader.at.NodeID%3]
	leader.ask(control.SetLeader("plant", second.at.NodeID), nil)
	eventually(t, "the bridge of the node that has served is closed", func() bool { return !connected(leader) })
	publish(20)
	eventually(t, "the next node brings what is left", func() bool {
		return all.leader() != nil && connected(all.leader()) && brought(all[0])+brought(all[1])+brought(all[2]) >= 40
	})
	third := all.serving(t)
	third.stop()
	publish(20)
	last := all.serving(t)
	eventually(t, "the last node brings what is left", func() bool { return connected(last) })
	reader = join(t, last.Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	publish(1)
	got := map[string]int{}
	for got[want[len(want)-1]] == 0 {
		got[string(reader.take().Payload)]++
	}
	for i, text := range want {
		mayRepeat := i == 19 || i == 39 || i == 38 && got["19"] == 2 // which was counted then
		if got[text] != 1 && !(mayRepeat && got[text] == 2) {
			t.Errorf("%s arrived %d times", text, got[text])
		}
	}
	if rest := reader.Settled(); len(rest) > 0 {
		t.Errorf("the reader got %v, too", rest)
	}
}
