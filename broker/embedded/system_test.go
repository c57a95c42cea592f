package embedded

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest/packet"
)

func TestSysTopics(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) { c.Version = "1.2.3" })
	d := join(t, b, 5, as(adminName, adminPassword))
	d.Subscribe(1, "a", "b")
	d.Send(d.Message("retained", "12345", 1, true))
	d.Want(packet.Puback)
	now, history, err := b.SysTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]string{
		"version": "signalbox version 1.2.3", "clients/connected": "1", "clients/total": "1", "clients/maximum": "1",
		"subscriptions/count": "2", "publish/messages/received": "1", "publish/bytes/received": "5",
		"messages/received": "3", "load/connections/1min": "0.00",
	} {
		if got := now.Topics["$SYS/broker/"+topic]; got != want {
			t.Errorf("%s is %q, want %q", topic, got, want)
		}
	}
	if !strings.HasSuffix(now.Topics["$SYS/broker/"+"uptime"], " seconds") || now.Topics["$SYS/broker/"+"heap/current"] == "0" {
		t.Errorf("uptime %q, heap %q", now.Topics["$SYS/broker/"+"uptime"], now.Topics["$SYS/broker/"+"heap/current"])
	}
	if len(history) != 1 || now.Date < history[0].Date {
		t.Errorf("a history of %d samples", len(history))
	}
	if d := cmp.Diff(sortedKeys(now), sortedKeys(history[0])); d != "" {
		t.Errorf("topics now and then:\n%s", d)
	}
}

func sortedKeys(s broker.SysTopics) []string { return slices.Sorted(maps.Keys(s.Topics)) }

func TestSysTopicsAreRetained(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", everything()...)
	d := join(t, b, 5, as(adminName, adminPassword))
	d.Subscribe(0, "$SYS/#")
	want, _, err := b.SysTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for range want.Topics {
		pk := d.Want(packet.Publish)
		got[pk.Topic] = true
		if !pk.Retain {
			t.Errorf("%s is not retained", pk.Topic)
		}
	}
	if diff := cmp.Diff(sortedKeys(want), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	alice := join(t, b, 5, as("alice", "pw"))
	if codes := alice.Subscribe(0, "$SYS/#", "#", "end"); codes[0] != 135 {
		t.Errorf("SUBACK code %d", codes[0])
	}
	b.publishSys()
	if got := alice.received(join(t, b, 5, as(adminName, adminPassword)), "end"); len(got) != 0 {
		t.Errorf("alice received %q", got)
	}
}

func TestLicense(t *testing.T) {
	t.Parallel()
	b := start(t)
	got, err := b.GetLicense(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := broker.License{Plan: "open-source", Edition: "embedded", Features: []string{}}
	for _, c := range b.Capabilities() {
		want.Features = append(want.Features, string(c))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestUnsupportedFeatures(t *testing.T) {
	t.Parallel()
	b := start(t)
	if _, err := b.ListBridges(t.Context()); broker.KindOf(err) != broker.Unsupported {
		t.Errorf("ListBridges: %v", err)
	}
	if _, err := b.ListStreams(t.Context(), broker.ListOptions[broker.Stream]{}); broker.KindOf(err) != broker.Unsupported {
		t.Errorf("ListStreams: %v", err)
	}
}
