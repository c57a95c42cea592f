package main

import (
	"encoding/json"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
)

// measured is what "bench -o json" prints.
type measured struct {
	Version   string
	Published uint64
	Refused   uint64
	Expected  uint64
	Received  uint64
	Lost      uint64
	Late      uint64
	After     map[string]float64 `json:"received_after_ms"`
	Acked     map[string]float64 `json:"acknowledged_after_ms"`
}

// loaded starts a service with a user "load" who may publish and subscribe below load/, but
// receives nothing from load/deaf/1, and may publish nothing to load/mute/0.
func loaded(t *testing.T) (u *terminal, url string, credentials []string) {
	t.Helper()
	u = newTerminal(t)
	acl := func(kind, topic string, priority int, allow bool) map[string]any {
		return map[string]any{"acltype": kind, "topic": topic, "priority": priority, "allow": allow}
	}
	u.api.Root.Post(u.api.At("/roles"), map[string]any{"rolename": "load", "acls": []any{
		acl("publishClientSend", "load/#", 0, true), acl("publishClientReceive", "load/#", 0, true), acl("subscribePattern", "load/#", 0, true),
		acl("publishClientReceive", "load/deaf/1", 9, false), acl("publishClientSend", "load/mute/0", 9, false)}}).Want(204)
	u.api.Root.Post(u.api.At("/clients"), map[string]any{"username": "load", "password": "secret", "roles": []any{map[string]any{"rolename": "load"}}}).Want(204)
	return u, "mqtt://" + u.api.MQTT, []string{"--username", "load", "--password-file", u.file("mqtt", "secret\n")}
}

// bench runs a load that must succeed.
func (u *terminal) bench(url string, args ...string) (m measured) {
	u.t.Helper()
	got := u.done(append([]string{"bench", url, "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(got), &m); err != nil {
		u.t.Fatalf("%v in %s", err, got)
	}
	return m
}

// TestBench measures the embedded broker.
func TestBench(t *testing.T) {
	t.Parallel()
	u, url, credentials := loaded(t)
	with := func(args ...string) []string { return append(args, credentials...) }
	m := u.bench(url, with("--topic", "load/a", "--publishers", "3", "--subscribers", "2", "--qos", "1", "--rate", "300", "--duration", "500ms", "--patience", "1m")...)
	if m.Version != "5" || m.Published < 1 || m.Published > 150 || m.Expected != 2*m.Published || m.Received != m.Expected || m.Lost+m.Late != 0 {
		t.Errorf("with a rate: %+v", m)
	}
	if m.After["p50"] <= 0 || m.After["p50"] > m.After["p99"] || m.After["p99"] > m.After["max"] || m.Acked["max"] <= 0 {
		t.Errorf("latencies: %+v", m)
	}
	m = u.bench(url, with("--topic", "load/b", "--publishers", "2", "--subscribers", "3", "--own", "--qos", "2", "--duration", "300ms", "--patience", "1m")...)
	if m.Published < 2 || m.Received != m.Published {
		t.Errorf("of one's own publisher: %+v", m)
	}
	if got := u.done(append([]string{"bench", url, "--rate", "100", "--duration", "100ms", "--patience", "1m"}, with("--topic", "load/c")...)...); !strings.Contains(got, "(100 wanted), QoS 0, 100 bytes") || !strings.Contains(got, "received after") {
		t.Errorf("as text: %s", got)
	}
}

// TestBenchAtMosquitto measures a broker that needs no log-in.
func TestBenchAtMosquitto(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	url := brokertest.Mosquitto(t, brokertest.WithoutPlugin()).Target().URL
	if m := u.bench(url, "--qos", "1", "--rate", "100", "--duration", "100ms", "--patience", "1m"); m.Received != m.Published || m.Lost != 0 {
		t.Errorf("got %+v", m)
	}
}

// TestBenchFails reports what the broker does not keep, and what cannot be measured.
func TestBenchFails(t *testing.T) {
	t.Parallel()
	u, url, credentials := loaded(t)
	load := func(args ...string) finished {
		return u.run(append(append([]string{"bench", url, "--qos", "1", "--rate", "100", "--duration", "100ms", "--publishers", "2", "--patience", "500ms"}, args...), credentials...)...)
	}
	if got := load("--topic", "load/deaf"); got.code != 1 || !strings.Contains(got.errors, "messages were lost") {
		t.Errorf("lost messages: %+v", got)
	}
	if got := load("--topic", "load/mute"); got.code != 1 || !strings.Contains(got.errors, "the broker refused") {
		t.Errorf("refused messages: %+v", got)
	}
	if got := load("--topic", "elsewhere"); got.code != 6 || !strings.Contains(got.errors, "refuses the subscription to elsewhere/+") {
		t.Errorf("a refused subscription: %+v", got)
	}
	u.refused(6, "password", "bench", url, "--username", "load", "--password-file", u.file("wrong", "guess"))
	u.refused(6, "127.0.0.1:1", "bench", "mqtt://127.0.0.1:1")
	u.refused(2, "must begin with mqtt://", "bench", "http://127.0.0.1")
	u.refused(2, "expects URL", "bench")
	u.refused(2, "--size: must be from 16", "bench", url, "--size", "3", "--qos", "9")
	u.refused(2, "--qos: must be from 0 to 2", "bench", url, "--size", "3", "--qos", "9")
	u.refused(2, "without wildcards", "bench", url, "--topic", "a/#")
	u.refused(2, "has no certificate", "bench", url, "--ca-file", u.file("ca", "none"))
}
