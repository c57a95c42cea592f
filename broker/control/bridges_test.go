package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// fakeBridges is a broker with one bridge, "x-bridge", that has a connection "c". It records
// its calls.
type fakeBridges struct {
	broker.NoBridges
	config json.RawMessage
	dead   int
	log    []string
}

func newFakeBridges() *fakeBridges {
	return &fakeBridges{config: json.RawMessage(`{"connections":[{"name":"<c>","n":2.50}]}`), dead: 3}
}

func (d *fakeBridges) has(bridgeID string) error {
	if bridgeID != "x-bridge" {
		return &broker.Error{Kind: broker.NotFound, Msg: "there is no such bridge"}
	}
	return nil
}

func (d *fakeBridges) GetBridgeConfig(_ context.Context, bridgeID string) (json.RawMessage, error) {
	return d.config, d.has(bridgeID)
}

func (d *fakeBridges) SetBridgeConfig(_ context.Context, bridgeID string, config json.RawMessage) error {
	if strings.Contains(string(config), "bad") {
		return &broker.Error{Kind: broker.Invalid, Msg: "the configuration cannot be used", Fields: []broker.Field{
			{Path: "connections[0].connection.url", Msg: "must be a URL"}, {Path: "x", Msg: "is unknown"}}}
	}
	d.log = append(d.log, "set "+string(config))
	return d.has(bridgeID)
}

func (d *fakeBridges) GetBridgeStatus(_ context.Context, bridgeID string) ([]broker.BridgeStatus, error) {
	if string(d.config) == "{}" {
		return nil, nil
	}
	return []broker.BridgeStatus{{ConnectionName: "c", QueuedMessages: 1 << 40, Error: "away", Stats: &broker.BridgeStats{Dropped: 4}}}, d.has(bridgeID)
}

func (d *fakeBridges) GetBridgeSchema(_ context.Context, bridgeID string) (json.RawMessage, error) {
	return json.RawMessage(`{"type":"object","maximum":1.5}`), d.has(bridgeID)
}

func (d *fakeBridges) TestBridge(_ context.Context, bridgeID string, config json.RawMessage) ([]broker.BridgeTest, error) {
	d.log = append(d.log, "test "+string(config))
	return []broker.BridgeTest{{ConnectionName: "c", Error: "nobody there"}}, d.has(bridgeID)
}

func (d *fakeBridges) ListDeadLetters(_ context.Context, _, connection string, offset, count int) (broker.Page[broker.DeadLetter], error) {
	d.log = append(d.log, fmt.Sprint("list ", connection, " ", offset, " ", count))
	if connection != "c" {
		return broker.Page[broker.DeadLetter]{}, &broker.Error{Kind: broker.NotFound, Msg: "there is no such connection"}
	}
	return broker.Page[broker.DeadLetter]{Total: d.dead, Items: func(yield func(broker.DeadLetter, error) bool) {
		for i := range d.dead {
			if !yield(broker.DeadLetter{ID: fmt.Sprint(i), Topic: "a", ReceivedAt: time.UnixMilli(0).UTC(), RejectedAt: time.UnixMilli(1500).UTC()}, nil) {
				return
			}
		}
	}}, nil
}

func (d *fakeBridges) RetryDeadLetters(_ context.Context, _, connection string, ids []string) (int, error) {
	d.log = append(d.log, fmt.Sprintf("retry %s %q", connection, ids))
	return max(len(ids), 1), nil
}

func (d *fakeBridges) DeleteDeadLetters(_ context.Context, _, connection string, ids []string) (int, error) {
	d.log = append(d.log, fmt.Sprintf("delete %s %q", connection, ids))
	return max(len(ids), 1), nil
}

func TestBridgeTopics(t *testing.T) {
	t.Parallel()
	for topic, want := range map[string]string{
		BridgeTopic("http-bridge"):             "http-bridge",
		"$CONTROL/cedalo/google-x-bridge/v1":   "google-x-bridge",
		"$CONTROL/cedalo/-bridge/v1":           "",
		"$CONTROL/cedalo/bridge/v1":            "",
		"$CONTROL/cedalo/a/b-bridge/v1":        "",
		"$CONTROL/cedalo/+-bridge/v1":          "",
		"$CONTROL/cedalo/http-bridge/v2":       "",
		"$CONTROL/cedalo/http-bridge/v1/x":     "",
		"$CONTROL/cedalo/inspect/v1":           "",
		"$CONTROL/cedalo/\xff-bridge/v1":       "",
		"$CONTROL/cedalo/http-bridge/v1/v1":    "",
		"$CONTROL/cedalo//v1":                  "",
		"$CONTROL/stream-processing-bridge/v1": "",
	} {
		if id, ok := BridgeID(topic); id != want && ok || ok != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", topic, id, ok, want)
		}
	}
}

func TestBridge_answers(t *testing.T) {
	t.Parallel()
	answer := func(command, rest string) string { return fmt.Sprintf(`{"command":"%s",%s}`, command, rest) }
	letter := func(i int) string {
		return fmt.Sprintf(`{"id":"%d","topic":"a","payload":"","size":0,"qos":0,"mapping":"","receivedAt":"1970-01-01T00:00:00Z","rejectedAt":"1970-01-01T00:00:01.5Z","attempts":0,"reason":""}`, i)
	}
	stats := `"stats":{"queuedBytes":0,"received":0,"delivered":0,"dropped":4,"rejected":0,"retries":0,"inbound":0,"looped":0,"deadLetters":0}`
	wantResponses(t, func(p []byte) []byte { return Bridge(t.Context(), newFakeBridges(), "x-bridge", p) }, [][2]string{
		{`{"command":"getConfig","correlationData":"x"}`, answer("getConfig", `"data":{"connections":[{"name":"<c>","n":2.50}]},"correlationData":"x"`)},
		{`{"command":"getconfigschema"}`, answer("getConfigSchema", `"data":{"type":"object","maximum":1.5}`)},
		{`{"command":"getStatus"}`, answer("getStatus", `"data":[{"connectionName":"c","queuedMessages":1099511627776,"isConnected":false,"error":"away",`+stats+`}]`)},
		{`{"command":"updateConfig","configChange":{}}`, answer("updateConfig", `"data":{"response":"SUCCESS"}`)},
		{`{"command":"updateConfig"}`, answer("updateConfig", `"error":"Invalid/missing configChange"`)},
		{`{"command":"updateConfig","configChange":[]}`, answer("updateConfig", `"error":"Invalid/missing configChange"`)},
		{"{\"command\":\"updateConfig\",\"configChange\":{\"a\":\"\xff\"}}", answer("updateConfig", `"error":"Invalid/missing configChange"`)},
		{`{"command":"updateConfig","configChange":{"bad":1}}`, answer("updateConfig", `"error":"the configuration cannot be used","fields":[`+
			`{"path":"connections[0].connection.url","message":"must be a URL"},{"path":"x","message":"is unknown"}]`)},
		{`{"command":"testConfig"}`, answer("testConfig", `"data":[{"connectionName":"c","isConnected":false,"error":"nobody there"}]`)},
		{`{"command":"testConfig","config":5}`, answer("testConfig", `"error":"Invalid config"`)},
		{`{"command":"listDeadLetters","connectionName":"c"}`, answer("listDeadLetters", `"data":{"totalCount":3,"deadLetters":[`+letter(0)+","+letter(1)+","+letter(2)+`]}`)},
		{`{"command":"listDeadLetters","connectionName":"d"}`, answer("listDeadLetters", `"error":"Connection not found"`)},
		{`{"command":"listDeadLetters"}`, answer("listDeadLetters", `"error":"Invalid/missing connectionName"`)},
		{`{"command":"listDeadLetters","connectionName":"c","offset":"1"}`, answer("listDeadLetters", `"error":"Invalid/missing offset"`)},
		{`{"command":"retryDeadLetters","connectionName":"c","ids":["1","2"]}`, answer("retryDeadLetters", `"data":{"count":2}`)},
		{`{"command":"retryDeadLetters","connectionName":"c","ids":[]}`, answer("retryDeadLetters", `"error":"Invalid ids"`)},
		{`{"command":"deleteDeadLetters","connectionName":"c","ids":[1]}`, answer("deleteDeadLetters", `"error":"Invalid ids"`)},
		{`{"command":"deleteDeadLetters","connectionName":"c"}`, answer("deleteDeadLetters", `"data":{"count":1}`)},
		{`{"command":"probe"}`, answer("probe", `"error":"Unknown command"`)},
	})
	wantResponses(t, func(p []byte) []byte { return Bridge(t.Context(), newFakeBridges(), "y-bridge", p) }, [][2]string{
		{`{"command":"getConfig"}`, answer("getConfig", `"error":"Bridge not found"`)},
		{`{"command":"updateConfig","configChange":{}}`, answer("updateConfig", `"error":"Bridge not found"`)},
	})
	wantResponses(t, func(p []byte) []byte { return Bridge(t.Context(), broker.NoBridges{}, "x-bridge", p) }, [][2]string{
		{`{"command":"getStatus"}`, answer("getStatus", `"error":"Unknown command"`)},
	})
}

// A configuration reaches the bridge unchanged, and each command has its own.
func TestBridge_configurations_are_not_changed(t *testing.T) {
	t.Parallel()
	d := newFakeBridges()
	Bridge(t.Context(), d, "x-bridge", []byte(`{"commands":[{"command":"getStatus"},{"command":"updateConfig","configChange":{"n": 1.50, "A":1, "a":2, "big":12345678901234567890}},
		{"command":"testConfig"},{"command":"TESTCONFIG","Config":{"e":1E3}},{"command":"listDeadLetters","connectionname":"c","offset":-4,"count":7}]}`))
	want := []string{`set {"n": 1.50, "A":1, "a":2, "big":12345678901234567890}`, "test ", `test {"e":1E3}`, "list c 0 7"}
	if diff := cmp.Diff(want, d.log); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

func TestBridge_what_is_asked_is_what_is_done(t *testing.T) {
	t.Parallel()
	d := newFakeBridges()
	config := json.RawMessage(`{"a":"<&>","n":2.50}`)
	ask := func(c Command, into any) {
		t.Helper()
		if err := Read(Bridge(t.Context(), d, "x-bridge", c.Encode("x")), "x", into); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	var got, schema json.RawMessage
	var status BridgeStatusList
	var tests BridgeTestList
	var letters DeadLetterList
	var n DeadLetterCount
	ask(UpdateBridgeConfig(config), nil)
	ask(GetBridgeConfig(), &got)
	ask(GetBridgeSchema(), &schema)
	ask(GetBridgeStatus(), &status)
	ask(TestBridge(config), &tests)
	ask(ListDeadLetters("c", 1, 2), &letters)
	ask(RetryDeadLetters("c", []string{"1"}), &n)
	ask(DeleteDeadLetters("c", nil), &n)
	want := []string{"set " + string(config), "test " + string(config), "list c 1 2", `retry c ["1"]`, `delete c []`}
	if diff := cmp.Diff(want, d.log); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
	if string(got) != string(d.config) || string(schema) != `{"type":"object","maximum":1.5}` {
		t.Errorf("config %s, schema %s", got, schema)
	}
	if len(status) != 1 || status[0].QueuedMessages != 1<<40 || status[0].Stats.Dropped != 4 || len(tests) != 1 || tests[0].Error == "" {
		t.Errorf("status %+v, tests %+v", status, tests)
	}
	if letters.Total != 3 || len(letters.DeadLetters) != 3 || letters.DeadLetters[2].RejectedAt.UnixMilli() != 1500 || n.Count != 1 {
		t.Errorf("dead letters %+v, count %d", letters, n.Count)
	}
	d.config = json.RawMessage(`{}`)
	if ask(GetBridgeStatus(), &status); len(status) != 0 {
		t.Errorf("status of none: %+v", status)
	}
}

func TestBridge_refusals_name_the_same_places(t *testing.T) {
	t.Parallel()
	err := Read(Bridge(t.Context(), newFakeBridges(), "x-bridge", UpdateBridgeConfig(json.RawMessage(`{"bad":1}`)).Encode("x")), "x", nil)
	r, ok := errors.AsType[*detailedRefusal](err)
	if !ok || refused(t, err) != r.Refusal {
		t.Fatalf("got %v", err)
	}
	e, _ := errors.AsType[*broker.Error](r.Classify("op", broker.CapBridges))
	want := &broker.Error{Kind: broker.Invalid, Op: "op", Msg: "the configuration cannot be used", Fields: []broker.Field{
		{Path: "connections[0].connection.url", Msg: "must be a URL"}, {Path: "x", Msg: "is unknown"}}}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Fields of another form are ignored.
	for _, fields := range []string{`5`, `["a"]`, `{}`, `[]`, `null`} {
		err := Read([]byte(`{"responses":[{"command":"c","error":"no","fields":`+fields+`,"correlationData":"x"}]}`), "x", nil)
		if got := refused(t, err); got != "no" {
			t.Errorf("fields %s: got %v", fields, err)
		}
	}
}

func TestRead_takes_what_bridges_of_others_write(t *testing.T) {
	t.Parallel()
	var list BridgeStatusList
	if err := Read(singleResponse(`[{"connectionName":"a","queuedMessages":3.0,"isConnected":1},{"connectionName":"b","isConnected":true,"stats":"?"}]`), "x", &list); err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(list, []broker.BridgeStatus{{ConnectionName: "a", QueuedMessages: 3}, {ConnectionName: "b", IsConnected: true}},
		func(a, b broker.BridgeStatus) bool {
			return a.ConnectionName == b.ConnectionName && a.QueuedMessages == b.QueuedMessages && a.IsConnected == b.IsConnected
		}) {
		t.Errorf("got %+v", list)
	}
	var config json.RawMessage
	odd := `{"responses":[{"command":"c","correlationData":5},{"command":"c","data":{"n":2.5},"correlationData":"x"}]}`
	if err := Read([]byte(odd), "x", &config); err != nil || string(config) != `{"n":2.5}` {
		t.Errorf("got %s, %v", config, err)
	}
	for _, data := range []string{`{}`, `"x"`, `null`} {
		if err := Read(singleResponse(data), "x", &list); err == nil {
			t.Errorf("a list that is %s", data)
		}
	}
}

func TestBridge_answers_are_bounded(t *testing.T) {
	t.Parallel()
	d := newFakeBridges()
	d.dead = maxResponse / 100
	got := string(Bridge(t.Context(), d, "x-bridge", ListDeadLetters("c", 0, -1).Encode("x")))
	if want := `{"responses":[{"command":"listDeadLetters","error":"Answer too large, use count and offset","correlationData":"x"}]}`; got != want {
		t.Errorf("got %.200s, want %s", got, want)
	}
}

func FuzzBridge(f *testing.F) {
	for _, seed := range []string{
		`{"commands":[{"command":"updateConfig","configChange":{"connections":[]}},{"command":"getConfig"},{"command":"getStatus"}]}`,
		`{"commands":[{"command":"listDeadLetters","connectionName":"c","offset":1,"count":-1},{"command":"testConfig","config":null}]}`,
		`{"commands":[{"command":"retryDeadLetters","connectionName":"c","ids":["1"]},{"command":"deleteDeadLetters","connectionName":"c","x":01}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		got := Bridge(t.Context(), newFakeBridges(), "x-bridge", payload)
		var m struct{ Responses []map[string]any }
		if err := json.Unmarshal(got, &m); err != nil || m.Responses == nil {
			t.Fatalf("%q is answered with %q", payload, got)
		}
		for _, into := range []any{&BridgeStatusList{}, &BridgeTestList{}, &DeadLetterList{}, &json.RawMessage{}} {
			if err := Read(payload, "x", into); errors.Is(err, context.Canceled) {
				t.Error("a reader has no context")
			}
		}
	})
}
