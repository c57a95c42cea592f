package embedded

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/dynsec"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// command sends one dynamic-security command at QoS 1, as mosquitto_ctrl does.
func (d *device) command(payload string) {
	d.T.Helper()
	d.Send(d.Message(dynsec.Topic, `{"commands":[`+payload+`]}`, 1, false))
	if got := d.Want(packet.Puback).Reason; got != 0 {
		d.T.Fatalf("PUBACK code %d", got)
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, version := range versions {
		d := admin(t, b, version)
		d.command(`{"command":"getAnonymousGroup","correlationData":"1"}`)
		got := d.Want(packet.Publish)
		want := `{"responses":[{"command":"getAnonymousGroup","data":{"group":{"groupname":""}},"correlationData":"1"}]}`
		if string(got.Payload) != want || got.Topic != dynsec.ResponseTopic ||
			got.QoS != 0 || got.Retain {
			t.Errorf("version %d: got %+v", version, got)
		}
	}
}

func TestControlWithQoS2(t *testing.T) {
	t.Parallel()
	b := start(t)
	d := admin(t, b, 5)
	if got := d.StartPublish(dynsec.Topic, `{"commands":[]}`, 2).Reason; got != 0 {
		t.Errorf("PUBREC code %d", got)
	}
	if got := string(d.Want(packet.Publish).Payload); got != `{"responses":[]}` {
		t.Errorf("answer %s", got)
	}
	d.Send(packet.Packet{Type: packet.Pubrel, ID: d.PacketID})
	if got := d.Want(packet.Pubcomp).Reason; got != 0 {
		t.Errorf("PUBCOMP code %d", got)
	}
}

func TestControlRequestIsNeitherDeliveredNorRetained(t *testing.T) {
	t.Parallel()
	b := start(t)
	d := join(t, b, 5, as(adminName, adminPassword))
	d.Subscribe(2, "$CONTROL/#")
	d.Send(d.Message(dynsec.Topic, `{"commands":[]}`, 1, true))
	d.Want(packet.Puback)
	if got := d.Want(packet.Publish).Topic; got != dynsec.ResponseTopic {
		t.Errorf("delivered %s", got)
	}
	later := join(t, b, 5, as(adminName, adminPassword))
	later.Subscribe(2, "$CONTROL/#", "end")
	if got := later.Settled(); len(got) != 0 {
		t.Errorf("retained %q", got)
	}
	if got := later.received(join(t, b, 5, as(adminName, adminPassword)), "end"); len(got) != 0 {
		t.Errorf("retained %q", got)
	}
}

// TestUnknownControl expects Mosquitto's response, byte for byte.
func TestUnknownControl(t *testing.T) {
	t.Parallel()
	b := start(t)
	d := join(t, b, 5, as(adminName, adminPassword))
	d.Subscribe(0, "$CONTROL/#")
	watcher := join(t, b, 5, as(adminName, adminPassword))
	watcher.Subscribe(0, "$CONTROL/#", "end")
	for topic, want := range map[string][2]string{
		"$CONTROL/unknown/v1":                    {"$CONTROL/unknown/v1/response", `{"error": "endpoint not available"}`},
		"$CONTROL/dynamic-security/v1/response":  {"$CONTROL/dynamic-security/v1/response/response", `{"error": "endpoint not available"}`},
		"$CONTROL/cedalo/ha/v1":                  {"$CONTROL/cedalo/ha/v1/response", `{"error": "endpoint not available"}`},
		"$CONTROL/dynamic-security/v1/":          {"$CONTROL/dynamic-security/v1//response", `{"error": "endpoint not available"}`},
		"$CONTROL/" + strings.Repeat("x", 65000): {"$CONTROL/" + strings.Repeat("x", 65000) + "/response", `{"error": "endpoint not available"}`},
	} {
		if got := d.Publish(topic, "{}", 1); got != 0 {
			t.Errorf("%.50s: PUBACK code %d", topic, got)
		}
		got := d.Want(packet.Publish)
		if diff := cmp.Diff(want, [2]string{got.Topic, string(got.Payload)}); diff != "" {
			t.Errorf("%.50s (-want +got):\n%s", topic, diff)
		}
	}
	d.Publish("$CONTROL/"+strings.Repeat("x", 65526), "{}", 1) // no topic is long enough for a response
	if got := watcher.received(d, "end"); len(got) != 0 {
		t.Errorf("others saw %q", got)
	}
	publisher := join(t, b, 5, as(adminName, adminPassword))
	publisher.Publish("$CONTROL", "{}", 1)
	if got := d.Want(packet.Publish); got.Topic != "$CONTROL" || string(got.Payload) != "{}" {
		t.Errorf("a publish to $CONTROL brings %q %q", got.Topic, got.Payload)
	}
}

func TestControlResponsesRequireReceiveRights(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "deaf", acl(broker.PublishClientSend, "$CONTROL/#", true),
		acl(broker.SubscribePattern, "$CONTROL/#", true), acl(broker.SubscribeLiteral, "end", true))
	deaf := join(t, b, 5, as("deaf", "pw"))
	if got := deaf.Subscribe(0, "$CONTROL/#", "end"); got[0] != 0 {
		t.Fatalf("SUBACK code %d", got[0])
	}
	deaf.Publish(dynsec.Topic, `{"commands":[]}`, 1)
	deaf.Publish("$CONTROL/unknown/v1", `{}`, 1)
	if got := deaf.received(join(t, b, 5, as(adminName, adminPassword)), "end"); len(got) != 0 {
		t.Errorf("received %q", got)
	}
	other := admin(t, b, 5)
	deaf.Publish(dynsec.Topic, `{"commands":[]}`, 1)
	if got := string(other.Want(packet.Publish).Payload); got != `{"responses":[]}` {
		t.Errorf("another administrator got %s", got)
	}
}

func TestBrokerControl(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) { c.Version = "1.2.3" })
	d := join(t, b, 5, as(adminName, adminPassword))
	d.Subscribe(0, "$CONTROL/broker/v1/response")
	port := strings.TrimPrefix(b.Addrs()[0], "127.0.0.1:")
	for request, want := range map[string]string{
		`{"commands":[{"command":"LISTPLUGINS","correlationData":"a<b"}]}`: `{"responses":[{"command":"listPlugins","data":{"plugins":[` +
			`{"name":"broker","version":"1.2.3","control-endpoints":["$CONTROL/broker/v1"]},` +
			`{"name":"dynamic-security","version":"1.2.3","control-endpoints":["$CONTROL/dynamic-security/v1"]},` +
			`{"name":"inspect","version":"1.2.3","control-endpoints":["$CONTROL/cedalo/inspect/v1"]},` +
			`{"name":"client-control","version":"1.2.3","control-endpoints":["$CONTROL/cedalo/client-control/v1"]},` +
			`{"name":"topic-tree","version":"1.2.3","control-endpoints":["$CONTROL/cedalo/topictree/v1"]},` +
			`{"name":"license","version":"1.2.3","control-endpoints":["$CONTROL/cedalo/license/v1"]}]},"correlationData":"a<b"}]}`,
		`{"commands":[{"command":"listListeners"}]}`: `{"responses":[{"command":"listListeners","data":{"listeners":[` +
			`{"id":1,"port":` + port + `,"protocol":"mqtt","bind-address":"127.0.0.1","tls":false,"require-certificate":false}]}}]}`,
		`{"commands":[{"command":"dance","correlationData":""},{}]}`: `{"responses":[` +
			`{"command":"dance","error":"Unknown command","correlationData":""},{"command":"Unknown command","error":"Missing command"}]}`,
		`nonsense`: `{"responses":[{"command":"Unknown command","error":"Payload not valid JSON"}]}`,
	} {
		d.Publish("$CONTROL/broker/v1", request, 1)
		if diff := cmp.Diff(want, string(d.Want(packet.Publish).Payload)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", request, diff)
		}
	}
}

// TestAdministratorChangesItself expects acknowledgement, response and then disconnect.
func TestAdministratorChangesItself(t *testing.T) {
	t.Parallel()
	b := start(t)
	if err := b.CreateRole(t.Context(), broker.RoleSpec{RoleName: "spare"}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]string{
		"setClientPassword": `{"command":"setClientPassword","username":"%s","password":"other"}`,
		"addClientRole":     `{"command":"addClientRole","username":"%s","rolename":"spare"}`,
		"disableClient":     `{"command":"disableClient","username":"%s"}`,
	} {
		for _, version := range versions {
			t.Run(fmt.Sprint(name, version), func(t *testing.T) { // one after the other: each may receive the responses to all
				who := fmt.Sprint(name, version)
				allow(t, b, who, acl(broker.PublishClientSend, "$CONTROL/#", true),
					acl(broker.PublishClientReceive, "$CONTROL/#", true), acl(broker.SubscribePattern, "$CONTROL/#", true))
				d := join(t, b, version, as(who, "pw"))
				d.Subscribe(0, dynsec.ResponseTopic)
				d.command(fmt.Sprintf(change, who))
				if got := string(d.Want(packet.Publish).Payload); !strings.Contains(got, `"command":"`+name+`"`) {
					t.Errorf("got the answer %s", got)
				}
				d.wantCut()
			})
		}
	}
}

// wantCut waits for the disconnect, skipping messages.
func (d *device) wantCut() {
	d.T.Helper()
	d.WantDisconnect(packet.AdministrativeAction)
	if d.Version == packet.V5 {
		d.WantEnd()
	}
}

func TestLastAdministratorDeletesItself(t *testing.T) {
	t.Parallel()
	b := start(t)
	d := admin(t, b, 5)
	d.command(`{"command":"deleteClient","username":"admin"}`)
	d.wantCut()
	if got := dial(t, b, 5).SendConnect(as(adminName, adminPassword)).Reason; got != 135 {
		t.Errorf("CONNACK code %d", got)
	}
}

func TestCutOff(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) { c.AllowAnonymous = true })
	allow(t, b, "alice", everything()...)
	allow(t, b, "bob")
	if err := b.CreateGroup(t.Context(), broker.GroupSpec{GroupName: "anons"}); err != nil {
		t.Fatal(err)
	}
	watcher := admin(t, b, 5)
	watcher.Subscribe(0, "will", "end")
	publisher := join(t, b, 5, as(adminName, adminPassword))
	bob := join(t, b, 5, as("bob", "pw"))
	for _, c := range []struct {
		name    string
		options []connectOption
		do      func() error
	}{
		{"over the API", []connectOption{as("alice", "pw")}, func() error {
			acls := append(everything(), acl(broker.PublishClientSend, "x", true))
			return b.ModifyRole(t.Context(), broker.RoleSpec{RoleName: "role of alice", ACLs: acls})
		}},
		{"over $CONTROL", []connectOption{as("alice", "pw")}, func() error {
			publisher.command(`{"command":"setClientId","username":"alice"}`)
			return nil
		}},
		{"anonymous", nil, func() error {
			publisher.command(`{"command":"setAnonymousGroup","groupname":"anons"}`)
			return nil
		}},
	} {
		var cut []*device
		for _, version := range versions {
			cut = append(cut, join(t, b, version, append(c.options, withWill("will", "x"))...))
		}
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		for _, d := range cut {
			d.wantCut()
		}
		for _, topic := range watcher.received(publisher, "end") {
			if topic == "will" {
				t.Errorf("%s: the Will was published", c.name)
			}
		}
	}
	if got := bob.Publish("x", "", 1); got != 135 {
		t.Errorf("bob was disturbed: PUBACK code %d", got)
	}
}

func TestSubscriptionAfterItsRightIsRevoked(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", acl(broker.SubscribeLiteral, "news", true), acl(broker.SubscribeLiteral, "end", true))
	publisher := join(t, b, 5, as(adminName, adminPassword))
	forbid := func() {
		t.Helper()
		if err := b.ModifyRole(t.Context(), broker.RoleSpec{RoleName: "role of alice",
			ACLs: []broker.ACL{acl(broker.SubscribeLiteral, "end", true)}}); err != nil {
			t.Fatal(err)
		}
	}
	d := join(t, b, 5, as("alice", "pw"), withID("alice"), persistent)
	d.Subscribe(1, "news", "end")
	forbid()
	d.wantCut()
	d.wantForgotten(b)
	publisher.Publish("news", "while away", 1)
	back := dial(t, b, 5)
	if ack := back.SendConnect(as("alice", "pw"), withID("alice"), persistent); !ack.Present {
		t.Error("no session present")
	}
	publisher.Publish("news", "live", 1)
	if got := back.received(publisher, "end"); len(got) != 0 {
		t.Errorf("received %q", got)
	}
	if got := back.Subscribe(1, "news")[0]; got != 135 {
		t.Errorf("SUBACK code %d", got)
	}
}

// TestSubscriptionWhoseRightIsRevokedWhileAway: as with Mosquitto, what was granted stays;
// only the right to receive is checked.
func TestSubscriptionWhoseRightIsRevokedWhileAway(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", acl(broker.SubscribeLiteral, "news", true))
	publisher := join(t, b, 5, as(adminName, adminPassword))
	d := join(t, b, 5, as("alice", "pw"), withID("alice"), persistent)
	d.Subscribe(1, "news")
	d.Conn.Close()
	d.wantForgotten(b)
	if err := b.ModifyRole(t.Context(), broker.RoleSpec{RoleName: "role of alice", ACLs: []broker.ACL{}}); err != nil {
		t.Fatal(err)
	}
	publisher.Publish("news", "while away", 1)
	back := dial(t, b, 5)
	if ack := back.SendConnect(as("alice", "pw"), withID("alice"), persistent); !ack.Present {
		t.Error("no session present")
	}
	if got := string(back.Want(packet.Publish).Payload); got != "while away" {
		t.Errorf("got %q", got)
	}
}

// TestSlowAdministratorBlocksNoOther sends requests whose responses are not read.
func TestSlowAdministratorBlocksNoOther(t *testing.T) {
	t.Parallel()
	b := start(t)
	slow := admin(t, b, 4)
	for i := range 200 {
		slow.Send(slow.Message(dynsec.Topic, fmt.Sprintf(
			`{"commands":[{"command":"createRole","rolename":"r%d","textdescription":%q}]}`, i, strings.Repeat("x", 20000)), 0, false))
	}
	slow.Send(slow.Message(dynsec.Topic, `{"commands":[`+strings.Repeat(`{"command":"listRoles","verbose":true},`, 49)+`{}]}`, 0, false))
	other := join(t, b, 5, as(adminName, adminPassword))
	other.Subscribe(0, "$CONTROL/broker/v1/response")
	other.Publish("$CONTROL/broker/v1", `{"commands":[]}`, 1)
	var answer struct{ Responses []any }
	if err := json.Unmarshal(other.Want(packet.Publish).Payload, &answer); err != nil {
		t.Error(err)
	}
}
