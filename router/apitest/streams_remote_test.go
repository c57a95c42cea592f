package apitest_test

import (
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/router/apitest"
)

// TestStreamsOfABrokerThatIsDown are unavailable if they are the broker's own.
func TestStreamsOfABrokerThatIsDown(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	down := addBroker(t, api, object{"name": "down", "url": "mqtt://127.0.0.1:1"})
	waitFor(t, "the first attempt to connect", func() bool { return brokerRecord(api, down).Status.Error != "" })
	for _, c := range calls {
		api.Root.Do(c.method, api.BrokerAt(down, c.path), c.body).WantError(503, "BROKER_UNAVAILABLE")
	}
}

// TestStreamsOfMosquitto covers the life cycle of a stream on a broker that has none of
// its own.
func TestStreamsOfMosquitto(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addMosquitto(t, api)
	viewer, editor, at := api.Token("viewer", id), api.Token("editor", id), func(path string) string { return api.BrokerAt(id, path) }
	if got := brokerRecord(api, id).Capabilities; !slices.Contains(got, broker.CapStreams) {
		t.Errorf("capabilities: %q", got)
	}
	viewer.Post(at("/streams"), object{"streamname": "s", "sourceTopic": "plant/+", "targetTopic": "all", "persist": true}).Want(204)
	viewer.Post(at("/streams"), object{"streamname": "s", "sourceTopic": "a"}).WantError(400, "ALREADY_EXISTS")
	record := func() (s broker.Stream) {
		viewer.Get(at("/streams/detail?streamname=s")).Want(200).Decode(&s)
		return s
	}
	waitFor(t, "a message to pass", func() bool { // the time of the subscription is not reported
		editor.Post(at("/messages"), object{"topic": "plant/1", "payload": "x", "qos": 1}).Want(204)
		s := record()
		return s.Stats.Republished > 0 && s.Stats.Messages > 0
	})
	viewer.Put(at("/streams/replay"), object{"streamname": "s", "replayTopic": "plant/2"}).WantError(400, "INVALID_REQUEST")
	viewer.Put(at("/streams/replay"), object{"streamname": "s", "replayTopic": "again", "speed": 0}).Want(204)
	waitFor(t, "the end of the replay", func() bool { s := record(); return !s.Replaying && s.Stats.Replayed > 0 })
	viewer.Delete(at("/streams/messages?streamname=s")).Want(204)
	viewer.Delete(at("/streams?streamname=s")).Want(204)
	if got := strings.TrimSpace(string(viewer.Get(at("/streams")).Want(200).Body)); got != "[]" {
		t.Errorf("streams are left: %s", got)
	}
}

// TestStreamsOfASecondService manages the streams of one service's embedded broker from
// another, over the control topic.
func TestStreamsOfASecondService(t *testing.T) {
	t.Parallel()
	first, second := apitest.New(t, withAdminPassword), apitest.New(t)
	id := addBroker(t, second, object{"name": "first", "url": "mqtt://" + first.MQTT, "username": mqttAdmin, "password": mqttPassword})
	waitFor(t, "the connection", func() bool { return brokerRecord(second, id).Status.Connected })
	far := func(path string) string { return second.BrokerAt(id, path) }
	second.Root.Post(far("/streams"), object{"streamname": "s", "sourceTopic": "in", "persist": true, "ttl": 60,
		"query": object{"where": []object{{"operator": ">", "left": "[v]", "right": 2.5}}}}).Want(204)
	second.Root.Post(far("/streams"), object{"streamname": "s", "sourceTopic": "in"}).WantError(400, "ALREADY_EXISTS")
	second.Root.Post(far("/streams"), object{"streamname": "t", "sourceTopic": "$x"}).WantError(400, "INVALID_REQUEST")
	second.Root.Put(far("/streams/replay"), object{"streamname": "none", "replayTopic": "again"}).WantError(404, "NOT_FOUND")
	second.Root.Delete(far("/streams/replay?streamname=s")).WantError(400, "CONFLICT")
	p := join(t, first, 5, "writer", asAdmin)
	p.Publish("in", `{"v":3}`, 1)
	for _, path := range []string{"/streams", "/streams?verbose=false", "/streams/detail?streamname=s", "/streams/messages/count?streamname=s"} {
		near := string(first.Root.Get(first.At(path)).Want(200).Body)
		if got := string(second.Root.Get(far(path)).Want(200).Body); got != near {
			t.Errorf("%s:\nfar  %s\nnear %s", path, got, near)
		}
	}
	if n := countOf(first, "s"); n != 1 {
		t.Errorf("%d messages are kept, want 1", n)
	}
	second.Root.Delete(far("/streams/messages/range?streamname=s&gte=1")).Want(204)
	second.Root.Delete(far("/streams?streamname=s")).Want(204)
	first.Root.Get(first.At("/streams/detail?streamname=s")).WantError(404, "NOT_FOUND")
}
