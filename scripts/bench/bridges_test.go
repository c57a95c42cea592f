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
	p := &bridgedProduct{product: &product{api: newAPI(), clients: server.URL + "/b/clients"}}
	one := bridgeConnection{kind: httpBridge, name: "one", target: members{"url": "http://a"}, mapping: members{"batch": true}, topics: []string{"a/#"}}
	other := bridgeConnection{kind: natsBridge, name: "other", target: members{"servers": []string{"nats://b"}}, options: members{"batchSize": 1}, topics: []string{"b"}}
	changed := one
	changed.target = members{"url": "http://c"}
	for _, list := range [][]bridgeConnection{{one, other}, {changed}} {
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
	if !isConnected(s) || finished(s) != 12 || accepted(s) != 17 {
		t.Errorf("got %t, %d gone and %d taken, want true, 12 and 17", isConnected(s), finished(s), accepted(s))
	}
}

// TestRecipients checks that a comparison has its baselines.
func TestRecipients(t *testing.T) {
	t.Parallel()
	for qos := range byte(2) {
		list := recipients(qos, sink.Targets{NATS: "nats://here"}, "nats://nowhere")
		if base := list[1-qos]; !base.subscribed || base.persistent != (qos == 1) {
			t.Errorf("QoS %d: got %+v to compare with, want a subscriber who is as safe", qos, base)
		}
		for i, l := range list {
			if (l.via != nil) != (i > 1) || l.via != nil && l.subscribed {
				t.Errorf("QoS %d: got %+v in place %d", qos, l, i)
			}
		}
	}
}
