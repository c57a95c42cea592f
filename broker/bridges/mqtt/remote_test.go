package mqtt_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mqtt"
	"signalbox/broker/bridges/store"
	"signalbox/broker/brokertest"
	"signalbox/broker/messaging"
	"signalbox/broker/remote"
	"signalbox/broker/storage"
)

// TestBetweenPlainBrokers bridges two Mosquittos, in both directions for all topics, with a
// bridge that runs at neither of them.
func TestBetweenPlainBrokers(t *testing.T) {
	t.Parallel()
	m, server := mosquitto(t)
	other, _ := mosquitto(t)
	other.name = "N"
	log := slog.New(slog.NewTextHandler(logger{t, "remote"}, nil))
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "bridges.db"), store.Options{Durability: storage.Process, Seal: plainSealer{}, Log: log, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	d := remote.New(log)
	host := bridges.NewHost(s, []bridges.Kind{mqtt.New()}, log)
	d.Bridges = func(id, identity string, m messaging.Broker) messaging.BridgeEngine {
		return host.Open(id, identity, m)
	}
	b, err := d.Dial(server.Target())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := b.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := s.Close(ctx); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	if err := b.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	early := join(t, m)
	early.send("early", "x", 1, true)
	if err := b.SetBridgeConfig(t.Context(), "mqtt-bridge", document(t, all(other, "both"))); err != nil {
		t.Fatal(err)
	}
	var list []broker.BridgeStatus
	brokertest.WaitFor(t, "it is connected", func() bool {
		list, err = b.GetBridgeStatus(t.Context(), "mqtt-bridge")
		return err == nil && len(list) == 1 && list[0].IsConnected
	})
	seed := join(t, other, "early")
	seed.want("what was retained", "early=x/1r")
	c := &network{t: t, nodes: []*node{m, other}, clients: []*client{join(t, m, "+/+/+"), join(t, other, "+/+/+")}}
	c.want(c.publish("first"))
}
