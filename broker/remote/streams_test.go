package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/control"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/dial"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
	"signalbox/broker/streams/store"
)

// hosting returns a dialer with a database of streams.
func hosting(t *testing.T) *Dialer {
	t.Helper()
	kept, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "streams.db"), store.Options{Durability: storage.Process, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kept.Close(context.Background()); err != nil {
			t.Errorf("close the file of streams: %v", err)
		}
	})
	d := quick()
	host := streams.NewHost(streams.DefaultConfig(), kept, slog.New(slog.DiscardHandler))
	d.Streams = func(id string, m messaging.Broker) messaging.StreamEngine { return host.Open(id, m) }
	return d
}

// openReady is open for a broker that must become ready, with streams.
func openReady(t *testing.T, d *Dialer, target broker.Target) *Broker {
	t.Helper()
	b := open(t, d, target)
	if err := b.Ready(t.Context()); err != nil {
		t.Fatalf("Ready() = %v", err)
	}
	return b
}

// stats are those of a stream.
func stats(t *testing.T, b *Broker, name string) broker.StreamStats {
	t.Helper()
	s, err := b.GetStream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return *s.Stats
}

// TestOwnStreams receives messages of a broker as soon as a stream is created, stores,
// publishes and replays them.
func TestOwnStreams(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t, brokertest.WithTLS(), brokertest.WithWebSockets())
	for _, url := range []string{server.URL, server.WSSURL} {
		target := server.Target()
		target.URL, target.ID = url, url
		target.TLS = broker.TLS{CACert: string(server.CA.PEM), Verify: true}
		b := openReady(t, hosting(t), withTree(target))
		if !slices.Contains(b.Capabilities(), broker.CapStreams) {
			t.Errorf("capabilities: %q", b.Capabilities())
		}
		topicsOf(t, b) // the tree is emulated from now on
		must(t, b.CreateStream(t.Context(), broker.StreamSpec{StreamName: "s", SourceTopic: new("in/+"), TargetTopic: new("out"), Persist: new(true)}))
		for i := range 3 {
			must(t, b.Publish(t.Context(), broker.PublishSpec{Topic: "in/1", Payload: fmt.Append(nil, i), QoS: i}))
		}
		brokertest.WaitFor(t, "three are kept and published", func() bool {
			s := stats(t, b, "s")
			return s.Persisted == 3 && s.Republished == 3
		})
		waitForTopic(t, b, "out")
		must(t, b.ReplayStream(t.Context(), broker.StreamReplay{StreamName: "s", ReplayTopic: "again", Limit: -1}))
		waitForTopic(t, b, "again")
		if c, err := b.CountStreamMessages(t.Context(), "s"); err != nil || c.Count != 3 {
			t.Errorf("CountStreamMessages() = %+v, %v", c, err)
		}
		must(t, b.ClearStreamMessages(t.Context(), "s", nil, nil))
		brokertest.WaitFor(t, "the replay is over", func() bool { return broker.KindOf(b.StopStreamReplay(t.Context(), "s")) == broker.Conflict })
		must(t, b.ModifyStream(t.Context(), broker.StreamSpec{StreamName: "s", SourceTopic: new("other")}, false))
		must(t, b.Publish(t.Context(), broker.PublishSpec{Topic: "in/1", QoS: 1}))
		must(t, b.Publish(t.Context(), broker.PublishSpec{Topic: "other", QoS: 1}))
		brokertest.WaitFor(t, "the other source counts", func() bool { return stats(t, b, "s").Received == 4 })
		must(t, b.DeleteStream(t.Context(), "s"))
		_, err := b.GetStream(t.Context(), "s")
		wantKind(t, err, broker.NotFound)
	}
}

// TestOwnStreamsGoOn has a broker's streams after a restart of the service, with what
// was published in the meantime, and after a change of the connection.
func TestOwnStreamsGoOn(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	d, other := hosting(t), connected(t, server.Target())
	target := server.Target()
	b := openReady(t, d, target)
	must(t, b.CreateStream(t.Context(), broker.StreamSpec{StreamName: "s", SourceTopic: new("in"), Persist: new(true)}))
	for round := range int64(3) {
		must(t, b.Close(t.Context()))
		must(t, other.Publish(t.Context(), broker.PublishSpec{Topic: "in", QoS: 1}))
		b = openReady(t, d, target)
		brokertest.WaitFor(t, "what was published meanwhile is kept", func() bool {
			c, err := b.CountStreamMessages(t.Context(), "s")
			return err == nil && c.Count == round+1
		})
	}
	successor := openReady(t, d, target) // the pool also opens one before the old one is closed
	must(t, b.Close(t.Context()))
	brokertest.WaitFor(t, "the successor has the streams", func() bool {
		must(t, other.Publish(t.Context(), broker.PublishSpec{Topic: "in", QoS: 1}))
		c, err := successor.CountStreamMessages(t.Context(), "s")
		return err == nil && c.Count > 3
	})
}

// TestNoStreams lacks streams if neither side has any, and without an id.
func TestNoStreams(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	nameless := server.Target()
	nameless.ID = ""
	for _, b := range []*Broker{connected(t, server.Target()), openReady(t, hosting(t), nameless)} {
		_, err := b.ListStreams(t.Context(), broker.ListOptions[broker.Stream]{Count: -1})
		wantKind(t, err, broker.Unsupported)
		if caps := b.Capabilities(); slices.Contains(caps, broker.CapStreams) {
			t.Errorf("capabilities: %q", caps)
		}
	}
}

// TestStreamsOfAnUnreachableBroker are Unavailable before it was reached once; after that
// they can be read and changed.
func TestStreamsOfAnUnreachableBroker(t *testing.T) {
	t.Parallel()
	b := open(t, hosting(t), broker.Target{ID: "x", URL: "mqtt://127.0.0.1:1"})
	wantKind(t, b.CreateStream(t.Context(), broker.StreamSpec{StreamName: "s", SourceTopic: new("a")}), broker.Unavailable)
	_, err := b.GetStream(t.Context(), "s")
	wantKind(t, err, broker.Unavailable)

	server := brokertest.Mosquitto(t)
	b = openReady(t, hosting(t), server.Target())
	server.Stop(t)
	brokertest.WaitFor(t, "the broker is known to be gone", func() bool { return !b.Status().Connected })
	must(t, b.CreateStream(t.Context(), broker.StreamSpec{StreamName: "s", SourceTopic: new("a"), Persist: new(true)}))
	wantKind(t, b.ReplayStream(t.Context(), broker.StreamReplay{StreamName: "s", ReplayTopic: "r", Limit: -1}), broker.Unavailable)
	server.Start(t)
	other := connected(t, server.Target())
	brokertest.WaitFor(t, "messages are taken", func() bool {
		must(t, other.Publish(t.Context(), broker.PublishSpec{Topic: "a", QoS: 1}))
		return stats(t, b, "s").Received > 0
	})
}

// pluginOf is a broker with a stream plugin: one of ours behind a scripted broker,
// without storage.
func pluginOf(t *testing.T, s broker.Streams, refuse string) broker.Target {
	t.Helper()
	server := &scripted{answers: rich, respond: func(topic string, payload []byte) []byte {
		switch {
		case topic != control.StreamTopic:
			return nil
		case refuse != "" && !strings.Contains(string(payload), "listStreams"):
			var m struct {
				Commands []struct{ Command, CorrelationData string }
			}
			must(t, json.Unmarshal(payload, &m))
			return []byte(strings.ReplaceAll(refusal(m.Commands[0].Command, refuse), "CORRELATION", m.Commands[0].CorrelationData))
		}
		return control.Streams(context.Background(), s, nil, payload)
	}}
	return server.serve(t)
}

// TestPluginOfTheBroker leaves streams to a broker that has its own, as long as this
// service has none there.
func TestPluginOfTheBroker(t *testing.T) {
	t.Parallel()
	inner := openReady(t, hosting(t), brokertest.Mosquitto(t).Target())
	d := hosting(t)
	target := pluginOf(t, inner, "")
	b := openReady(t, d, target)
	spec := broker.StreamSpec{StreamName: "s", SourceTopic: new("in"), TargetTopic: new("out"), TTL: new(int64(60)), Persist: new(true),
		Query: json.RawMessage(`{"select":[{"source":"[a]","target":"[b]"}]}`)}
	must(t, b.CreateStream(t.Context(), spec))
	wantKind(t, b.CreateStream(t.Context(), spec), broker.Exists)
	wantKind(t, b.CreateStream(t.Context(), broker.StreamSpec{StreamName: "loop", SourceTopic: new("x"), TargetTopic: new("x")}), broker.Invalid)
	must(t, b.ModifyStream(t.Context(), broker.StreamSpec{StreamName: "s", TextName: new("text")}, false))
	got, err := b.GetStream(t.Context(), "s")
	want, wantErr := inner.GetStream(t.Context(), "s")
	if diff := cmp.Diff(want, got); err != nil || wantErr != nil || diff != "" {
		t.Errorf("GetStream(): %v, %v (-there +here):\n%s", err, wantErr, diff)
	}
	for i := range 3 {
		must(t, b.CreateStream(t.Context(), broker.StreamSpec{StreamName: fmt.Sprint("t", i), SourceTopic: new("a")}))
	}
	page, err := b.ListStreams(t.Context(), broker.ListOptions[broker.Stream]{Offset: 1, Count: 2, NamesOnly: true})
	if err != nil || page.Total != 4 {
		t.Fatalf("ListStreams() = %d, %v", page.Total, err)
	}
	var names []string
	for s, err := range page.Items {
		must(t, err)
		names = append(names, s.StreamName)
	}
	if !slices.Equal(names, []string{"t0", "t1"}) {
		t.Errorf("got %q", names)
	}
	if c, err := b.CountStreamMessages(t.Context(), "s"); err != nil || c != (broker.StreamCount{StreamName: "s"}) {
		t.Errorf("CountStreamMessages() = %+v, %v", c, err)
	}
	must(t, b.ClearStreamMessages(t.Context(), "s", nil, new(1.5)))
	must(t, b.ReplayStream(t.Context(), broker.StreamReplay{StreamName: "s", ReplayTopic: "r", Limit: -1, Speed: 0}))
	brokertest.WaitFor(t, "the replay of nothing is over", func() bool { return broker.KindOf(b.StopStreamReplay(t.Context(), "s")) == broker.Conflict })
	must(t, b.DeleteStream(t.Context(), "s"))
	_, err = b.GetStream(t.Context(), "s")
	wantKind(t, err, broker.NotFound)
	if n, err := b.hosted.Streams().Len(t.Context()); err != nil || n != 0 {
		t.Errorf("%d streams are in this service, %v", n, err)
	}
}

// TestRefusalsOfPlugins have the kinds of their texts.
func TestRefusalsOfPlugins(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]broker.Kind{
		"Stream not found": broker.NotFound, "Stream already exists": broker.Exists, "Invalid/missing sourcetopic": broker.Invalid,
		"A replay is already running": broker.Conflict, "the stream does not keep messages; set persist": broker.Conflict,
		"sourcetopic: must not begin with $": broker.Invalid, "Internal error": broker.Internal, "Unknown command": broker.Unsupported,
	} {
		b := connected(t, pluginOf(t, broker.NoStreams{}, text))
		err := b.ReplayStream(t.Context(), broker.StreamReplay{StreamName: "s", ReplayTopic: "r"})
		wantKind(t, err, kind)
	}
}

// TestExplainHostedClient: the client of streams and the session have the same explanations.
func TestExplainHostedClient(t *testing.T) {
	t.Parallel()
	b := open(t, quick(), broker.Target{URL: "mqtt://h", Username: "u"})
	for want, err := range map[string]error{
		"refuses user":             &client.ConnackError{Version: 5, Code: 0x86},
		"the broker refuses user":  &client.ConnackError{Version: 4, Code: 5},
		"client id":                &client.ConnackError{Version: 5, Code: 0x85},
		"not available now":        &client.ConnackError{Version: 4, Code: 3},
		"before the log-in":        &client.ConnackError{Version: 5, Code: 0x97},
		"runs only once":           &client.DisconnectError{Code: 0x8e},
		"was lost":                 &client.DisconnectError{Code: 0x8b},
		"refuses connections":      &failure{Stage: dial.StageDial, Err: syscall.ECONNREFUSED},
		"connection to the broker": io.EOF,
	} {
		if e := b.explainFlow(err); e.Kind != broker.Unavailable || !strings.Contains(e.Msg, want) {
			t.Errorf("%v: %q, want %q", err, e.Msg, want)
		}
	}
}
