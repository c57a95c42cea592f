package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mqtt"
	"signalbox/broker/bridges/store"
	"signalbox/broker/control"
	"signalbox/broker/storage"
	"signalbox/scripts/suite"
)

// bridgeMQTT configures bridges to MQTT brokers, stored below a directory.
func bridgeMQTT(t *testing.T, c *Config, dir string) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(testLog{t}, nil))
	s, err := store.Open(t.Context(), filepath.Join(dir, "bridges.db"), store.Options{Durability: storage.Process, Seal: unsealed{}, Log: log, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.WithoutCancel(t.Context())) })
	c.Bridges = bridges.NewHost(s, []bridges.Kind{mqtt.New()}, log)
}

// loadBalancer returns an address that leads to the node that serves clients.
func (all nodes) loadBalancer(t *testing.T) string {
	t.Helper()
	addresses := make([]string, 0, len(all))
	for _, n := range all {
		addresses = append(addresses, n.config.Listen)
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
}

// TestFullBridgesFollow bridges another signalbox to a cluster in both directions: it
// continues with whichever node leads, and both receive everything.
func TestFullBridgesFollow(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 3, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) },
		func(n *node) { bridgeMQTT(t, &n.config, n.dir) })
	single := start(t, func(c *Config) { bridgeMQTT(t, c, t.TempDir()) })
	allow(t, single, "dev", everything()...)
	if err := single.SetBridgeConfig(t.Context(), "mqtt-bridge", json.RawMessage(`{"connections":[{"name":"c",
		"connection":{"url":"mqtt://`+all.loadBalancer(t)+`","clientId":"single","credentials":{"username":"dev","password":"pw"}},
		"options":{"retryMinInsertDelay":50,"retryMaxInsertDelay":500},
		"topicMappings":[{"name":"m","mqttTopics":["t/#"],"direction":"both"}]}]}`)); err != nil {
		t.Fatal(err)
	}
	connected := func() bool {
		s, err := single.GetBridgeStatus(t.Context(), "mqtt-bridge")
		return err == nil && len(s) == 1 && s[0].IsConnected && s[0].QueuedMessages == 0
	}
	eventually(t, "the bridge is connected", connected)
	here := join(t, single, 5, as("dev", "pw"), withID("here"))
	here.Subscribe(1, "t/cluster")
	reader := join(t, all.serving(t).Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	reader.Subscribe(1, "t/single")
	reader.Conn.Close()
	speaker := join(t, single, 5, as("dev", "pw"), withID("speaker"))
	total := 0
	publish := func() {
		there := join(t, all.serving(t).Broker, 5, as("dev", "pw"), withID(fmt.Sprint("publisher", total)))
		for range 15 {
			there.Publish("t/cluster", fmt.Sprint(total), 1)
			speaker.Publish("t/single", fmt.Sprint(total), 1)
			total++
		}
		there.Conn.Close()
	}
	publish()
	leader := all.serving(t)
	leader.ask(control.SetLeader("plant", all[leader.at.NodeID%3].at.NodeID), nil)
	publish()
	all.serving(t).stop()
	publish()
	eventually(t, "the bridge is connected again", connected)
	reader = join(t, all.serving(t).Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	for at, d := range map[string]*device{"the cluster": reader, "the other broker": here} {
		got := map[string]int{}
		for len(got) < total {
			got[string(d.take().Payload)]++
		}
		for text, n := range got {
			if n > 2 {
				t.Errorf("%s arrived %d times at %s", text, n, at)
			}
		}
	}
}
