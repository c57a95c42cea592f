package apitest_test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/handlers"
	"signalbox/router/apitest"
)

func TestConsoleTopics(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	v := visit(t, api, "editor")
	v.page("topics", "No message was published")
	publish := func(topic, payload string) {
		api.Root.Post(api.At("/messages"), object{"topic": topic, "payload": payload, "qos": 1}).Want(204)
	}
	for i := range 60 {
		publish("plant/"+strconv.Itoa(i)+"/state", "on")
	}
	publish(hostileTopic, hostilePayload)
	publish("plant", "root")
	publish("/a//b", "")
	publish("plant-2", `{"speed":[1,2]}`)
	var level struct {
		Topics, Total int
		Entries       []struct {
			Name, Topic string
			Topics      int
			Last        *broker.PublishTopic
		}
	}
	api.Root.Get(api.At("/topictree/level")).Want(200).Decode(&level)
	if e := level.Entries; level.Topics != 64 || level.Total != 3 || e[0].Name != "" || e[0].Topics != 1 || e[0].Last != nil ||
		e[1].Name != "plant" || e[1].Topics != 61 || e[1].Last.Payload != "root" || e[2].Name != "plant-2" || e[2].Topics != 0 {
		t.Errorf("the first level: %+v", level)
	}
	api.Root.Get(api.At("/topictree/level?prefix=/a//&offset=0&count=5")).Want(200).Decode(&level)
	if e := level.Entries; len(e) != 1 || e[0].Name != "b" || e[0].Topic != "/a//b" {
		t.Errorf("below /a//: %+v", level)
	}
	api.Root.Get(api.At("/topictree/level?search=7/STATE&count=2")).Want(200).Decode(&level)
	if e := level.Entries; level.Total != 6 || len(e) != 2 || e[0].Name != "plant/17/state" || e[0].Topic != e[0].Name {
		t.Errorf("search: %+v", level)
	}
	var one handlers.TopicLevel
	api.Root.Get(api.At("/topictree/level?topic=plant")).Want(200).Decode(&one)
	if e := one.Entries; len(e) != 1 || e[0].Topic != "plant" || e[0].Topics != 0 || e[0].Rate == nil || *e[0].Rate <= 0 || one.Cut {
		t.Errorf("one topic: %+v", one)
	}
	api.Root.Get(api.At("/topictree/level?topic=plan")).Want(200).Decode(&one)
	if len(one.Entries) != 0 {
		t.Errorf("the beginning of a topic: %+v", one)
	}
	api.Root.Get(api.At("/topictree/level?topic=plant-2&topic=none&topic=plant&topic=plant")).Want(200).Decode(&one)
	if e := one.Entries; len(e) != 2 || e[0].Topic != "plant" || e[0].Last.Messages != 1 || e[1].Topic != "plant-2" {
		t.Errorf("several topics: %+v", one)
	}
	for _, wrong := range []string{"level?topic=", "values", "values?topic=", "values?topic=a" + strings.Repeat("&topic=b", 10)} {
		api.Root.Get(api.At("/topictree/"+wrong)).WantError(400, "INVALID_REQUEST")
	}
	api.Root.Get(api.At("/topictree/level?prefix=plant")).WantError(400, "INVALID_REQUEST")
	api.Root.Get(api.At("/topictree/level?topic=plant&search=a")).WantError(400, "INVALID_REQUEST")

	v.page("topics", "64 topics", "prefix=plant%2F", "plant-2", "messages?topic=plant-2")
	v.page("topics?prefix=plant/", "1 to 50 of 61")
	v.page(withQuery("topics", "prefix", strings.TrimSuffix(hostileTopic, "x")), "&lt;script&gt;")
	v.page("topics?search=SCRIPT", "&lt;script&gt;")
	v.page("topics?search=nothing", "No topic contains")
	v.page("topics?as=hex", "72 6f 6f 74")
	v.page("topics?prefix=plant/&watched=plant&watched=plant-2&watched=none", "Watch list", "no message lately", `form="topic-filter" name="watched" value="plant-2"`,
		`href="?prefix=plant%2F&amp;watched=plant&amp;watched=none" data-swap`)
	v.page("topics?watched=plant", ">Watch</a>", `href="?watched=plant&amp;watched=plant-2" data-swap`)
	many := ""
	for i := range 12 {
		many += fmt.Sprintf("&watched=plant/%d/state", i)
	}
	v.Lacks(v.Want(v.Get(v.base+"topics?x="+many), 200, `value="plant/9/state"`), `value="plant/10/state"`, ">Watch</a>")
	v.page(withQuery("topics", "watched", hostileTopic), "&lt;script&gt;")
	v.page("topics/all", "Subscribed filters", "1 to 50 of 64")
}

// TestConsoleTopicValues draws the numbers of watched topics from the first visit on.
func TestConsoleTopicValues(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	v := visit(t, api, "viewer")
	page := "topics?watched=cold&watched=text&watched=json&watched=$SYS/x"
	v.Lacks(v.Want(v.Get(v.base+page), 200, "Not drawn over time: $SYS/x. The topic tree leaves this out"), `class="card chart"`)
	for topic, payload := range map[string]string{"cold": "-20.5", "text": "open", "json": `{"a":{"speed":1013.2},"<script>alert(1)</script>":1,"list":[2]}`} {
		api.Root.Post(api.At("/messages"), object{"topic": topic, "payload": payload, "qos": 1}).Want(204)
	}
	shown := v.Want(v.Get(v.base+page), 200, `<h2 id="values-0-0-title">cold</h2>`, "Value: -20.5 last, between -20.5 and -20.5.", `<td class="num">-20.5</td>`,
		`<h2 id="values-2-0-title">json · a.speed</h2>`, "a.speed: 1,013.2 last", "json · &lt;script&gt;")
	v.harmless(shown)
	v.Lacks(shown, `id="values-1-`, `id="values-2-2`)
	var values []broker.TopicValues
	api.Root.Get(api.At("/topictree/values?topic=json&topic=cold&topic=$SYS/x")).Want(200).Decode(&values)
	if len(values) != 3 || values[0].Topic != "json" || len(values[0].Series) != 2 || !values[1].Recorded || values[1].From == 0 || values[1].Series[0].Name != "" ||
		values[2].Recorded || values[2].Reason != broker.ValuesUntracked {
		t.Errorf("the numbers: %+v", values)
	}
}

// TestConsoleTopicValuesElsewhere: the numbers of a tree that the broker itself keeps are not
// known here.
func TestConsoleTopicValuesElsewhere(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	id := addBroker(t, api, object{"name": "again", "url": "mqtt://" + api.MQTT, "username": mqttAdmin, "password": mqttPassword})
	v := visit(t, api, "viewer")
	v.base = "/p/" + api.Project + "/b/" + id + "/"
	waitFor(t, "the connection", func() bool { return brokerRecord(api, id).Status.Connected })
	api.Root.Post(api.At("/messages"), object{"topic": "a", "payload": "1", "qos": 1}).Want(204)
	v.Lacks(v.Want(v.Get(v.base+"topics?watch=1&watched=a&watched=b"), 200, "Not drawn over time: a, b. The broker itself or another node", "no message lately"), `class="card chart"`)
}

func TestConsoleRetained(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	v := visit(t, api, "editor")
	v.page("retained", "No retained message")
	v.page("messages?topic=a/b", `value="a/b"`)
	v.again("messages", doing("publish", "topic", hostileTopic, "payload", hostilePayload, "encoding", "json", "qos", "1", "retain", "true",
		"expiry", "3600", "contentType", "application/json", "responseTopic", "r", "correlationData", "AQI=", "userProperties", "a=1\r\na=2=3\r\n"), 200,
		"accepted the message", "&lt;script&gt;")
	v.again("messages", doing("publish", "topic", "plant/raw", "payload", "00 ff\r\n0a", "encoding", "hex", "qos", "0", "retain", "true"), 200)
	v.again("messages", doing("publish", "topic", "plant/text", "payload", "a\r\nb", "encoding", "text", "qos", "0", "retain", "true"), 200)
	for _, wrong := range []url.Values{
		doing("publish", "topic", "a/#", "payload", "x", "encoding", "text", "qos", "0"),
		doing("publish", "topic", "a", "payload", "0", "encoding", "hex", "qos", "0"),
		doing("publish", "topic", "a", "payload", "{", "encoding", "json", "qos", "0"),
		doing("publish", "topic", "a", "payload", "x", "encoding", "text", "qos", "0", "userProperties", "none"),
		doing("publish", "topic", "a", "payload", "x", "encoding", "text", "qos", "0", "expiry", "soon"),
	} {
		v.again("messages", wrong, 400, `aria-invalid="true"`)
	}
	var one []broker.RetainedMessage
	api.Root.Get(api.At("/messages/retained?topic=" + url.QueryEscape(hostileTopic))).Want(200).Decode(&one)
	if p := one[0].Properties; one[0].Payload != hostilePayload || *one[0].QoS != 1 || one[0].ExpiresAt.IsZero() || p == nil || p.ContentType != "application/json" ||
		p.ResponseTopic != "r" || p.CorrelationData != "AQI=" || len(p.UserProperties) != 2 || p.UserProperties[1].Value != "2=3" {
		t.Errorf("published: %+v", one[0])
	}
	api.Root.Get(api.At("/messages/retained?topic=plant/raw")).Want(200).Decode(&one)
	if one[0].Payload != "AP8K" || one[0].Encoding != "base64" {
		t.Errorf("published as hexadecimal: %+v", one[0])
	}

	v.page("retained", "&lt;script&gt;", "00 ff 0a", "Delete all 3 that match")
	v.page("retained?filter=plant/%2B", "Delete all 2 that match")
	v.page("retained?filter=a/%23/b", "INVALID_REQUEST")
	message := v.page(withQuery("retained/message", "topic", hostileTopic), "&lt;script&gt;", "as=hex", "application/json", "<strong class=\"tag\">JSON</strong>")
	if !strings.Contains(message, "  &#34;a&#34;: ") {
		t.Errorf("the payload is not indented:\n%s", message)
	}
	v.page("retained/message?topic=plant/raw&as=hex", "00000000  00 ff 0a")
	v.Want(v.Get(v.base+"retained/message?topic=none"), 404)
	v.page("retained/delete?topic=plant/raw", "plant/raw", "3 B")
	v.post("retained/delete?topic=plant/raw", doing("delete"))
	api.Root.Get(api.At("/messages/retained?topic=plant/raw")).WantError(404, "NOT_FOUND")
	v.page("retained/delete-matching?filter=%23", "2 retained messages match", `name="count" value="2"`)
	v.again("retained/delete-matching?filter=%23", doing("delete", "count", "3"), 400)
	v.post("retained/delete-matching?filter=%23", doing("delete", "count", "2", "confirm", "all"))
	v.page("retained", "No retained message")
}

func TestConsoleTTL(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	v := visit(t, api, "editor")
	v.page("ttl", `value="60"`)
	for _, wrong := range []string{"", "-1", "soon", "9999999999"} {
		v.again("ttl", doing("set", "ttl_sec", wrong), 400, `aria-invalid="true"`)
	}
	v.post("ttl", doing("set", "ttl_sec", "120"))
	wantTTL(t, api.Root, api.At(""), 120)
	v.page("ttl", `value="120"`)
}

// TestConsoleTopicsAsk: the pages of another broker subscribe to nothing before the
// caller has accepted it.
func TestConsoleTopicsAsk(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addMosquitto(t, api)
	v := visit(t, api, "editor")
	v.base = "/p/" + api.Project + "/b/" + id + "/"
	for _, page := range []string{"topics", "topics/all"} {
		if text := v.page(page, "watch=1", "connection/edit"); strings.Contains(text, `id="list"`) {
			t.Errorf("%s shows topics:\n%s", page, text)
		}
		v.page(page+"?watch=1", `id="list"`)
	}
	v.page("sessions", "This broker does not have this feature", "offer it")
	v.page("bans", "This broker does not have this feature")
	v.page("connection", "What would change that")
	api.Root.Put(api.BrokerAt(id, ""), object{"topictree": false}).Want(204)
	waitFor(t, "the connection", func() bool { return brokerRecord(api, id).Status.Connected })
	v.page("topics", "forbids")
}
