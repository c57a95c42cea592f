//go:build linux

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"signalbox/broker"
	"signalbox/scripts/bench/sink"
)

// TestConnect configures connections of two kinds, and replaces one of them.
func TestConnect(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPut {
			t.Errorf("got %s and %v, want a configuration", r.Method, err)
		}
		got[r.URL.Path] = string(body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	p := &bridging{product: &product{api: newAPI(), clients: server.URL + "/b/clients"}}
	one := conduit{kind: httpBridge, name: "one", target: members{"url": "http://a"}, mapping: members{"batch": true}, topics: []string{"a/#"}}
	other := conduit{kind: natsBridge, name: "other", target: members{"servers": []string{"nats://b"}}, options: members{"batchSize": 1}, topics: []string{"b"}}
	changed := one
	changed.target = members{"url": "http://c"}
	for _, list := range [][]conduit{{one, other}, {changed}} {
		if err := p.connect(t.Context(), list...); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"/b/bridges/http-bridge/config": `{"connections":[{"connection":{"url":"http://c"},"name":"one","topicMappings":[{"batch":true,"mqttTopics":["a/#"],"name":"all"}]}]}`,
		"/b/bridges/nats-bridge/config": `{"connections":[{"connection":{"servers":["nats://b"]},"name":"other","options":{"batchSize":1},"topicMappings":[{"mqttTopics":["b"],"name":"all"}]}]}`,
	} {
		if got[path] != want {
			t.Errorf("%s: got %s, want %s", path, got[path], want)
		}
	}
}

// TestCounts compares the counts that loads wait for with a status.
func TestCounts(t *testing.T) {
	t.Parallel()
	var s broker.BridgeStatus
	const state = `{"connectionName":"c","isConnected":true,"queuedMessages":5,"stats":{"received":17,"delivered":7,"dropped":3,"rejected":2}}`
	if err := json.Unmarshal([]byte(state), &s); err != nil {
		t.Fatal(err)
	}
	if !reached(s) || gone(s) != 12 || taken(s) != 17 {
		t.Errorf("got %t, %d gone and %d taken, want true, 12 and 17", reached(s), gone(s), taken(s))
	}
}

// TestListeners checks that a comparison has its baselines.
func TestListeners(t *testing.T) {
	t.Parallel()
	for qos := range byte(2) {
		list := listeners(qos, sink.Targets{NATS: "nats://here"}, "nats://nowhere")
		if base := list[1-qos]; !base.heard || base.kept != (qos == 1) {
			t.Errorf("QoS %d: got %+v to compare with, want a subscriber who is as safe", qos, base)
		}
		for i, l := range list {
			if (l.via != nil) != (i > 1) || l.via != nil && l.heard {
				t.Errorf("QoS %d: got %+v in place %d", qos, l, i)
			}
		}
	}
}
