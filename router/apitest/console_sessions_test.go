package apitest_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/router/apitest"
)

func TestConsoleSessions(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, smallQueues(1, 1))
	v := visit(t, api, "editor")
	if text := v.page("sessions"); strings.Contains(text, "<tbody>") {
		t.Errorf("sessions of a broker without clients:\n%s", text)
	}
	hostile := join(t, api, 5, hostileID, asAdmin, persistent, mqtttest.WithWill(hostileTopic, hostilePayload))
	hostile.Subscribe(1, "#")
	for i := range 60 {
		join(t, api, 5, "meter-"+strconv.Itoa(i), asAdmin)
	}
	away := join(t, api, 5, "away", asAdmin, persistent)
	away.Subscribe(1, "q/#")
	away.Disconnect()
	for range 3 { // of which two do not fit into the queue
		api.Root.Post(api.At("/messages"), object{"topic": "q/1", "payload": "waits", "qos": 1}).Want(204)
	}

	v.page("sessions", "&lt;script&gt;", "1 to 50 of 62", "session/disconnect?clientid=")
	v.page("sessions?size=25&offset=50", "51 to 62 of 62")
	if text := v.page("sessions?state=disconnected", "away", "1 to 1 of 1"); strings.Contains(text, "meter-7") {
		t.Errorf("offline sessions:\n%s", text)
	}
	v.page("sessions?queued=true", "away", "1 to 1 of 1")
	text := v.page("sessions?dropped=true&state=disconnected", "Subscriptions</th>", "Queue<br>In flight</th>", "Dropped</th>",
		"away", `<td class="number">1</td>`, "<br>0</td>", `<td class="number">2</td>`, "1 to 1 of 1")
	if strings.Contains(text, "/matching") {
		t.Errorf("a job for all that match, whose filter does not have dropped messages:\n%s", text)
	}
	if text := v.page("sessions?filterValue=meter-7", ">"+api.MQTT+"</code>"); strings.Contains(text, "Out per second") {
		t.Errorf("rates that were not asked for:\n%s", text)
	}
	v.page("sessions?filterValue=meter-7&rates=true", "Out per second", `<td class="number">0.0<br>0.0</td>`)
	v.page("sessions?filterValue=METER-1", "meter-1", "1 to 11 of 11")
	v.page("sessions?filterValue=nothing", "No session matches")
	v.page("sessions?filterTarget=dropped", "INVALID_REQUEST")
	part := v.Fragment(v.base+"sessions?filterValue=away", "list")
	if part.Status != 200 || !strings.HasPrefix(part.Text, `<div id="list">`) || !strings.Contains(part.Text, api.Embedded+"/session?clientid=away") {
		t.Errorf("the fragment: %d\n%s", part.Status, part.Text)
	}

	v.page(withQuery("session", "clientid", hostileID), "&lt;script&gt;", "client?username=admin", "session/unsubscribe?clientid=", "check?clientid=")
	v.page("session?clientid=away", "1 of ", "q/#")
	v.Want(v.Get(v.base+"session?clientid=unknown"), 404, "NOT_FOUND")
	for _, page := range []string{"session/disconnect", "session/end", "session/subscribe"} {
		v.page(withQuery(page, "clientid", hostileID), "&lt;script&gt;")
	}
	v.page(withQuery("session/unsubscribe", "clientid", hostileID, "topic", hostileTopic), "&lt;script&gt;")
	v.page("subscriptions", "q/#")
	v.page("subscriptions?filterTarget=clientid&filterValue=away", "1 to 1 of 1")
	v.page("overview", "Connected clients", "state=connected")
}

// TestConsoleSessionActions checks the effect of each action through the API.
func TestConsoleSessionActions(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	v := visit(t, api, "editor")
	hostile := join(t, api, 5, hostileID, asAdmin, persistent)
	about := func(page string, more ...string) string {
		return withQuery(page, append(more, "clientid", hostileID)...)
	}

	v.again(about("session/subscribe"), doing("subscribe", "topic", "a/#/b", "qos", "1"), 400, `aria-invalid="true"`, `value="a/#/b"`)
	v.post(about("session/subscribe"), doing("subscribe", "topic", hostileTopic, "qos", "2", "sendRetain", "new", "noLocal", "true", "subscriptionIdentifier", "7"))
	var list []broker.Subscription
	api.Root.Get(api.At("/subscriptions")).Want(200).Decode(&list)
	if len(list) != 1 || list[0].Topic != hostileTopic || list[0].QoS != 2 || !list[0].NoLocal || list[0].RetainHandling != 1 || list[0].SubscriptionIdentifier != 7 {
		t.Errorf("subscribed: %+v", list)
	}
	v.page("subscriptions", "identifier 7", "no local")
	v.post(about("session/unsubscribe", "topic", hostileTopic), doing("unsubscribe"))
	if got := detail(api, hostileID).Subscriptions; len(got) != 0 {
		t.Errorf("after unsubscribing: %q", got)
	}
	v.again(about("session/unsubscribe", "topic", hostileTopic), doing("unsubscribe"), 404)
	v.post(about("session/disconnect"), doing("disconnect"))
	hostile.WantDisconnect(0x98)
	wantDetail(t, api, hostileID, false, connected)
	v.post(about("session/end"), doing("end"), "was ended")
	api.Root.Get(api.At("/client-inspect/detail?clientid="+url.QueryEscape(hostileID))).WantError(404, "NOT_FOUND")
	v.again(about("session/end"), doing("end"), 404)
	v.again("sessions", doing("dance"), 400)
}

func TestConsoleBans(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	v := visit(t, api, "admin")
	v.page("bans", "Nothing is banned", "bans/new")
	v.page(withQuery("bans/new", "kind", "clientid", "value", hostileID), `<option value="clientid" selected`)
	v.again("bans/new", doing("ban", "kind", "address", "value", "here"), 400, `aria-invalid="true"`)
	v.post("bans/new", doing("ban", "kind", "clientid", "value", hostileID, "reason", "<script>alert(1)</script>", "expires_at", "1h"))
	v.post("bans/new", doing("ban", "kind", "address", "value", "10.1.2.3/8", "expires_at", ""))
	bans := bansOf(api)
	if len(bans) != 2 || bans[0].Value != "10.0.0.0/8" || !bans[0].ExpiresAt.IsZero() || bans[1].Value != hostileID || bans[1].ExpiresAt.IsZero() {
		t.Errorf("bans: %+v", bans)
	}
	v.page("bans", "10.0.0.0/8", "&lt;script&gt;", "Without end", " minutes</time>")
	lift := withQuery("bans/lift", "kind", "clientid", "value", hostileID)
	v.page(lift, "&lt;script&gt;")
	v.post(lift, doing("lift"))
	v.again(lift, doing("lift"), 404)
	if left := bansOf(api); len(left) != 1 {
		t.Errorf("left: %+v", left)
	}
}
