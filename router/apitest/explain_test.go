package apitest_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

func ask(api *apitest.API, username, clientID, action, topic string) (v broker.Verdict) {
	q := url.Values{"username": {username}, "clientid": {clientID}, "action": {action}, "topic": {topic}}
	api.Root.Get(api.At("/access-check?" + q.Encode())).Want(200).Decode(&v)
	return v
}

// TestAccessCheckIsTrue requests the access check of actions, and performs them.
func TestAccessCheckIsTrue(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, func(c *appliance.Config) { c.Broker.AllowAnonymous = true })
	account(t, api, "alice", allowed("publishClientSend", "a/#"), object{"acltype": "publishClientSend", "topic": "a/no", "priority": 5, "allow": false},
		allowed("publishClientSend", "id/%c"), refused("publishClientReceive", "b/no"),
		allowed("subscribePattern", "b/#"), refused("subscribeLiteral", "b/secret"), refused("unsubscribePattern", "b/keep/#"))
	api.Root.Post(api.At("/roles"), object{"rolename": "guests"}).Want(204)
	api.Root.Put(api.At("/roles"), object{"rolename": "guests", "acls": []object{
		{"acltype": "publishClientSend", "topic": "a/no", "priority": 0, "allow": true}}}).Want(204)
	api.Root.Post(api.At("/groups"), object{"groupname": "g", "roles": []object{{"rolename": "guests"}}}).Want(204)
	api.Root.Put(api.At("/clients"), object{"username": "alice", "groups": []object{{"groupname": "g"}}}).Want(204)

	topics := []string{"a", "a/1", "a/no", "b/1", "b/no", "b/secret", "b/keep/1", "id/dev", "id/other", "c", "$SYS/broker/uptime",
		"$CONTROL/dynamic-security/v1/x", "$CONTROL", "$other/x"}
	filters := append([]string{"#", "+", "a/#", "b/#", "b/+", "b/keep/+", "$share/g/b/1", "$SYS/#", "$CONTROL/#"}, topics...)
	seen := map[string]int{}
	for id, username := range map[string]string{"dev": "alice", "operator": mqttAdmin, "guest": ""} {
		do := newActor(t, api, id, username)
		for action, about := range map[string][]string{"publish": topics, "receive": topics, "subscribe": filters, "unsubscribe": filters} {
			if action == "publish" {
				about = append(about, "$SYSx/y", "$share/g/t", "$SYS", "$share")
			}
			for _, topic := range about {
				if action == "receive" && (strings.HasPrefix(topic, "$SYS/") || strings.HasPrefix(topic, "$CONTROL")) {
					continue // reserved topics are handled by the broker itself
				}
				v, does := ask(api, username, id, action, topic), do.may(action, topic)
				if v.Allowed != does || v.Reason == "" || v.Source == "" {
					t.Errorf("%q may %s %q: the check says %+v, trying says %t", username, action, topic, v, does)
				}
				seen[fmt.Sprint(action, does)]++
			}
		}
	}
	if len(seen) < 8 { // each action was allowed, and refused
		t.Errorf("too little was refused, or allowed, to mean anything: %v", seen)
	}
}

// actor performs the actions of a client.
type actor struct {
	t      *testing.T
	api    *apitest.API
	id     string
	client *mqtttest.Client
	marks  int
}

func newActor(t *testing.T, api *apitest.API, id, username string) *actor {
	t.Helper()
	var changes []change
	switch username {
	case "":
	case mqttAdmin:
		changes = append(changes, asAdmin)
	default:
		changes = append(changes, user(username, "secret"))
	}
	d := &actor{t: t, api: api, id: id, client: join(t, api, 5, id, changes...)}
	d.client.PassOver = func(packet.Packet) bool { return true } // as they may precede a response [MQTT-3.8.4]
	return d
}

func (d *actor) may(action, topic string) bool {
	d.t.Helper()
	d.client.Settled() // messages for earlier subscriptions and requests
	switch action {
	case "publish":
		return d.client.Publish(topic, "", 1) < 0x80
	case "subscribe":
		return d.client.SubscribeTo(filter(topic, 0))[0] < 0x80
	case "unsubscribe":
		return d.client.Unsubscribe(topic)[0] < 0x80
	}
	return d.receives(topic)
}

// receives subscribes the client on its behalf, and publishes. A later message on a
// topic that the client certainly receives shows that the first one is not still in
// flight.
func (d *actor) receives(topic string) bool {
	d.t.Helper()
	path := d.api.At("/client-inspect/subscriptions")
	for _, one := range []string{topic, "mark"} {
		d.api.Root.Post(path, object{"clientid": d.id, "topic": one, "sendRetain": "never"}).Want(204)
	}
	d.marks++
	mark := fmt.Sprint("mark ", d.marks)
	d.api.Root.Post(d.api.At("/messages"), object{"topic": topic, "payload": "received"}).Want(204)
	d.api.Root.Post(d.api.At("/messages"), object{"topic": "mark", "payload": mark}).Want(204)
	received := false
	for pk := d.client.Want(packet.Publish); string(pk.Payload) != mark; pk = d.client.Want(packet.Publish) {
		received = received || pk.Topic == topic
	}
	for _, one := range []string{topic, "mark"} {
		d.api.Root.Delete(path + "?clientid=" + d.id + "&topic=" + url.QueryEscape(one)).Want(204)
	}
	return received
}

// TestAccessCheckOfAnonymousClients: where they are refused they are denied everything,
// whatever the defaults are.
func TestAccessCheckOfAnonymousClients(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	v := ask(api, "", "", "receive", "a")
	if v.Allowed || v.ACLType != "publishClientReceive" || !strings.Contains(v.Reason, "broker.allow_anonymous") {
		t.Errorf("where nobody is let in: %+v", v)
	}
	if v := ask(api, "", "", "publish", "a/#"); v.Source != broker.DecidedByTopic {
		t.Errorf("of what is no topic: %+v", v)
	}
	d := connectTo(t, api.Listeners[0], nil, 5)
	if code := d.SendConnect(withID("c")).Reason; code != 0x87 {
		t.Errorf("CONNACK %#x, want 0x87", code)
	}
	open := apitest.New(t, withAdminPassword, func(c *appliance.Config) { c.Broker.AllowAnonymous = true })
	if v := ask(open, "", "", "receive", "a"); !v.Allowed || v.Source != broker.DecidedByDefault {
		t.Errorf("where they are let in: %+v", v)
	}
}

func denialsOf(api *apitest.API, query string) (list []broker.Denial, total string) {
	answer := api.Root.Get(api.At("/denials" + query)).Want(200)
	answer.Decode(&list)
	return list, answer.Header.Get("X-Total-Count")
}

// TestDenials lists, the newest first, refused clients and denied actions, each with a
// helpful reason.
func TestDenials(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	account(t, api, "alice", refused("publishClientSend", "a/no"), refused("unsubscribeLiteral", "u"))
	account(t, api, "off")
	api.Root.Put(api.At("/clients/enable"), object{"username": "off", "enable": false}).Want(204)
	account(t, api, "bound")
	api.Root.Put(api.At("/clients"), object{"username": "bound", "clientid": "only"}).Want(204)
	if list, total := denialsOf(api, ""); len(list) != 0 || total != "0" {
		t.Fatalf("before anything happened: %+v", list)
	}

	begin := time.Now()
	for _, c := range []change{user("alice", "wrong"), user("nobody", "x"), user("off", "secret"), user("bound", "secret"), func(*packet.Packet) {}} {
		if code := connectTo(t, api.Listeners[0], nil, 5).SendConnect(withID("c"), c).Reason; code != 0x87 {
			t.Fatalf("CONNACK %#x, want 0x87", code)
		}
	}
	d := join(t, api, 5, "c", user("alice", "secret"))
	d.Publish("a/no", "", 1)
	d.Publish("else", "", 0)
	d.Publish("$SYS/broker/version", "", 1)
	d.SubscribeTo(filter("s/#", 0))
	d.Unsubscribe("u")
	broken := connectTo(t, api.Listeners[0], nil, 9) // an unknown version is not a denial
	broken.SendConnect(withID("broken"))

	want := []struct {
		action                  broker.Action
		username, topic, reason string
	}{
		{"unsubscribe", "alice", "u", `the ACL unsubscribeLiteral "u" of the role "of alice" denies it`},
		{"subscribe", "alice", "s/#", "no ACL matches, and the default for subscribe denies it"},
		{"publish", "alice", "$SYS/broker/version", "no client may publish to topics that begin with $SYS or $share"},
		{"publish", "alice", "else", "no ACL matches, and the default for publishClientSend denies it"},
		{"publish", "alice", "a/no", `the ACL publishClientSend "a/no" of the role "of alice" denies it`},
		{"connect", "", "", "clients without a username are not let in: broker.allow_anonymous is off"},
		{"connect", "bound", "", `the client can connect with the client id "only" only`},
		{"connect", "off", "", "the client is disabled"},
		{"connect", "nobody", "", `there is no client "nobody"`},
		{"connect", "alice", "", "the password is wrong, or the client has none"},
	}
	list, total := denialsOf(api, "")
	if len(list) != len(want) || total != fmt.Sprint(len(want)) {
		t.Fatalf("%d denials of %s, want %d: %+v", len(list), total, len(want), list)
	}
	for i, w := range want {
		got := list[i]
		if got.Action != w.action || got.Username != w.username || got.Topic != w.topic || got.Reason != w.reason ||
			got.ClientID != "c" || got.Address != "127.0.0.1" || got.At.Before(begin) || got.At.After(time.Now()) {
			t.Errorf("denial %d: got %+v, want %+v", i, got, w)
		}
	}
	if part, total := denialsOf(api, "?offset=3&count=2"); len(part) != 2 || part[0] != list[3] || part[1] != list[4] || total != "10" {
		t.Errorf("a part of them: %+v of %s", part, total)
	}

	api.Root.Put(api.At("/acldefault"), []object{{"acltype": "subscribe", "allow": true}}).Want(204)
	list, _ = denialsOf(api, "?offset=1&count=1")
	if w := "rights have changed since: now no ACL matches, and the default for subscribe allows it"; list[0].Reason != w {
		t.Errorf("after a change of rights: %q, want %q", list[0].Reason, w)
	}
}

// TestDenialsAreBounded keeps the newest thousand.
func TestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	account(t, api, "alice")
	d := join(t, api, 5, "c", user("alice", "secret"))
	for i := range 1025 {
		d.Send(packet.Packet{Type: packet.Publish, Topic: fmt.Sprint("t/", i)})
	}
	d.Ping()
	list, total := denialsOf(api, "")
	if len(list) != 1000 || total != "1000" || list[0].Topic != "t/1024" || list[999].Topic != "t/25" {
		t.Errorf("%d of %s, from %q to %q; want 1000 from t/1024 to t/25", len(list), total, list[0].Topic, list[len(list)-1].Topic)
	}
}
