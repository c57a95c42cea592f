package embedded

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// operator joins as the administrator, subscribed to the responses on a control topic.
func operator(t *testing.T, b *Broker, topic string) *device {
	t.Helper()
	d := join(t, b, 5, as(adminName, adminPassword), withID("operator"))
	if codes := d.Subscribe(0, topic+control.ResponseSuffix); codes[0] != 0 {
		t.Fatalf("SUBACK code %d", codes[0])
	}
	return d
}

// ask sends one command on a control topic and returns its entry of the response.
func (d *device) ask(topic, command string) string {
	d.T.Helper()
	if code := d.Publish(topic, `{"commands":[`+command+`]}`, 1); code != 0 {
		d.T.Fatalf("PUBACK code %d", code)
	}
	pk := d.Want(packet.Publish)
	var answer struct{ Responses []json.RawMessage }
	if err := json.Unmarshal(pk.Payload, &answer); err != nil || len(answer.Responses) != 1 || pk.Topic != topic+control.ResponseSuffix {
		d.T.Fatalf("on %s: received %q", pk.Topic, pk.Payload)
	}
	return string(answer.Responses[0])
}

func (d *device) wantAnswers(topic string, exchanges [][2]string) {
	d.T.Helper()
	for _, e := range exchanges {
		if diff := cmp.Diff(e[1], d.ask(topic, e[0])); diff != "" {
			d.T.Errorf("%s (-want +got):\n%s", e[0], diff)
		}
	}
}

func TestInspectOverMQTT(t *testing.T) {
	t.Parallel()
	b := start(t)
	join(t, b, 4, as(adminName, adminPassword), withID("a"))
	join(t, b, 5, as(adminName, adminPassword), withID("z"))
	d := operator(t, b, control.InspectTopic)
	d.wantAnswers(control.InspectTopic, [][2]string{
		{`{"command":"listClients","correlationData":"1"}`,
			`{"command":"listClients","data":{"totalCount":3,"clients":["a","operator","z"]},"correlationData":"1"}`},
		{`{"command":"listClients","offset":1,"count":1}`, `{"command":"listClients","data":{"totalCount":3,"clients":["operator"]}}`},
		{`{"command":"getClient","clientid":"nobody"}`, `{"command":"getClient","error":"Client not found"}`},
		{`{"command":"getClient"}`, `{"command":"getClient","error":"Invalid/missing clientid"}`},
		{`{"command":"dance"}`, `{"command":"dance","error":"Unknown command"}`},
	})

	var list struct {
		Data struct{ Clients []broker.ConnectedClient }
	}
	var one struct{ Data broker.ConnectedClientDetail }
	read(t, d.ask(control.InspectTopic, `{"command":"listClients","verbose":true,"count":1}`), &list)
	read(t, d.ask(control.InspectTopic, `{"command":"getClient","clientid":"a"}`), &one)
	want, err := b.InspectClient(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, one.Data); diff != "" {
		t.Errorf("getClient (-in process +over MQTT):\n%s", diff)
	}
	if c := list.Data.Clients; len(c) != 1 || c[0].ClientID != "a" || c[0].ProtocolVersion != "v3.1.1" || c[0].LastConnect != want.LastConnect {
		t.Errorf("listClients, verbose: %+v", c)
	}
}

func read(t *testing.T, answer string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(answer), into); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
}

func TestClientControlOverMQTT(t *testing.T) {
	t.Parallel()
	b := start(t)
	c := join(t, b, 5, as(adminName, adminPassword), withID("c"))
	d := operator(t, b, control.ClientControlTopic)
	d.wantAnswers(control.ClientControlTopic, [][2]string{
		{`{"command":"subscribeClient","clientid":"c","topic":"a/#","qos":1,"subscription_identifier":5,"options":{"no_local":true,"send_retain":"never"}}`,
			`{"command":"subscribeClient","data":{}}`},
		{`{"command":"subscribeClient","clientid":"nobody","topic":"a","qos":1}`, `{"command":"subscribeClient","error":"Client not found"}`},
		{`{"command":"subscribeClient","clientid":"c","topic":"a"}`, `{"command":"subscribeClient","error":"Invalid/missing qos"}`},
		{`{"command":"subscribeClient","clientid":"c","topic":"$share/g/a","qos":1,"options":{"no_local":true}}`,
			`{"command":"subscribeClient","error":"noLocal: must not be set for a shared subscription"}`},
	})
	c.Publish("a/1", "its own", 0)
	d.Publish("a/1", "another's", 1)
	if pk := c.Want(packet.Publish); string(pk.Payload) != "another's" || !cmp.Equal(pk.Properties.SubscriptionIDs, []uint32{5}) {
		t.Errorf("received %q with identifiers %v", pk.Payload, pk.Properties.SubscriptionIDs)
	}
	d.wantAnswers(control.ClientControlTopic, [][2]string{
		{`{"command":"unsubscribeClient","clientid":"c","topic":"a/#"}`, `{"command":"unsubscribeClient","data":{}}`},
		{`{"command":"disconnectClient","clientid":"c"}`, `{"command":"disconnectClient","data":{}}`},
		{`{"command":"disconnectClient","clientid":"nobody"}`, `{"command":"disconnectClient","error":"Client not found"}`},
	})
	if code := c.Want(packet.Disconnect).Reason; code != 0x98 {
		t.Errorf("DISCONNECT reason %#x, want 0x98", code)
	}
}

func TestLicenseOverMQTT(t *testing.T) {
	t.Parallel()
	b := start(t)
	d := operator(t, b, control.LicenseTopic)
	var got struct{ Data control.License }
	read(t, d.ask(control.LicenseTopic, `{"command":"getLicenseInformation"}`), &got)
	want, err := b.GetLicense(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Data.View()); diff != "" || got.Data.Edition != "embedded" {
		t.Errorf("licence (-in process +over MQTT):\n%s", diff)
	}
}

// TestControlTopicsRequireRights: default access, however open, does not grant it.
func TestControlTopicsRequireRights(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", everything()...)
	d := join(t, b, 5, as("alice", "pw"))
	for _, topic := range []string{control.InspectTopic, control.ClientControlTopic, control.LicenseTopic, control.BrokerTopic} {
		if code := d.Publish(topic, `{"commands":[]}`, 1); code != 0x87 {
			t.Errorf("%s: PUBACK code %#x, want 0x87", topic, code)
		}
	}
}

// TestBanBetweenLogInAndConnection: a ban that is added after the log-in was decided, and
// before the connection is registered, ends it as soon as it is.
func TestBanBetweenLogInAndConnection(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, ban := range []broker.Ban{
		{Kind: broker.BanClientID, Value: "late"}, {Kind: broker.BanUsername, Value: adminName}, {Kind: broker.BanAddress, Value: "127.0.0.1"},
	} {
		d := join(t, b, 5, as(adminName, adminPassword), withID("late"))
		if _, err := b.bans.Add(t.Context(), ban); err != nil { // which by itself ends no connection
			t.Fatal(err)
		}
		watcher{b}.Connected(engine.ClientEvent{ClientID: "late", Username: adminName, Address: "127.0.0.1"})
		if code := d.Want(packet.Disconnect).Reason; code != codeBanned {
			t.Errorf("%s: DISCONNECT reason %#x, want %#x", ban.Kind, code, codeBanned)
		}
		d.wantForgotten(b)
		if err := b.DeleteBan(t.Context(), ban.Kind, ban.Value); err != nil {
			t.Fatal(err)
		}
	}
}
