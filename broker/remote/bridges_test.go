package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/brokertest"
	"signalbox/broker/control"
	"signalbox/broker/messaging"
)

// bridging is a broker with plugins for bridges in a format that only the broker knows:
// two that are loaded, one of which reports that it is not configured, and a licence
// for a third.
type bridging struct {
	mu     sync.Mutex
	config string // of x-bridge
	asked  []string
}

const secretConfig = `{"connections":[{"name":"db","connection":{"hostname":"h","password":"s3cret"},"options":{"n":2.50}}]}`

func (s *bridging) serve(t *testing.T) *Broker {
	t.Helper()
	s.config = secretConfig
	return connected(t, (&scripted{answers: s.answer, respond: s.note, refuse: []string{control.BridgeTopic("deaf-bridge") + control.ResponseSuffix}}).serve(t))
}

func (s *bridging) answer(topic, command string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch topic + " " + command {
	case control.BrokerTopic + " listPlugins":
		return data(command, `{"plugins":[{"name":"broker"},{"name":"dynamic-security"},
			{"name":"y","control-endpoints":["$CONTROL/cedalo/y-bridge/v1"],"active":false},{"name":"d","control-endpoints":["$CONTROL/cedalo/deaf-bridge/v1"]},
			{"name":"x","version":"3.0","control-endpoints":["$CONTROL/cedalo/x-bridge/v1","$CONTROL/cedalo/x-bridge/v1"]}]}`)
	case control.LicenseTopic + " getLicenseInformation":
		return data(command, `{"edition":"pro","features":[{"name":"Z_BRIDGE"},{"name":"x-bridge"},{"name":"streams"}]}`)
	case control.BridgeTopic("x-bridge") + " getConfig":
		return data(command, s.config)
	case control.BridgeTopic("x-bridge") + " updateConfig":
		return data(command, `{"response":"SUCCESS"}`)
	case control.BridgeTopic("x-bridge") + " getStatus":
		return data(command, `[{"connectionName":"db","queuedMessages":3,"isConnected":false,"error":"no route"}]`)
	case control.BridgeTopic("y-bridge") + " updateConfig":
		return refusal(command, "Identical configChange is already queued")
	case control.BridgeTopic("y-bridge") + " getConfig":
		return data(command, `[]`)
	case control.BridgeTopic("y-bridge") + " getStatus":
		return refusal(command, "Unknown command")
	case control.BridgeTopic("x-bridge") + " getConfigSchema":
		return refusal(command, "Unknown command")
	}
	return onlyDynsec(topic, command)
}

// note records the configurations that were sent.
func (s *bridging) note(topic string, payload []byte) []byte {
	var m struct {
		Commands []struct{ ConfigChange json.RawMessage }
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if json.Unmarshal(payload, &m) == nil && len(m.Commands) == 1 && m.Commands[0].ConfigChange != nil {
		s.asked = append(s.asked, topic+" "+string(m.Commands[0].ConfigChange))
	}
	return nil
}

func TestBridgePlugins(t *testing.T) {
	t.Parallel()
	server := &bridging{}
	b := server.serve(t)
	if caps := b.Capabilities(); !slices.Contains(caps, broker.CapBridges) {
		t.Errorf("capabilities: %q", caps)
	}
	list, err := b.ListBridges(t.Context())
	must(t, err)
	want := []broker.Bridge{{ID: "deaf-bridge", IsActive: true}, {ID: "x-bridge", IsActive: true}, {ID: "y-bridge"}, {ID: "z-bridge"}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("bridges (-want +got):\n%s", diff)
	}
	status, err := b.GetBridgeStatus(t.Context(), "x-bridge")
	must(t, err)
	if diff := cmp.Diff([]broker.BridgeStatus{{ConnectionName: "db", QueuedMessages: 3, Error: "no route"}}, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	shown, err := b.GetBridgeConfig(t.Context(), "x-bridge")
	must(t, err)
	if strings.Contains(string(shown), "s3cret") || !holdsMask(shown) || !strings.Contains(string(shown), `"n":2.50`) {
		t.Errorf("config %s", shown)
	}
	must(t, b.SetBridgeConfig(t.Context(), "x-bridge", shown))
	plain := json.RawMessage(`{"connections":[], "n":1.50}`)
	must(t, b.SetBridgeConfig(t.Context(), "x-bridge", plain))
	server.mu.Lock()
	defer server.mu.Unlock()
	wantSent := []string{
		control.BridgeTopic("x-bridge") + ` {"connections":[{"connection":{"hostname":"h","password":"s3cret"},"name":"db","options":{"n":2.50}}]}`,
		control.BridgeTopic("x-bridge") + ` {"connections":[],"n":1.50}`,
	}
	if diff := cmp.Diff(wantSent, server.asked); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestBridgePlugins_that_say_no(t *testing.T) {
	t.Parallel()
	server := &bridging{}
	b := server.serve(t)
	moved := strings.ReplaceAll(strings.ReplaceAll(secretConfig, "s3cret", mask), `"h"`, `"evil"`)
	e := wantKind(t, b.SetBridgeConfig(t.Context(), "x-bridge", json.RawMessage(moved)), broker.Invalid)
	if len(e.Fields) != 1 || e.Fields[0].Path != "connections[0].connection.password" || !strings.HasPrefix(e.Msg, e.Fields[0].Path) {
		t.Errorf("%+v", e)
	}
	wantKind(t, b.SetBridgeConfig(t.Context(), "y-bridge", json.RawMessage(`{}`)), broker.Invalid)
	_, err := b.GetBridgeConfig(t.Context(), "y-bridge")
	wantKind(t, err, broker.Internal)
	_, err = b.GetBridgeStatus(t.Context(), "y-bridge")
	wantUnsupported(t, err, broker.CapBridges)
	_, err = b.GetBridgeSchema(t.Context(), "x-bridge")
	wantUnsupported(t, err, broker.CapBridges)
	_, err = b.GetBridgeStatus(t.Context(), "z-bridge")
	wantUnsupported(t, err, broker.CapBridges)
	_, err = b.GetBridgeStatus(t.Context(), "none-bridge")
	wantKind(t, err, broker.NotFound)
	_, err = b.GetBridgeStatus(t.Context(), "#")
	wantKind(t, err, broker.NotFound)
	_, err = b.GetBridgeStatus(t.Context(), "deaf-bridge")
	if e := wantKind(t, err, broker.Denied); !strings.Contains(e.Msg, "deaf-bridge/v1/response") {
		t.Errorf("%+v", e)
	}
	_, err = b.RetryDeadLetters(t.Context(), "x-bridge", "\xff", nil)
	wantKind(t, err, broker.NotFound)
}

// TestBridgePlugins_of_our_kind uses bridges of another broker of this service.
func TestBridgePlugins_of_our_kind(t *testing.T) {
	t.Parallel()
	d := &deadLetters{}
	b := connected(t, (&scripted{
		answers: func(topic, command string) string {
			if topic == control.BrokerTopic {
				return data(command, `{"plugins":[{"name":"x","control-endpoints":["$CONTROL/cedalo/x-bridge/v1"]}]}`)
			}
			return onlyDynsec(topic, command)
		},
		respond: func(topic string, payload []byte) []byte {
			if id, ok := control.BridgeID(topic); ok {
				return control.Bridge(t.Context(), d, id, payload)
			}
			return nil
		},
	}).serve(t))
	schema, err := b.GetBridgeSchema(t.Context(), "x-bridge")
	if must(t, err); string(schema) != `{"title":"x"}` {
		t.Errorf("schema %s", schema)
	}
	tests, err := b.TestBridge(t.Context(), "x-bridge", json.RawMessage(`{}`))
	if must(t, err); len(tests) != 1 || !tests[0].IsConnected {
		t.Errorf("tests %+v", tests)
	}
	page, err := b.ListDeadLetters(t.Context(), "x-bridge", "c", 5, -1)
	must(t, err)
	var ids []string
	for l, err := range page.Items {
		must(t, err)
		ids = append(ids, l.ID)
	}
	if page.Total != deadLetterCount || len(ids) != deadLetterCount-5 || ids[0] != "6" || !slices.IsSortedFunc(ids, func(a, b string) int { return len(a) - len(b) }) {
		t.Errorf("total %d, got %d from %q on", page.Total, len(ids), ids[0])
	}
	n, err := b.RetryDeadLetters(t.Context(), "x-bridge", "c", []string{"1", "2"})
	if must(t, err); n != 2 {
		t.Errorf("retried %d", n)
	}
	n, err = b.DeleteDeadLetters(t.Context(), "x-bridge", "c", nil)
	if must(t, err); n != deadLetterCount {
		t.Errorf("deleted %d", n)
	}
	e := wantKind(t, b.SetBridgeConfig(t.Context(), "x-bridge", json.RawMessage(`{"bad":1}`)), broker.Invalid)
	if diff := cmp.Diff([]broker.Field{{Path: "bad", Msg: "is unknown"}}, e.Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	_, err = b.ListDeadLetters(t.Context(), "x-bridge", "d", 0, -1)
	wantKind(t, err, broker.NotFound)
}

func TestNoBridges(t *testing.T) {
	t.Parallel()
	b := connected(t, (&scripted{answers: onlyDynsec}).serve(t))
	_, err := b.ListBridges(t.Context())
	wantUnsupported(t, err, broker.CapBridges)
	wantUnsupported(t, b.SetBridgeConfig(t.Context(), "http-bridge", json.RawMessage(`{}`)), broker.CapBridges)
	gone := open(t, quick(), broker.Target{ID: "x", URL: "mqtt://127.0.0.1:1"})
	_, err = gone.GetBridgeStatus(t.Context(), "http-bridge")
	wantKind(t, err, broker.Unavailable)
}

// deadLetterCount exceeds the count of one request.
const deadLetterCount = 2500

// deadLetters is a bridge with a connection "c" that has many dead letters.
type deadLetters struct{ broker.NoBridges }

func (*deadLetters) GetBridgeSchema(context.Context, string) (json.RawMessage, error) {
	return json.RawMessage(`{"title":"x"}`), nil
}

func (*deadLetters) SetBridgeConfig(context.Context, string, json.RawMessage) error {
	return &broker.Error{Kind: broker.Invalid, Msg: "bad: is unknown", Fields: []broker.Field{{Path: "bad", Msg: "is unknown"}}}
}

func (*deadLetters) TestBridge(context.Context, string, json.RawMessage) ([]broker.BridgeTest, error) {
	return []broker.BridgeTest{{ConnectionName: "c", IsConnected: true}}, nil
}

func (*deadLetters) ListDeadLetters(_ context.Context, _, connection string, offset, count int) (broker.Page[broker.DeadLetter], error) {
	if connection != "c" {
		return broker.Page[broker.DeadLetter]{}, &broker.Error{Kind: broker.NotFound, Msg: "none"}
	}
	return broker.Page[broker.DeadLetter]{Total: deadLetterCount, Items: func(yield func(broker.DeadLetter, error) bool) {
		for i := offset; i < deadLetterCount && (count < 0 || i < offset+count); i++ {
			if !yield(broker.DeadLetter{ID: fmt.Sprint(i + 1)}, nil) {
				return
			}
		}
	}}, nil
}

func (*deadLetters) RetryDeadLetters(_ context.Context, _, _ string, ids []string) (int, error) {
	return len(ids), nil
}

func (*deadLetters) DeleteDeadLetters(context.Context, string, string, []string) (int, error) {
	return deadLetterCount, nil
}

// openBridges returns a function that opens bridges of one kind for a dialer.
func openBridges(k bridges.Kind) func(string, string, messaging.Broker) messaging.BridgeEngine {
	host := bridges.NewHost(&bridgestest.Store{}, []bridges.Kind{k}, slog.New(slog.DiscardHandler))
	return func(id, identity string, m messaging.Broker) messaging.BridgeEngine {
		return host.Open(id, identity, m)
	}
}

// TestOwnBridges delivers messages of a broker that has no bridges itself, next to a
// stream, and those that were published while the service was stopped.
func TestOwnBridges(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	d, other, kind := hosting(t), connected(t, server.Target()), &bridgestest.Kind{}
	d.Bridges = openBridges(kind)
	b := openReady(t, d, server.Target())
	if !slices.Contains(b.Capabilities(), broker.CapBridges) {
		t.Errorf("capabilities: %q", b.Capabilities())
	}
	wantActive := func(active bool) {
		t.Helper()
		list, err := b.ListBridges(t.Context())
		if must(t, err); !slices.Equal(list, []broker.Bridge{{ID: "fake-bridge", IsActive: active}}) {
			t.Errorf("bridges %+v", list)
		}
	}
	wantActive(false)
	must(t, b.CreateStream(t.Context(), broker.StreamSpec{StreamName: "s", SourceTopic: new("in/#"), TargetTopic: new("out")}))
	config := json.RawMessage(`{"connections":[{"name":"c","connection":{"address":"a"},"topicMappings":[{"name":"m","mqttTopics":["in/1","out"],"target":"x"}]}]}`)
	must(t, b.SetBridgeConfig(t.Context(), "fake-bridge", config))
	wantActive(true)
	wantGot := func(want ...string) {
		t.Helper()
		brokertest.WaitFor(t, "the messages to be delivered", func() bool { return len(kind.Target("a").Payloads()) >= len(want) })
		got := kind.Target("a").Payloads()
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("delivered %q, want %q", got, want)
		}
	}
	must(t, other.Publish(t.Context(), broker.PublishSpec{Topic: "in/1", QoS: 1, Payload: []byte("1")}))
	wantGot("1", "1") // itself, and from the stream
	must(t, b.Close(t.Context()))
	must(t, other.Publish(t.Context(), broker.PublishSpec{Topic: "in/1", QoS: 1, Payload: []byte("2")}))
	b = openReady(t, d, server.Target())
	wantGot("1", "1", "2", "2")
	must(t, b.DeleteStream(t.Context(), "s"))
	must(t, b.SetBridgeConfig(t.Context(), "fake-bridge", json.RawMessage(`{"connections":[]}`)))
	wantActive(false)
}

// TestOwnBridgesAreNotLostSightOf when a broker has bridges itself later, nor when it
// cannot be reached.
func TestOwnBridgesAreNotLostSightOf(t *testing.T) {
	t.Parallel()
	d, kind := quick(), &bridgestest.Kind{}
	d.Bridges = openBridges(kind)
	config := json.RawMessage(`{"connections":[{"name":"c","connection":{"address":"a"},"enabled":false,"topicMappings":[]}]}`)
	target := (&scripted{answers: onlyDynsec}).serve(t)
	b := openReady(t, d, target)
	must(t, b.SetBridgeConfig(t.Context(), "fake-bridge", config))
	must(t, b.Close(t.Context()))

	server := &bridging{config: secretConfig}
	target.URL = (&scripted{answers: server.answer}).serve(t).URL
	b = openReady(t, d, target)
	if list, err := b.ListBridges(t.Context()); err != nil || !slices.Equal(list, []broker.Bridge{{ID: "fake-bridge", IsActive: true}}) {
		t.Errorf("bridges %+v, %v", list, err)
	}
	must(t, b.SetBridgeConfig(t.Context(), "fake-bridge", json.RawMessage(`{"connections":[]}`)))
	if list, err := b.ListBridges(t.Context()); err != nil || len(list) != 4 {
		t.Errorf("bridges %+v, %v", list, err)
	}
	must(t, b.Close(t.Context()))

	target.URL, target.ID = "mqtt://127.0.0.1:1", "gone"
	b = open(t, d, target)
	wantKind(t, b.SetBridgeConfig(t.Context(), "fake-bridge", config), broker.Unavailable)
}
