package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
	"signalbox/broker/streams/store"
)

// startStreams runs a broker with streams on the files in dir, until the test or stop ends
// it.
func startStreams(t *testing.T, dir string) (b *Broker, stop func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(testLog{t}, nil))
	s, err := store.Open(t.Context(), filepath.Join(dir, "streams.db"),
		store.Options{Durability: storage.Process, Log: log, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	c := testConfig()
	c.Streams = streams.NewHost(streams.DefaultConfig(), s, log)
	if b, err = New(t.Context(), c, dir, log); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		ctx := context.WithoutCancel(t.Context())
		if err := b.Close(ctx); err != nil {
			t.Errorf("close the broker: %v", err)
		}
		if err := s.Close(ctx); err != nil {
			t.Errorf("close the store: %v", err)
		}
	}
	t.Cleanup(stop)
	return b, stop
}

// keepStream creates a stream that keeps messages.
func keepStream(t *testing.T, b *Broker, name, source, target, query string) {
	t.Helper()
	persist := true
	if err := b.CreateStream(t.Context(), broker.StreamSpec{
		StreamName: name, SourceTopic: &source, TargetTopic: &target, Persist: &persist, Query: json.RawMessage(query),
	}); err != nil {
		t.Fatal(err)
	}
}

// TestStreamsAcrossRestart continues after a restart with the streams, their messages, and
// the state of their queries.
func TestStreamsAcrossRestart(t *testing.T) {
	t.Parallel()
	const query = `{"select":[{"target":"[n]","function":{"name":"count"}},{"source":"[v]","target":"[sum]","function":{"name":"sum"}}]}`
	dir := t.TempDir()
	for life := range 3 {
		b, stop := startStreams(t, dir)
		if life == 0 {
			keepStream(t, b, "sum", "in/#", "out", query)
		}
		d := join(t, b, 5, as(adminName, adminPassword))
		d.Subscribe(0, "out")
		for i := range 10 {
			d.Send(d.Message("in/x", `{"v":2}`, 0, false))
			n := 10*life + i + 1
			if got, want := string(d.Want(packet.Publish).Payload), fmt.Sprintf(`{"n":%d,"sum":%d}`, n, 2*n); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
		stop()
	}
	b, _ := startStreams(t, dir)
	if c, err := b.CountStreamMessages(t.Context(), "sum"); err != nil || c.Count != 30 {
		t.Errorf("counted %d: %v", c.Count, err)
	}
}

// TestCloseFinishesStreams stores and republishes all that was acknowledged, though the
// broker closes at once.
func TestCloseFinishesStreams(t *testing.T) {
	t.Parallel()
	const messages = 500
	dir := t.TempDir()
	b, stop := startStreams(t, dir)
	keepStream(t, b, "s", "in", "out", "")
	reader := join(t, b, 5, as(adminName, adminPassword), withID("reader"), persistent)
	reader.Subscribe(1, "out")
	reader.Conn.Close()
	d := join(t, b, 5, as(adminName, adminPassword))
	for i := range messages {
		d.Publish("in", fmt.Sprint(i), 1)
	}
	stop()
	b, _ = startStreams(t, dir)
	if c, err := b.CountStreamMessages(t.Context(), "s"); err != nil || c.Count != messages {
		t.Errorf("counted %d: %v", c.Count, err)
	}
	reader = join(t, b, 5, as(adminName, adminPassword), withID("reader"), persistent)
	for i := range messages {
		got := reader.Want(packet.Publish)
		if string(got.Payload) != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, got.Payload)
		}
		reader.Send(packet.Packet{Type: packet.Puback, ID: got.ID})
	}
}

// TestStreamsOfWillsAndOwn: streams receive Wills and what the broker publishes for
// administrators like any other message.
func TestStreamsOfWillsAndOwn(t *testing.T) {
	t.Parallel()
	b, _ := startStreams(t, t.TempDir())
	keepStream(t, b, "s", "#", "", "")
	c := join(t, b, 5, as(adminName, adminPassword), withWill("will", "w"))
	c.Conn.Close()
	if err := b.Publish(t.Context(), broker.PublishSpec{Topic: "own", QoS: 1}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are kept", func() bool {
		n, err := b.CountStreamMessages(t.Context(), "s")
		return err == nil && n.Count == 2
	})
}

// TestStreamControl manages streams over their control topic.
func TestStreamControl(t *testing.T) {
	t.Parallel()
	b, _ := startStreams(t, t.TempDir())
	d := join(t, b, 5, as(adminName, adminPassword))
	d.Subscribe(0, control.StreamTopic+control.ResponseSuffix)
	d.Publish(control.StreamTopic, `{"commands":[
		{"command":"createStream","streamname":"s","sourceTopic":"a","targetTopic":"b"},
		{"command":"createStream","streamname":"t","sourcetopic":"b","targettopic":"a"},
		{"command":"listStreams","correlationData":"7"}]}`, 1)
	got := string(d.Want(packet.Publish).Payload)
	for _, part := range []string{`{"command":"createStream","data":{}}`, `"s"`, `"correlationData":"7"`, `"error"`} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is not in %s", part, got)
		}
	}
	if !slices.Contains(b.Capabilities(), broker.CapStreams) {
		t.Error("the capability is not shown")
	}
}

// TestWithoutStreams offers no streams if none are configured.
func TestWithoutStreams(t *testing.T) {
	t.Parallel()
	b := start(t)
	if slices.Contains(b.Capabilities(), broker.CapStreams) {
		t.Error("the capability is shown")
	}
	if _, err := b.GetStream(t.Context(), "s"); broker.KindOf(err) != broker.Unsupported {
		t.Errorf("got %v", err)
	}
}
