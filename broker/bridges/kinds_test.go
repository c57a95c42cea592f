package bridges_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/http"
	"signalbox/broker/bridges/influxdb"
	"signalbox/broker/bridges/kafka"
	"signalbox/broker/bridges/mqtt"
	"signalbox/broker/bridges/nats"
	"signalbox/broker/bridges/sql"
	"signalbox/broker/messaging"
)

// withAllKinds returns a host and an engine with the kinds of bridges of the product.
func withAllKinds(t *testing.T) (*bridges.Host, messaging.BridgeEngine) {
	t.Helper()
	kinds := []bridges.Kind{http.New(), influxdb.Kind{}, kafka.Kind{}, mqtt.New(), nats.Kind{}, sql.Kind{}}
	h := bridges.NewHost(&bridgestest.Store{}, kinds, slog.New(slog.DiscardHandler))
	e := h.Open("b", "here", &bridgestest.Broker{})
	t.Cleanup(func() { must(t, e.Close(context.Background())) })
	return h, e
}

// TestKinds checks that the schemas of all kinds have what forms and secrets need.
func TestKinds(t *testing.T) {
	t.Parallel()
	h, e := withAllKinds(t)
	for _, id := range h.Kinds() {
		text, err := e.GetBridgeSchema(t.Context(), id)
		must(t, err)
		var s map[string]any
		must(t, json.Unmarshal(text, &s))
		for _, member := range []string{"title", "description"} {
			if s[member] == "" {
				t.Errorf("%s: the schema has no %s", id, member)
			}
		}
		titled(t, id, s)
		for _, part := range []string{`"writeOnly":true`, `"x-address":true`} {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: nothing is %s", id, part)
			}
		}
		// A connection with only invalid members must not cause a panic.
		err = e.SetBridgeConfig(t.Context(), id, json.RawMessage(`{"connections":[{"name":"c","connection":{"nonsense":1},"topicMappings":[{"name":"m","mqttTopics":["a"]}]}]}`))
		wantKind(t, err, broker.Invalid)
	}
}

// titled checks that every property of a form has a title.
func titled(t *testing.T, path string, schema any) {
	t.Helper()
	switch v := schema.(type) {
	case []any:
		for _, e := range v {
			titled(t, path, e)
		}
	case map[string]any:
		properties, _ := v["properties"].(map[string]any)
		for name, p := range properties {
			m, _ := p.(map[string]any)
			if m["title"] == nil && m["$ref"] == nil && m["const"] == nil {
				t.Errorf("%s: %s has no title", path, name)
			}
			titled(t, path+"."+name, p)
		}
		for name, e := range v {
			if name != "properties" {
				titled(t, path, e)
			}
		}
	}
}
