package apitest_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/handlers"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// account creates a client with a role of its own that has these ACLs. Its password is
// "secret".
func account(t *testing.T, api *apitest.API, username string, acls ...object) {
	t.Helper()
	for i := range acls {
		if acls[i]["priority"] == nil {
			acls[i]["priority"] = 0
		}
	}
	api.Root.Post(api.At("/roles"), object{"rolename": "of " + username}).Want(204)
	api.Root.Put(api.At("/roles"), object{"rolename": "of " + username, "acls": acls}).Want(204)
	api.Root.Post(api.At("/clients"), object{"username": username, "password": "secret", "roles": []object{{"rolename": "of " + username}}}).Want(204)
}

func allowed(acltype, topic string) object {
	return object{"acltype": acltype, "topic": topic, "allow": true}
}

func refused(acltype, topic string) object {
	return object{"acltype": acltype, "topic": topic, "allow": false}
}

func TestDisconnectClient(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	five, old := join(t, api, 5, "five", asAdmin, persistent), join(t, api, 4, "old", asAdmin)
	at := func(id string) string { return api.At("/client-inspect/connection?clientid=" + id) }
	api.Token("viewer").Delete(at("five")).WantError(403, "FORBIDDEN")
	editor := api.Token("editor")
	editor.Delete(at("five")).Want(204)
	five.WantDisconnect(0x98)
	editor.Delete(at("old")).Want(204)
	old.WantDisconnect(0)
	wantDetail(t, api, "five", false, connected)
	if e := editor.Delete(at("five")).WantError(404, "NOT_FOUND").Error(); !strings.Contains(e.Message, "connected") {
		t.Errorf("of a session whose client is away: %q", e.Message)
	}
	editor.Delete(at("nobody")).WantError(404, "NOT_FOUND")
}

// TestForgetClient deletes sessions: of a connected client, and of an offline one.
func TestForgetClient(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	here, away := join(t, api, 5, "here", asAdmin, persistent), join(t, api, 4, "away", asAdmin, persistent)
	here.SubscribeTo(filter("t", 1))
	away.SubscribeTo(filter("t", 1))
	away.Disconnect()
	wantDetail(t, api, "away", false, connected)
	at := func(id string) string { return api.At("/client-inspect/session?clientid=" + id) }
	api.Token("viewer").Delete(at("here")).WantError(403, "FORBIDDEN")
	editor := api.Token("editor")
	for _, id := range []string{"here", "away"} {
		editor.Delete(at(id)).Want(204)
		editor.Delete(at(id)).WantError(404, "NOT_FOUND")
		editor.Get(api.At("/client-inspect/detail?clientid="+id)).WantError(404, "NOT_FOUND")
	}
	here.WantDisconnect(0x98)
	if got := strings.TrimSpace(string(editor.Get(api.At("/subscriptions")).Want(200).Body)); got != "[]" {
		t.Errorf("subscriptions are left: %s", got)
	}
}

// TestSubscribeForAClient subscribes on behalf of clients, one of them offline.
func TestSubscribeForAClient(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, func(c *appliance.Config) { c.Broker.MaxTopicLevels = 4 })
	account(t, api, "meter", refused("publishClientReceive", "closed"))
	d := join(t, api, 5, "c", user("meter", "secret"), persistent)
	publisher := join(t, api, 5, "p", asAdmin)
	publisher.Publish("kept", "earlier", 1, retained)
	path := api.At("/client-inspect/subscriptions")
	editor := api.Token("editor")
	api.Token("viewer").Post(path, object{"clientid": "c", "topic": "a"}).WantError(403, "FORBIDDEN")

	editor.Post(path, object{"clientid": "c", "topic": "kept", "qos": 1, "subscriptionIdentifier": 7, "retainAsPublished": true}).Want(204)
	pk := d.WantMessage("kept", "earlier")
	if !pk.Retain || pk.QoS != 1 || !slices.Equal(pk.Properties.SubscriptionIDs, []uint32{7}) {
		t.Errorf("the retained message: %+v", pk)
	}
	d.Acknowledge(packet.Puback, pk.ID)
	editor.Post(path, object{"clientid": "c", "topic": "kept", "sendRetain": "new"}).Want(204)
	editor.Post(path, object{"clientid": "c", "topic": "+", "sendRetain": "never"}).Want(204)
	publisher.Publish("closed", "not for meters", 0)
	publisher.Publish("open", "live", 0)
	d.WantMessage("open", "live") // neither the retained message again, nor one that it may not receive

	var list []broker.Subscription
	api.Root.Get(api.At("/subscriptions?clientid=c")).Want(200).Decode(&list)
	want := []broker.Subscription{{ClientID: "c", Username: "meter", Topic: "+", RetainHandling: 2}, {ClientID: "c", Username: "meter", Topic: "kept", RetainHandling: 1}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("subscriptions (-want +got):\n%s", diff)
	}

	d.Disconnect()
	wantDetail(t, api, "c", false, connected)
	editor.Post(path, object{"clientid": "c", "topic": "later", "qos": 1}).Want(204)
	editor.Delete(path + "?clientid=c&topic=%2B").Want(204)
	editor.Delete(path+"?clientid=c&topic=%2B").WantError(404, "NOT_FOUND")
	publisher.Publish("open", "no more", 1)
	publisher.Publish("later", "for you", 1)
	join(t, api, 5, "c", user("meter", "secret"), persistent).WantMessage("later", "for you")

	editor.Post(path, object{"clientid": "nobody", "topic": "a"}).WantError(404, "NOT_FOUND")
	editor.Delete(path+"?clientid=nobody&topic=a").WantError(404, "NOT_FOUND")
	editor.Post(path, object{"clientid": "c", "topic": "$share/g/a", "noLocal": true}).WantError(400, "INVALID_REQUEST")
	editor.Post(path, object{"clientid": "c", "topic": "a/b/c/d/e"}).WantError(400, "INVALID_REQUEST")
}

// TestPublish publishes a message with all properties of MQTT 5.
func TestPublish(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	d := join(t, api, 5, "c", asAdmin)
	d.SubscribeTo(filter("#", 2))
	raw := []byte{0, 0xff, 'x'}
	editor := api.Token("editor")
	editor.Post(api.At("/messages"), object{"topic": "a/b", "payload": base64.StdEncoding.EncodeToString(raw), "encoding": "base64", "qos": 1,
		"retain": true, "expiry": 3600, "contentType": "image/png", "responseTopic": "answers", "correlationData": "AQL+",
		"userProperties": []object{{"name": "k", "value": "v"}, {"name": "k", "value": ""}}}).Want(204)
	pk := d.WantMessage("a/b", string(raw))
	p := pk.Properties
	want := packet.Properties{ContentType: "image/png", ResponseTopic: "answers", CorrelationData: []byte{1, 2, 0xfe},
		MessageExpiry: p.MessageExpiry, User: []packet.UserProperty{{Name: "k", Value: "v"}, {Name: "k"}}}
	if diff := cmp.Diff(want, p); diff != "" || p.MessageExpiry > 3600 || p.MessageExpiry < 3500 || pk.QoS != 1 {
		t.Errorf("QoS %d, expiry %d; properties (-want +got):\n%s", pk.QoS, p.MessageExpiry, diff)
	}
	d.Acknowledge(packet.Puback, pk.ID)

	for qos := range 3 {
		editor.Post(api.At("/messages"), object{"topic": "t", "payload": "grüße", "qos": qos}).Want(204)
		pk := d.WantMessage("t", "grüße")
		if int(pk.QoS) != qos || pk.Retain {
			t.Errorf("QoS %d: got QoS %d, RETAIN %v", qos, pk.QoS, pk.Retain)
		}
		if qos == 1 {
			d.Acknowledge(packet.Puback, pk.ID)
		}
	}
	old := join(t, api, 4, "old", asAdmin)
	old.SubscribeTo(filter("a/b", 0))
	if pk := old.WantMessage("a/b", string(raw)); !pk.Retain {
		t.Error("what was retained comes without RETAIN")
	}
}

// TestRetained lists, reads and deletes retained messages, also after a restart.
func TestRetained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	api := apitest.New(t, withAdminPassword, apitest.In(dir))
	d := join(t, api, 5, "sender", asAdmin)
	d.Publish("plant/a", "hello", 1, retained, func(pk *packet.Packet) {
		pk.Properties.ContentType, pk.Properties.MessageExpiry = "text/plain", 3600
		pk.Properties.User = []packet.UserProperty{{Name: "k", Value: "v"}}
	})
	d.Publish("plant/b", strings.Repeat("é", 600), 0, retained)
	for i := range 100 {
		api.Root.Post(api.At("/messages"), object{"topic": fmt.Sprintf("many/%02d", i), "payload": "\x00", "qos": 1, "retain": true}).Want(204)
	}
	wantRetained(t, api)
	api.Root.Get(api.At("/messages/retained?topic=plant/c")).WantError(404, "NOT_FOUND")

	listener := join(t, api, 5, "listener", asAdmin)
	listener.SubscribeTo(packet.Filter{Filter: "#", RetainHandling: 2})
	api.Root.Delete(api.At("/messages/retained?topic=many/07")).Want(200)
	api.Root.Delete(api.At("/messages/retained?topic=many/07")).WantError(404, "NOT_FOUND")
	var deleted handlers.DeletedCount
	if api.Root.Delete(api.At("/messages/retained?filter=many/%2B")).Want(200).Decode(&deleted); deleted.Deleted != 99 {
		t.Errorf("%d deleted, want 99", deleted.Deleted)
	}
	if api.Root.Delete(api.At("/messages/retained?filter=many/%2B")).Want(200).Decode(&deleted); deleted.Deleted != 0 {
		t.Errorf("%d deleted where nothing is left", deleted.Deleted)
	}
	d.Publish("end", "", 0)
	listener.WantMessage("end", "") // subscribers do not receive deletions
	api.Stop()

	again := apitest.New(t, withAdminPassword, apitest.In(dir))
	answer := again.Root.Get(again.At("/messages/retained")).Want(200)
	var list []broker.RetainedMessage
	if answer.Decode(&list); len(list) != 2 || answer.Header.Get("X-Total-Count") != "2" {
		t.Errorf("after the restart %s are retained: %s", answer.Header.Get("X-Total-Count"), answer.Body)
	}
	wantRetained(t, again)
}

// wantRetained reads plant/a and plant/b.
func wantRetained(t *testing.T, api *apitest.API) {
	t.Helper()
	answer := api.Root.Get(api.At("/messages/retained?filter=plant/%23")).Want(200)
	var list, one []broker.RetainedMessage
	if answer.Decode(&list); len(list) != 2 || answer.Header.Get("X-Total-Count") != "2" {
		t.Fatalf("list: %s", answer.Body)
	}
	a := list[0]
	want := broker.RetainedMessage{Topic: "plant/a", Payload: "hello", Size: 5, QoS: new(1), PublishedAt: a.PublishedAt,
		ExpiresAt: a.PublishedAt.Add(3600e9), ClientID: "sender", Username: mqttAdmin,
		Properties: &broker.MessageProperties{ContentType: "text/plain", UserProperties: []broker.UserProperty{{Name: "k", Value: "v"}}}}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("plant/a (-want +got):\n%s", diff)
	}
	if b := list[1]; b.Size != 1200 || !b.Truncated || b.Payload != strings.Repeat("é", 500) || b.Encoding != "" {
		t.Errorf("plant/b: %+v", b)
	}
	api.Root.Get(api.At("/messages/retained?topic=plant/b")).Want(200).Decode(&one)
	if len(one) != 1 || one[0].Truncated || one[0].Payload != strings.Repeat("é", 600) {
		t.Errorf("plant/b alone: %+v", one)
	}
}

// TestSubscriptions lists those of all clients, with filters.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	account(t, api, "alice", allowed("subscribePattern", "a/#"), allowed("subscribeLiteral", "$share/pool/a/x"))
	one := join(t, api, 5, "one", asAdmin, persistent)
	one.SubscribeTo(packet.Filter{Filter: "b", QoS: 2, NoLocal: true, RetainAsPublished: true, RetainHandling: 1}, filter("a/+", 1))
	two := join(t, api, 5, "two", user("alice", "secret"))
	two.SubscribeTo(filter("$share/pool/a/x", 1), filter("A", 0), filter("a/y", 0))
	one.Disconnect()
	wantDetail(t, api, "one", false, connected)

	all := []broker.Subscription{
		{ClientID: "one", Username: mqttAdmin, Topic: "a/+", QoS: 1},
		{ClientID: "one", Username: mqttAdmin, Topic: "b", QoS: 2, NoLocal: true, RetainAsPublished: true, RetainHandling: 1},
		{ClientID: "two", Username: "alice", Topic: "$share/pool/a/x", QoS: 1, Share: "pool"},
		{ClientID: "two", Username: "alice", Topic: "a/y"},
	}
	for query, want := range map[string][]broker.Subscription{
		"": all, "?offset=1&count=2": all[1:3], "?offset=9": {}, "?count=0": {}, "?clientid=two": all[2:], "?clientid=nobody": {},
		"?filterValue=A/": {all[0], all[2], all[3]}, "?filterValue=a/y&filterMode=equals": all[3:],
		"?filterValue=%5Ea%2F&filterMode=regex": {all[0], all[3]}, "?filterValue=ALI&filterTarget=username": all[2:],
		"?filterValue=pool&filterTarget=share&clientid=two": all[2:3], "?filterValue=o&filterTarget=clientid&filterMode=endsWith": all[2:],
		"?filterValue=a/&count=1&offset=1": all[2:3],
	} {
		var got []broker.Subscription
		answer := api.Root.Get(api.At("/subscriptions" + query)).Want(200)
		answer.Decode(&got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
		total := answer.Header.Get("X-Total-Count")
		if paged := strings.Contains(query, "offset") || strings.Contains(query, "count"); !paged && total != fmt.Sprint(len(want)) {
			t.Errorf("%q: X-Total-Count %s, want %d", query, total, len(want))
		}
	}
	if got := api.Root.Get(api.At("/subscriptions?filterValue=a/&count=1")).Want(200).Header.Get("X-Total-Count"); got != "3" {
		t.Errorf("X-Total-Count of a page of those that match: %s, want 3", got)
	}
	if got := api.Root.Get(api.At("/subscriptions?clientid=" + url.QueryEscape("one"))).Header.Get("X-Total-Count"); got != "2" {
		t.Errorf("X-Total-Count of one client: %s, want 2", got)
	}
}
