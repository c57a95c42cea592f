package mqtt_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
)

// TestTransports connects over TLS and WebSockets, and with MQTT 3.1.1.
func TestTransports(t *testing.T) {
	t.Parallel()
	a := signalbox(t, "A")
	m, server := mosquitto(t, brokertest.WithTLS(), brokertest.WithWebSockets())
	ca := map[string]any{"caCertificate": string(server.CA.PEM)}
	for name, connection := range map[string]map[string]any{
		"mqtts": {"url": server.TLSURL, "tls": ca}, "wss": {"url": server.WSSURL, "tls": ca}, "ws": {"url": server.WSURL},
		"5": {"protocolVersion": "5"}, "3.1.1": {"protocolVersion": "3.1.1"}, "clean": {"cleanStart": true},
		"clean 3.1.1": {"cleanStart": true, "protocolVersion": "3.1.1"},
	} {
		l := link{to: m, connection: connection, mappings: []map[string]any{
			{"name": "out", "mqttTopics": []string{"out/#"}}, {"name": "in", "mqttTopics": []string{"in/#"}, "direction": "in"},
		}}
		a.bridge(t, l)
		here, there := join(t, a, "in/#"), join(t, m, "out/#")
		here.send("out/"+name, "x", 2, false)
		there.send("in/"+name, "x", 1, false)
		here.want("here by "+name, "in/"+name+"=x/1")
		there.want("there by "+name, "out/"+name+"=x/2")
		here.leave()
		there.leave()
	}
}

// TestWrongTLS checks the error for an untrusted certificate, with the names of the settings.
func TestWrongTLS(t *testing.T) {
	t.Parallel()
	a := signalbox(t, "A")
	m, server := mosquitto(t, brokertest.WithTLS())
	l := all(m, "out")
	l.connection = map[string]any{"url": server.TLSURL}
	tests, err := a.embedded.TestBridge(t.Context(), "mqtt-bridge", document(t, l))
	if err != nil || len(tests) != 1 || tests[0].IsConnected || !strings.Contains(tests[0].Error, "as tls.caCertificate") {
		t.Errorf("TestBridge() = %+v, %v", tests, err)
	}
	l.connection["tls"] = map[string]any{"verify": false}
	if tests, err = a.embedded.TestBridge(t.Context(), "mqtt-bridge", document(t, l)); err != nil || !tests[0].IsConnected {
		t.Errorf("TestBridge() = %+v, %v", tests, err)
	}
}

// TestLoopOverMQTT311 checks that a loop over MQTT 3.1.1 is refused.
func TestLoopOverMQTT311(t *testing.T) {
	t.Parallel()
	a := signalbox(t, "A")
	m, _ := mosquitto(t)
	l := all(m, "both")
	l.connection = map[string]any{"protocolVersion": "3.1.1"}
	a.configure(t, l)
	brokertest.WaitFor(t, "the error says so", func() bool {
		s := a.status(t)[0]
		return !s.IsConnected && strings.Contains(s.Error, "MQTT 3.1.1 only")
	})
}

// TestBridgeToItself checks that a bridge from a broker to itself is refused.
func TestBridgeToItself(t *testing.T) {
	t.Parallel()
	a := signalbox(t, "A")
	a.configure(t, all(a, "out"))
	brokertest.WaitFor(t, "the error says so", func() bool {
		return strings.Contains(a.status(t)[0].Error, "to which this bridge belongs")
	})
}

// TestNotifications checks that both brokers have the bridge's connection state.
func TestNotifications(t *testing.T) {
	t.Parallel()
	a := signalbox(t, "A")
	m, server := mosquitto(t)
	const topic = "$SYS/broker/connection/mine/state"
	proxy := brokertest.NewProxy(t, server.Addr)
	l := all(m, "out")
	l.addr, l.connection = proxy.Addr, map[string]any{"clientId": "mine"}
	a.bridge(t, l)
	here, there := join(t, a, topic), join(t, m, topic)
	last := func(c *client) string {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.got) == 0 {
			return ""
		}
		return string(c.got[len(c.got)-1].Payload)
	}
	both := func(state string) {
		t.Helper()
		brokertest.WaitFor(t, "both tell "+state, func() bool { return last(here) == state && last(there) == state })
	}
	both("1")
	proxy.Refuse()
	proxy.Cut()
	both("0")
	proxy.Pass()
	both("1")
	l.disabled = true
	a.configure(t, l)
	both("0")
}

// TestDocument checks all problems of a document.
func TestDocument(t *testing.T) {
	t.Parallel()
	a := signalbox(t, "A")
	mapping := func(members string) string {
		return `{"connections":[{"name":"c","connection":{"url":"mqtt://h"},"topicMappings":[` + members + `]}]}`
	}
	for name, c := range map[string]struct {
		document string
		want     []string
	}{
		"no url":           {`{"connections":[{"name":"c","connection":{},"topicMappings":[]}]}`, []string{"connections[0].connection.url"}},
		"credentials":      {`{"connections":[{"name":"c","connection":{"url":"mqtt://u:p@h"},"topicMappings":[]}]}`, []string{"connections[0].connection.url"}},
		"no TLS":           {`{"connections":[{"name":"c","connection":{"url":"mqtt://h","tls":{"enabled":true}},"topicMappings":[]}]}`, []string{"connections[0].connection.tls.enabled"}},
		"a bad CA":         {`{"connections":[{"name":"c","connection":{"url":"wss://h","tls":{"caCertificate":"x"}},"topicMappings":[]}]}`, []string{"connections[0].connection.tls.caCertificate"}},
		"a bad topic":      {`{"connections":[{"name":"c","connection":{"url":"mqtt://h","notificationTopic":"a/#"},"topicMappings":[]}]}`, []string{"connections[0].connection.notificationTopic"}},
		"a bad filter":     {mapping(`{"name":"t","mqttTopics":["a","a#"]}`), []string{"connections[0].topicMappings[0].mqttTopics[1]"}},
		"shared":           {mapping(`{"name":"t","mqttTopics":["$share/g/a"]}`), []string{"connections[0].topicMappings[0].mqttTopics[0]"}},
		"$ here":           {mapping(`{"name":"t","mqttTopics":["$SYS/#"],"direction":"in"}`), []string{"connections[0].topicMappings[0].mqttTopics[0]"}},
		"a wild prefix":    {mapping(`{"name":"t","mqttTopics":["a"],"localPrefix":"+/"}`), []string{"connections[0].topicMappings[0].localPrefix"}},
		"a bad direction":  {mapping(`{"name":"t","mqttTopics":["a"],"direction":"up"}`), []string{"connections[0].topicMappings[0].direction"}},
		"a collision":      {mapping(`{"name":"t","mqttTopics":["a/#"]},{"name":"u","mqttTopics":["+/b"],"direction":"both"}`), []string{"connections[0].topicMappings[1].mqttTopics"}},
		"other prefixes":   {mapping(`{"name":"t","mqttTopics":["a/#"]},{"name":"u","mqttTopics":["a/b"],"remotePrefix":"x/"}`), nil},
		"other directions": {mapping(`{"name":"t","mqttTopics":["a/#"]},{"name":"u","mqttTopics":["a/b"],"direction":"in"}`), nil},
		"$ there":          {mapping(`{"name":"t","mqttTopics":["#"],"direction":"in","remotePrefix":"$SYS/","localPrefix":"sys/"}`), nil},
		"a prefix only":    {mapping(`{"name":"t","mqttTopics":[""],"remotePrefix":"a","localPrefix":"b"}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := a.embedded.TestBridge(t.Context(), "mqtt-bridge", json.RawMessage(strings.Replace(c.document, `"name":"c",`, `"name":"c","enabled":false,`, 1)))
			var got []string
			if e, ok := errors.AsType[*broker.Error](err); ok {
				for _, f := range e.Fields {
					got = append(got, f.Path)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q: %v", got, c.want, err)
			}
		})
	}
}
