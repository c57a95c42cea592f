package apitest_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker"
	bridgestore "signalbox/broker/bridges/store"
	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/broker/storage"
	"signalbox/handlers"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// TestBridgesOfMosquitto delivers messages of a broker that has no bridges of its own,
// next to a stream.
func TestBridgesOfMosquitto(t *testing.T) {
	t.Parallel()
	dir, server := t.TempDir(), newHTTPTarget(t)
	api := apitest.New(t, apitest.In(dir))
	id := addMosquitto(t, api)
	if got := brokerRecord(api, id).Capabilities; !slices.Contains(got, broker.CapBridges) || isActive(t, api, id) {
		t.Errorf("capabilities: %q", got)
	}
	config := toHTTPTarget(server.URL, "", nil)
	config["connections"].([]object)[0]["topicMappings"] = []object{{"name": "m", "mqttTopics": []string{"in/#", "streamed"}, "body": "${payload}", "contentType": "text/plain"}}
	api.Root.Post(api.BrokerAt(id, "/streams"), object{"streamname": "s", "sourceTopic": "in/stream", "targetTopic": "streamed", "persist": true}).Want(204)
	api.Root.Put(bridgeAt(api, id, "/config"), config).Want(204)
	publish := func(topic, payload string) {
		t.Helper()
		api.Root.Post(api.BrokerAt(id, "/messages"), object{"topic": topic, "payload": payload, "qos": 1}).Want(204)
	}
	publish("in/1", "one")
	publish("in/1", "two")
	server.waitReceived("one", "two")
	publish("in/stream", "three")
	waitFor(t, "what a stream publishes", func() bool { return len(server.received()) == 4 })
	waitFor(t, "the queue to be empty", func() bool { return statusOf(t, api, id).QueuedMessages == 0 }) // the bridge has processed each response
	if !isActive(t, api, id) || isActive(t, api, api.Embedded) {
		t.Error("active is the bridge of Mosquitto alone")
	}
	if s := statusOf(t, api, id); !s.IsConnected || s.Stats.Received != 4 {
		t.Errorf("status %+v, %+v", s, s.Stats)
	}
	server.stop()
	publish("in/1", "five")
	waitFor(t, "a message to wait", func() bool { return statusOf(t, api, id).QueuedMessages == 1 })
	api.Stop()

	api = apitest.New(t, apitest.In(dir))
	server.start()
	waitFor(t, "what waited to be delivered", func() bool { return slices.Contains(server.received(), "five") })
	waitFor(t, "the connection to the broker", func() bool { return brokerRecord(api, id).Status.Connected })
	api.Root.Put(bridgeAt(api, id, "/config"), object{"connections": []object{}}).Want(204)
	if isActive(t, api, id) {
		t.Error("the bridge is still active")
	}
}

// TestBridgesOfASecondService manages the bridges of one service's embedded broker from
// another, over the control topics.
func TestBridgesOfASecondService(t *testing.T) {
	t.Parallel()
	first, second, server := apitest.New(t, withAdminPassword), apitest.New(t), newHTTPTarget(t)
	id := addBroker(t, second, object{"name": "first", "url": "mqtt://" + first.MQTT, "username": mqttAdmin, "password": mqttPassword})
	waitFor(t, "the connection", func() bool { return brokerRecord(second, id).Status.Connected })
	far := func(path string) string { return bridgeAt(second, id, path) }
	second.Root.Put(far("/config"), toHTTPTarget(server.URL, bridgeSecret, object{"maxAttempts": 1})).Want(204)
	p := join(t, first, 5, "writer", asAdmin)
	p.Publish("in/1", "one", 1)
	server.waitReceived("one")
	server.status.Store(422)
	p.Publish("in/1", "two", 1)
	p.Publish("in/1", "three", 1)
	waitFor(t, "two dead letters", func() bool { // counted as rejected only once they exist
		s := statusOf(t, first, first.Embedded).Stats
		return s.DeadLetters == 2 && s.Rejected == 2
	})
	same := func(path string) {
		t.Helper()
		near := string(first.Root.Get(bridgeAt(first, first.Embedded, path)).Want(200).Body)
		if got := string(second.Root.Get(far(path)).Want(200).Body); got != near {
			t.Errorf("%s:\nfar  %s\nnear %s", path, got, near)
		}
	}
	for _, path := range []string{"/config", "/schema", "/status", "/connections/c/deadletters", "/connections/c/deadletters?offset=1&count=1"} {
		same(path)
	}
	near := string(first.Root.Get(first.At("/bridges")).Want(200).Body)
	if got := string(second.Root.Get(second.BrokerAt(id, "/bridges")).Want(200).Body); got != near {
		t.Errorf("bridges:\nfar  %s\nnear %s", got, near)
	}
	shown := second.Root.Get(far("/config")).Want(200).Body
	second.Root.Put(far("/config"), apitest.Text(shown)).Want(204)
	same("/config")
	for _, body := range []any{nil, apitest.Text(shown)} {
		var tested []broker.BridgeTest
		second.Root.Post(far("/test"), body).Want(200).Decode(&tested)
		if len(tested) != 1 || tested[0].ConnectionName != "c" {
			t.Errorf("tested %+v", tested)
		}
	}
	bad := object{"connections": []object{{"name": "c", "connection": object{"url": "ftp://x", "token": mask}}}}
	want := first.Root.Put(bridgeAt(first, first.Embedded, "/config"), bad).WantError(400, "INVALID_REQUEST")
	if got := second.Root.Put(far("/config"), bad).WantError(400, "INVALID_REQUEST"); !slices.Equal(got.Fields(), want.Fields()) || len(got.Fields()) == 0 {
		t.Errorf("bad fields: far %q, near %q", got.Fields(), want.Fields())
	}
	var n struct{ Count int }
	second.Root.Delete(far("/connections/c/deadletters")).Want(200).Decode(&n)
	if n.Count != 2 || len(deadLetters(first, first.Embedded, "")) != 0 {
		t.Errorf("%d were deleted", n.Count)
	}
	second.Root.Post(far("/connections/none/deadletters/retry"), nil).WantError(404, "NOT_FOUND")
	second.Root.Get(strings.Replace(far("/config"), "http-bridge", "none-bridge", 1)).WantError(404, "NOT_FOUND")
}

// TestBridgesOfABrokerThatIsDown are unavailable if they are the broker's own.
func TestBridgesOfABrokerThatIsDown(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	down := addBroker(t, api, object{"name": "down", "url": "mqtt://127.0.0.1:1"})
	waitFor(t, "the first attempt to connect", func() bool { return brokerRecord(api, down).Status.Error != "" })
	api.Root.Get(api.BrokerAt(down, "/bridges")).WantError(503, "BROKER_UNAVAILABLE")
	for _, c := range bridgeCalls {
		api.Root.Do(c.method, bridgeAt(api, down, c.path), c.body).WantError(503, "BROKER_UNAVAILABLE")
	}
}

// logBuffer is a log that a test reads.
type logBuffer struct {
	mu   sync.Mutex // protects text
	text strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestBridgeSecretsAreNeverShown: neither by an operation, nor on a control topic,
// nor in the log, also when the target echoes its input.
func TestBridgeSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	log, server := &logBuffer{}, newHTTPTarget(t)
	api := apitest.NewLogged(t, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), withAdminPassword, withScrapeToken)
	at := func(path string) string { return bridgeAt(api, api.Embedded, path) }
	config := toHTTPTarget(server.URL, bridgeSecret, nil)
	connection := config["connections"].([]object)[0]["connection"].(object)
	connection["secretHeaders"] = object{"X-Key": bridgeSecret}
	connection["hmac"] = object{"secret": bridgeSecret}
	api.Root.Put(at("/config"), config).Want(204)
	d, p := join(t, api, 5, "reader", asAdmin), join(t, api, 5, "writer", asAdmin)
	topic := control.BridgeTopic("http-bridge")
	d.SubscribeTo(filter(topic+"/response", 0))
	p.Publish("in/1", "one", 1)
	server.waitReceived("one")
	server.status.Store(422)
	p.Publish("in/1", "two", 1)
	waitFor(t, "a dead letter", func() bool { return len(deadLetters(api, api.Embedded, "")) == 1 })
	connection["url"] = server.URL + "/elsewhere"
	connection["token"] = mask
	var shown []string
	for _, answer := range []*apitest.Response{
		api.Root.Get(at("/config")), api.Root.Get(at("/status")), api.Root.Get(at("/schema")), api.Root.Get(at("/connections/c/deadletters")),
		api.Root.Get(api.At("/bridges")), api.Root.Get(api.At("/access/export")), api.Root.Get(api.At("")), api.Root.Get("/metrics"),
		api.Root.Get("/api/projects/" + api.Project + "/settings"), api.Root.Put(at("/config"), config), api.Root.Post(at("/test"), config), api.Root.Post(at("/test"), nil),
	} {
		shown = append(shown, string(answer.Body))
	}
	for _, command := range []string{`{"command":"getConfig"}`, `{"command":"updateConfig","configChange":{"connections":[{"name":"x","connection":{"url":"` + bridgeSecret + `://x"}}]}}`, `{"command":"getStatus"}`} {
		p.Publish(topic, `{"commands":[`+command+`]}`, 1)
		pk := d.Want(packet.Publish)
		if strings.HasPrefix(command, `{"command":"getC`) && !strings.Contains(string(pk.Payload), mask) {
			t.Errorf("%s is answered with %s", command, pk.Payload)
		}
		shown = append(shown, string(pk.Payload))
	}
	api.Stop()
	shown = append(shown, log.String())
	for _, text := range shown {
		if i := strings.Index(text, bridgeSecret); i >= 0 {
			t.Errorf("a secret is shown: …%s", text[max(i-200, 0):min(i+100, len(text))])
		}
	}
}

// TestDeletedBrokersForgetTheirBridges, deleted alone or with their project. The
// brokers are down, so their bridges are stored beforehand.
func TestDeletedBrokersForgetTheirBridges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	api := apitest.New(t, apitest.In(dir))
	var project handlers.ProjectRecord
	api.Root.Post("/api/projects", object{"name": "short-lived"}).Want(200).Decode(&project)
	purge := "/api/projects/" + project.ID
	down := object{"name": "down", "url": "mqtt://127.0.0.1:1"}
	stays, deleted := addBroker(t, api, down), addBroker(t, api, down)
	var purged handlers.Identifier
	api.Root.Post(purge+"/brokers", down).Want(200).Decode(&purged)
	seal := api.Handlers.Vault
	open := func() *bridgestore.Store {
		s, err := bridgestore.Open(t.Context(), filepath.Join(dir, "bridges.db"), bridgestore.Options{
			Durability: storage.Durability("full"), Seal: seal, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	api.Stop()
	ids := []string{stays, deleted, purged.ID}
	kept := open()
	for _, id := range ids {
		if err := kept.PutConfig(t.Context(), id, "http-bridge", []byte(`{"version":"v1","connections":[]}`), nil); err != nil {
			t.Fatal(err)
		}
	}
	kept.Close(t.Context()) //nolint:errcheck // what was not stored is missing below

	api = apitest.New(t, apitest.In(dir))
	api.Root.Delete(api.BrokerAt(deleted, "")).Want(204)
	api.Root.Delete(purge + "?purge=true").Want(204)
	api.Stop()
	kept = open()
	defer kept.Close(t.Context()) //nolint:errcheck // it is only read
	for i, want := range []int{1, 0, 0} {
		if all, err := kept.Configs(t.Context(), ids[i]); err != nil || len(all) != want {
			t.Errorf("broker %d: %d bridges are stored, %v, want %d", i, len(all), err, want)
		}
	}
}

// TestBridgeMetrics checks the metrics of the messages of each connection.
func TestBridgeMetrics(t *testing.T) {
	t.Parallel()
	api, server := apitest.New(t, withAdminPassword, withScrapeToken), newHTTPTarget(t)
	api.Root.Put(bridgeAt(api, api.Embedded, "/config"), toHTTPTarget(server.URL, "", nil)).Want(204)
	p := join(t, api, 5, "writer", asAdmin)
	p.Publish("in/1", "one", 1)
	server.waitReceived("one")
	waitFor(t, "the queue to be empty", func() bool { return statusOf(t, api, api.Embedded).QueuedMessages == 0 })
	all := metrics(api)
	for name, want := range map[string]string{"connected": "1", "queued_messages": "0", "queued_bytes": "0", "dead_letters": "0", "received_total": "1",
		"delivered_total": "1", "dropped_total": "0", "rejected_total": "0", "retries_total": "0", "inbound_total": "0", "looped_total": "0"} {
		series := "signalbox_bridge_" + name + `{bridge="http-bridge",broker="embedded",connection="c"}`
		if got, ok := all[series]; !ok || got != want {
			t.Errorf("%s is %q, want %q", series, got, want)
		}
	}
}

// TestBridgesNeedTheirKey: a service whose only secrets are configurations of bridges
// creates no new key.
func TestBridgesNeedTheirKey(t *testing.T) {
	t.Parallel()
	dir, server := t.TempDir(), newHTTPTarget(t)
	api := apitest.New(t, apitest.In(dir))
	api.Root.Put(bridgeAt(api, api.Embedded, "/config"), toHTTPTarget(server.URL, bridgeSecret, nil)).Want(204)
	api.Stop()
	key := filepath.Join(dir, "secret.key")
	if err := os.Rename(key, key+".away"); err != nil {
		t.Fatal(err)
	}
	c := appliance.DefaultConfig()
	c.DataDir, c.HTTP.Listen, c.Broker.Listen = dir, "127.0.0.1:0", "127.0.0.1:0"
	if a, err := appliance.Start(t.Context(), c, appliance.Program{Version: "test"}, slog.New(slog.DiscardHandler)); err == nil {
		a.Stop() //nolint:errcheck // it should not run
		t.Fatal("the service runs without its key")
	} else if !strings.Contains(err.Error(), "secret.key") {
		t.Errorf("error %v does not name the key", err)
	}
	if err := os.Rename(key+".away", key); err != nil {
		t.Fatal(err)
	}
	again := apitest.New(t, apitest.In(dir))
	if !isActive(t, again, again.Embedded) {
		t.Error("the bridge is gone")
	}
}
