package apitest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/handlers"
	"signalbox/router/apitest"
)

// TestSecondServiceSeesTheSame manages one service's embedded broker from
// another, which reaches it over MQTT.
func TestSecondServiceSeesTheSame(t *testing.T) {
	t.Parallel()
	first, second := apitest.New(t, withAdminPassword), apitest.New(t)
	id := addBroker(t, second, object{"name": "first", "url": "mqtt://" + first.MQTT, "username": mqttAdmin, "password": mqttPassword})
	waitFor(t, "the connection", func() bool { return brokerRecord(second, id).Status.Connected })
	at := func(path string) string { return second.BrokerAt(id, path) }
	d := join(t, first, 5, "pump 7&", asAdmin, persistent, func(pk *packet.Packet) {
		pk.Connect.HasWill, pk.Connect.Will.Topic, pk.Connect.Will.Payload = true, "gone", []byte{0xff}
		pk.Connect.Will.Properties.WillDelay = 5
	})
	d.SubscribeTo(filter("a/#", 1))

	query := "/client-inspect/detail?clientid=pump%207%26"
	near, far := first.Root.Get(first.At(query)).Want(200), second.Root.Get(at(query)).Want(200)
	if diff := cmp.Diff(string(near.Body), string(far.Body)); diff != "" {
		t.Errorf("detail (-near +far):\n%s", diff)
	}
	near, far = first.Root.Get(first.At("/client-inspect?offset=1")).Want(200), second.Root.Get(at("/client-inspect?offset=1")).Want(200)
	if near.Header.Get("X-Total-Count") != "2" || far.Header.Get("X-Total-Count") != "2" { // the pump, and the second service itself
		t.Errorf("X-Total-Count: near %s, far %s, want 2", near.Header.Get("X-Total-Count"), far.Header.Get("X-Total-Count"))
	}
	var nearLicense, farLicense broker.License
	first.Root.Get(first.At("/license")).Want(200).Decode(&nearLicense)
	second.Root.Get(at("/license")).Want(200).Decode(&farLicense)
	if diff := cmp.Diff(nearLicense, farLicense); diff != "" {
		t.Errorf("licence (-near +far):\n%s", diff)
	}
	var nearListeners, farListeners []broker.Listener
	first.Root.Get(first.At("/listeners")).Want(200).Decode(&nearListeners)
	second.Root.Get(at("/listeners")).Want(200).Decode(&farListeners)
	for i := range nearListeners {
		nearListeners[i].Connections = nil // Mosquitto's listListeners does not have it
	}
	if diff := cmp.Diff(nearListeners, farListeners); diff != "" {
		t.Errorf("listeners (-near +far):\n%s", diff)
	}

	second.Root.Post(at("/messages"), object{"topic": "a/1", "payload": "from afar", "qos": 1, "retain": true}).Want(204)
	d.WantMessage("a/1", "from afar")
	var deleted handlers.DeletedCount
	if second.Root.Delete(at("/messages/retained?filter=a/%23")).Want(200).Decode(&deleted); deleted.Deleted != 1 {
		t.Errorf("%d deleted, want 1", deleted.Deleted)
	}
	first.Root.Get(first.At("/messages/retained?topic=a/1")).WantError(404, "NOT_FOUND")
	check := "/access-check?action=publish&topic=%24SYS/x&username=" + mqttAdmin
	near, far = first.Root.Get(first.At(check)).Want(200), second.Root.Get(at(check)).Want(200)
	if diff := cmp.Diff(string(near.Body), string(far.Body)); diff != "" || !strings.Contains(string(near.Body), `"allowed":false`) {
		t.Errorf("access check (-near +far):\n%s", diff)
	}
	if pk := d.Want(packet.Publish); len(pk.Payload) != 0 { // an empty message deleted what was retained there
		t.Errorf("came %q", pk.Payload)
	}
	second.Root.Delete(at("/client-inspect/connection?clientid=pump%207%26")).Want(204)
	d.WantDisconnect(0x98)
	second.Root.Get(at("/bans")).WantError(405, "NOT_SUPPORTED")
}
