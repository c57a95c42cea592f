package embedded

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker"
)

func TestSysTopics(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) { c.Version = "1.2.3" })
	d := join(t, b, 5, as(adminName, adminPassword))
	d.subscribe(1, "a", "b")
	d.send(d.message("retained", "12345", 1, true))
	d.want(packets.Puback)
	now, history, err := b.SysTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]string{
		"version": "signalbox version 1.2.3", "clients/connected": "1", "clients/total": "1", "clients/maximum": "1",
		"subscriptions/count": "2", "publish/messages/received": "1", "publish/bytes/received": "5",
		"messages/received": "3", "load/connections/1min": "0.00",
	} {
		if got := now.Topics[sysPrefix+topic]; got != want {
			t.Errorf("%s is %q, want %q", topic, got, want)
		}
	}
	if !strings.HasSuffix(now.Topics[sysPrefix+"uptime"], " seconds") || now.Topics[sysPrefix+"heap/current"] == "0" {
		t.Errorf("uptime %q, heap %q", now.Topics[sysPrefix+"uptime"], now.Topics[sysPrefix+"heap/current"])
	}
	if len(history) != 1 || now.Date < history[0].Date {
		t.Errorf("a history of %d samples", len(history))
	}
	if d := cmp.Diff(sortedKeys(now), sortedKeys(history[0])); d != "" {
		t.Errorf("topics now and then:\n%s", d)
	}
}

func sortedKeys(s broker.SysTopics) []string { return slices.Sorted(maps.Keys(s.Topics)) }

func TestSysTopicsAreRetainedForThoseWithTheRight(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", everything()...)
	d := join(t, b, 5, as(adminName, adminPassword))
	d.subscribe(0, "$SYS/#")
	want, _, err := b.SysTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for range want.Topics {
		pk := d.want(packets.Publish)
		got[pk.TopicName] = true
		if !pk.FixedHeader.Retain {
			t.Errorf("%s is not retained", pk.TopicName)
		}
	}
	if diff := cmp.Diff(sortedKeys(want), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	alice := join(t, b, 5, as("alice", "pw"))
	if codes := alice.subscribe(0, "$SYS/#", "#", "end"); codes[0] != 135 {
		t.Errorf("SUBACK code %d", codes[0])
	}
	b.sys.tick()
	if got := alice.received(join(t, b, 5, as(adminName, adminPassword)), "end"); len(got) != 0 {
		t.Errorf("alice received %q", got)
	}
}

func TestSamplesAreBoundedAndInOrder(t *testing.T) {
	t.Parallel()
	b, err := New(t.Context(), testConfig(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeNow(t, b)
	clock := time.Unix(1000, 0)
	b.now = func() time.Time { return clock }
	for range samplesKept + 5 {
		b.traffic.Sent.Add(600)
		b.sys.tick()
		clock = clock.Add(sampleEvery)
	}
	_, history, err := b.SysTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(history) != samplesKept || history[0].Date != 1050_000 || history[1].Date != 1060_000 {
		t.Fatalf("%d samples, the first of %d", len(history), history[0].Date)
	}
	last := history[samplesKept-1].Topics
	for span, low := range map[string]float64{"1min": 3599, "5min": 3100, "15min": 1800} {
		got, err := strconv.ParseFloat(last[sysPrefix+"load/bytes/sent/"+span], 64)
		if err != nil || got < low || got > 3600 {
			t.Errorf("load over %s is %v, want from %v to 3600", span, got, low)
		}
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

func TestFeaturesThatAreNotThere(t *testing.T) {
	t.Parallel()
	b := start(t)
	if _, err := b.ListBridges(t.Context()); broker.KindOf(err) != broker.Unsupported {
		t.Errorf("ListBridges: %v", err)
	}
	if _, err := b.ListStreams(t.Context(), broker.ListOptions[broker.Stream]{}); broker.KindOf(err) != broker.Unsupported {
		t.Errorf("ListStreams: %v", err)
	}
}
