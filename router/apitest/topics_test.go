package apitest_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/handlers"
	"signalbox/router/apitest"
)

// topicTree requests the topics in use, count -1 for all.
func topicTree(c *apitest.Caller, path string, query ...string) (tree broker.TopicTree) {
	c.Get(path + "/topictree?" + strings.Join(query, "&")).Want(200).Decode(&tree)
	return tree
}

// wantTTL checks the TTL.
func wantTTL(t *testing.T, c *apitest.Caller, path string, seconds int) {
	t.Helper()
	want := fmt.Sprintf(`{"ttl_sec":%d}`, seconds)
	if got := strings.TrimSpace(string(c.Get(path + "/topictree/ttl").Want(200).Body)); got != want {
		t.Errorf("TTL %s, want %s", got, want)
	}
}

// isBetween checks and clears the times of the last messages.
func isBetween(t *testing.T, data []broker.PublishTopic, from, to time.Time) {
	t.Helper()
	for i := range data {
		if at := data[i].LastModified; at < from.UnixMilli() || at > to.UnixMilli() {
			t.Errorf("%s was last used at %d, want from %d to %d", data[i].Topic, at, from.UnixMilli(), to.UnixMilli())
		}
		data[i].LastModified = 0
	}
}

// payloads are the forms in which a topic tree shows messages.
var payloads = []struct {
	sent string
	want broker.PublishTopic // without the topic
}{
	{"grüße", broker.PublishTopic{Payload: "grüße"}},
	{"", broker.PublishTopic{}},
	{"\x00\xff", broker.PublishTopic{Payload: "AP8=", Encoding: "base64"}},
	{strings.Repeat("x", 1001), broker.PublishTopic{Payload: strings.Repeat("x", 1000)}},
	{"x" + strings.Repeat("é", 500), broker.PublishTopic{Payload: "x" + strings.Repeat("é", 499)}},
}

func TestTopicTree(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	account(t, api, "sharer", allowed("subscribePattern", "quiet/#"), allowed("subscribeLiteral", "$share/g/quiet/x"))
	one, two := join(t, api, 5, "one", asAdmin), join(t, api, 4, "two", user("sharer", "secret"))
	one.SubscribeTo(filter("quiet/#", 0), filter("quiet/+", 1))
	two.SubscribeTo(filter("$share/g/quiet/x", 0), filter("quiet/#", 2))
	before := time.Now().Truncate(time.Millisecond)
	want := broker.PublishTopics{Count: len(payloads), Topics: []string{}, Data: []broker.PublishTopic{}}
	for i, p := range payloads {
		p.want.Topic, p.want.QoS, p.want.Retain, p.want.Messages = fmt.Sprintf("a/%d", i), i%3, i == 2, int64(i+1)
		for range i {
			one.Publish(p.want.Topic, "earlier", 0)
		}
		one.Publish(p.want.Topic, p.sent, byte(p.want.QoS), func(pk *packet.Packet) { pk.Retain = p.want.Retain })
		want.Topics, want.Data = append(want.Topics, p.want.Topic), append(want.Data, p.want)
	}
	one.Publish("$other/topic", "x", 0)

	viewer := api.Token("viewer")
	got := topicTree(viewer, api.At(""))
	isBetween(t, got.PublishTopics.Data, before, time.Now())
	if diff := cmp.Diff(want, got.PublishTopics); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
	filters := []string{"$share/g/quiet/x", "quiet/#", "quiet/+"}
	subscribed := broker.SubscribeTopics{Count: 3, Topics: filters,
		Data: []broker.SubscribeTopic{{Topic: filters[0], Clients: 1}, {Topic: filters[1], Clients: 2}, {Topic: filters[2], Clients: 1}}}
	if diff := cmp.Diff(subscribed, got.SubscribeTopics); diff != "" {
		t.Errorf("filters (-want +got):\n%s", diff)
	}
	wantTreeMembers(t, viewer.Get(api.At("/topictree?count=1&offset=2")).Want(200))
	wantTreePages(t, viewer, api.At(""), want.Topics, filters)
}

// wantTreeMembers checks the names of members, and that none is omitted.
func wantTreeMembers(t *testing.T, a *apitest.Response) {
	t.Helper()
	var lists map[string]struct {
		Data []map[string]json.RawMessage
	}
	a.Decode(&lists)
	for list, want := range map[string]string{"publishTopics": "encoding lastModified messages payload qos retain topic", "subscribeTopics": "clients topic"} {
		if data := lists[list].Data; len(lists) != 2 || len(data) != 1 || keysOf(data[0]) != want {
			t.Errorf("%s of %s, want one with %s", list, a.Body, want)
		}
	}
}

// wantTreePages requests pages of both lists.
func wantTreePages(t *testing.T, c *apitest.Caller, path string, topics, filters []string) {
	t.Helper()
	for query, w := range map[string]window{
		"": {0, -1}, "offset=0&count=-1": {0, -1}, "offset=1": {1, -1}, "count=2": {0, 2}, "offset=2&count=2": {2, 2},
		"count=0": {0, 0}, "offset=4&count=9": {4, 9}, "offset=99": {99, -1},
	} {
		tree := topicTree(c, path, query)
		p, s := tree.PublishTopics, tree.SubscribeTopics
		if diff := cmp.Diff([2][]string{w.of(topics), w.of(filters)}, [2][]string{p.Topics, s.Topics}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
		if p.Count != len(topics) || s.Count != len(filters) || len(p.Data) != len(p.Topics) || len(s.Data) != len(s.Topics) ||
			p.Data == nil || s.Data == nil {
			t.Errorf("%q: %d and %d in all, %d and %d in the page", query, p.Count, s.Count, len(p.Data), len(s.Data))
		}
	}
	for query, field := range map[string]string{"offset=-1": "query.offset", "count=-2": "query.count", "count=all": "query.count",
		"nodeid=1": "query.nodeid", "nodeid=-1": "query.nodeid", "nodeid=x": "query.nodeid"} {
		if got := c.Get(path+"/topictree?"+query).WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(got, []string{field}) {
			t.Errorf("%q: bad fields %q, want %q", query, got, field)
		}
	}
}

// window is a page of a list, count -1 for all from offset on.
type window struct{ offset, count int }

// of returns that page, never nil.
func (w window) of(list []string) []string {
	rest := list[min(w.offset, len(list)):]
	if w.count >= 0 {
		rest = rest[:min(w.count, len(rest))]
	}
	return append([]string{}, rest...)
}

// changeTTL sets valid and invalid TTLs of a broker, and leaves it at a second.
func changeTTL(t *testing.T, c *apitest.Caller, path string) {
	t.Helper()
	ttl := path + "/topictree/ttl"
	wantTTL(t, c, path, 60)
	for name, body := range map[string]any{
		"negative": object{"ttl_sec": -1}, "too long": object{"ttl_sec": 315_360_001}, "a fraction": object{"ttl_sec": 1.5},
		"a string": object{"ttl_sec": "5"}, "null": object{"ttl_sec": nil}, "absent": object{},
	} {
		if got := c.Put(ttl, body).WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(got, []string{"body.ttl_sec"}) {
			t.Errorf("%s: bad fields %q", name, got)
		}
	}
	if got := c.Put(ttl+"?nodeid=2", object{"ttl_sec": 5}).WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(got, []string{"query.nodeid"}) {
		t.Errorf("of a node: bad fields %q", got)
	}
	c.Get(ttl+"?nodeid=2").WantError(400, "INVALID_REQUEST")
	wantTTL(t, c, path, 60)
	for _, seconds := range []int{315_360_000, 0, 1} {
		c.Put(ttl, object{"ttl_sec": seconds}).Want(204)
		wantTTL(t, c, path, seconds)
	}
}

// wantExpiry has a topic appear in the tree and expire, while another stays in use. The
// TTL is a second.
func wantExpiry(t *testing.T, c *apitest.Caller, path string, publish func(topic string)) {
	t.Helper()
	topics := func() []string { return topicTree(c, path).PublishTopics.Topics }
	waitFor(t, "a topic in the tree", func() bool {
		publish("once")
		return slices.Contains(topics(), "once")
	})
	waitFor(t, "the topic to leave, and no other", func() bool {
		publish("always")
		return slices.Equal(topics(), []string{"always"})
	})
}

func TestTTLOfTheEmbeddedBroker(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, apitest.ViewerReadOnly)
	d := join(t, api, 5, "d", asAdmin)
	editor := api.Token("editor")
	changeTTL(t, editor, api.At(""))
	wantExpiry(t, editor, api.At(""), func(topic string) { d.Publish(topic, "x", 0) })
	editor.Put(api.At("/topictree/ttl"), object{"ttl_sec": 0}).Want(204)
	if d.Publish("untold", "x", 1); topicTree(editor, api.At("")).PublishTopics.Count != 0 {
		t.Error("topics are kept with a TTL of 0")
	}
	viewer := api.Token("viewer")
	viewer.Put(api.At("/topictree/ttl"), object{"ttl_sec": 60}).WantError(403, "FORBIDDEN")
	wantTTL(t, viewer, api.At(""), 0)
}

// TestTopicTreeOfAnotherSignalbox requests from one service the topics of another,
// which tracks them itself: the setting has no effect.
func TestTopicTreeOfAnotherSignalbox(t *testing.T) {
	t.Parallel()
	far, near := apitest.New(t, withAdminPassword), apitest.New(t)
	d := join(t, far, 5, "d", asAdmin)
	for i, p := range payloads {
		d.Publish(fmt.Sprintf("a/%d", i), p.sent, byte(i%3))
	}
	id := addBroker(t, near, object{"name": "far", "url": far.Listeners[0], "username": mqttAdmin, "password": mqttPassword, "topictree": false})
	waitFor(t, "the connection", func() bool { return slices.Contains(brokerRecord(near, id).Capabilities, broker.CapTTL) })
	viewer, path := near.Token("viewer", id), near.BrokerAt(id, "")
	want := topicTree(far.Root, far.At(""))
	if diff := cmp.Diff(want, topicTree(viewer, path)); diff != "" || want.PublishTopics.Count != len(payloads) {
		t.Errorf("far and near (-far +near):\n%s", diff)
	}
	if !slices.Contains(want.SubscribeTopics.Topics, "$SYS/#") || slices.Contains(want.SubscribeTopics.Topics, "#") {
		t.Errorf("near is subscribed to %q", want.SubscribeTopics.Topics)
	}
	wantTreePages(t, viewer, path, want.PublishTopics.Topics, want.SubscribeTopics.Topics)
	changeTTL(t, viewer, path)
	wantTTL(t, far.Root, far.At(""), 1)
	wantExpiry(t, viewer, path, func(topic string) { d.Publish(topic, "x", 0) })
	if caps := brokerRecord(near, id).Capabilities; !slices.Contains(caps, broker.CapTopicTree) {
		t.Errorf("capabilities: %q", caps)
	}

	var l broker.License
	if viewer.Get(path + "/license").Want(200).Decode(&l); l.Edition != "embedded" || !slices.Contains(l.Features, string(broker.CapTopicTree)) {
		t.Errorf("licence: %+v", l)
	}
}

// TestTopicTreeOfMosquitto has a tree of what Mosquitto publishes.
func TestTopicTreeOfMosquitto(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addMosquitto(t, api)
	viewer, path := api.Token("viewer", id), api.BrokerAt(id, "")
	publish := func(topic, payload string) {
		api.Root.Post(path+"/messages", object{"topic": topic, "payload": base64.StdEncoding.EncodeToString([]byte(payload)), "encoding": "base64",
			"qos": 1, "retain": true}).Want(204)
	}
	publish("before", "x")
	if got := topicTree(viewer, path); got.PublishTopics.Count != 0 || got.PublishTopics.Data == nil {
		t.Errorf("before anybody asked: %+v", got.PublishTopics)
	}
	before := time.Now().Truncate(time.Millisecond)
	want := broker.PublishTopics{Count: len(payloads), Topics: []string{}, Data: []broker.PublishTopic{}}
	for i, p := range payloads {
		p.want.Topic, p.want.Messages, p.want.Retain = fmt.Sprintf("a/%d", i), 1, true // the QoS is not visible
		publish(p.want.Topic, p.sent)
		want.Topics, want.Data = append(want.Topics, p.want.Topic), append(want.Data, p.want)
	}
	waitFor(t, "all topics", func() bool { return topicTree(viewer, path, "count=0").PublishTopics.Count == len(payloads) })
	got := topicTree(viewer, path)
	isBetween(t, got.PublishTopics.Data, before, time.Now())
	if diff := cmp.Diff(want, got.PublishTopics); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
	if s := got.SubscribeTopics; s.Count != 0 || s.Topics == nil || s.Data == nil {
		t.Errorf("filters, which nobody can see: %+v", s)
	}
	wantTreePages(t, viewer, path, want.Topics, nil)
	changeTTL(t, viewer, path)
	wantExpiry(t, viewer, path, func(topic string) { publish(topic, "x") })
}

// settledSubscriptions returns Mosquitto's count of subscriptions after all earlier
// requests: it counts each second.
func settledSubscriptions(t *testing.T, api *apitest.API, id string) (count string) {
	t.Helper()
	seen := map[string]bool{}
	waitFor(t, "three times of $SYS", func() bool {
		var info handlers.BrokerInfo
		api.Root.Get(api.BrokerAt(id, "/info")).Want(200).Decode(&info)
		count = info.SysTopics.Topics["$SYS/broker/subscriptions/count"]
		seen[info.SysTopics.Topics["$SYS/broker/uptime"]] = true
		return len(seen) >= 3
	})
	return count
}

// wantNoTree expects no topic tree of a broker.
func wantNoTree(t *testing.T, api *apitest.API, id string) {
	t.Helper()
	for feature, answers := range map[string][]*apitest.Response{
		"topic-tree": {api.Root.Get(api.BrokerAt(id, "/topictree"))},
		"ttl":        {api.Root.Get(api.BrokerAt(id, "/topictree/ttl")), api.Root.Put(api.BrokerAt(id, "/topictree/ttl"), object{"ttl_sec": 5})},
	} {
		for _, a := range answers {
			if e := a.WantError(405, "NOT_SUPPORTED").Error(); e.Info["feature"] != feature || !strings.Contains(e.Message, "topictree") {
				t.Errorf("got %s, want the feature %s and the member that forbids it", a.Body, feature)
			}
		}
	}
	if caps := brokerRecord(api, id).Capabilities; slices.Contains(caps, broker.CapTopicTree) || slices.Contains(caps, broker.CapTTL) {
		t.Errorf("capabilities: %q", caps)
	}
}

// TestTopicTreeSwitch checks Mosquitto's subscriptions: to everything after the first
// request, and never if that is disabled.
func TestTopicTreeSwitch(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addMosquitto(t, api)
	path := api.BrokerAt(id, "")
	change := func(value any) {
		api.Root.Put(path, object{"topictree": value}).Want(204)
		waitFor(t, "the new connection", func() bool { return brokerRecord(api, id).Status.Connected })
	}
	idle := settledSubscriptions(t, api, id)
	api.Root.Get(path + "/topictree").Want(200)
	asked := settledSubscriptions(t, api, id)
	if n, err := strconv.Atoi(idle); err != nil || asked != strconv.Itoa(n+1) {
		t.Fatalf("%q subscriptions before the first question, %q after it", idle, asked)
	}
	change(false)
	wantNoTree(t, api, id)
	settle := func(what, want string) { // the previous connection may end after the next one begins
		t.Helper()
		waitFor(t, want+" subscriptions with the tree switched "+what, func() bool { return settledSubscriptions(t, api, id) == want })
	}
	settle("off", idle)
	change(nil)
	api.Root.Get(path + "/topictree").Want(200)
	settle("on", asked)
}

// TestTopicTreeMember follows the setting through what is stored.
func TestTopicTreeMember(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	api := apitest.New(t, apitest.In(dir))
	server := brokertest.Mosquitto(t)
	body := func(more ...any) object {
		b := object{"name": "m", "url": server.URL, "username": server.AdminUsername, "password": string(server.AdminPassword)}
		if len(more) > 0 {
			b["topictree"] = more[0]
		}
		return b
	}
	want := func(api *apitest.API, id string, want bool) {
		t.Helper()
		if got := brokerRecord(api, id).TopicTree; got != want {
			t.Errorf("topictree: %t, want %t", got, want)
		}
	}
	want(api, api.Embedded, true)
	want(api, addBroker(t, api, body()), true)
	want(api, addBroker(t, api, body(nil)), true)
	id := addBroker(t, api, body(false))
	want(api, id, false)
	for _, step := range []struct {
		body object
		want bool
	}{{object{"name": "other"}, false}, {object{"topictree": nil}, true}, {object{"description": "x"}, true}, {object{"topictree": true}, true}, {object{"topictree": false}, false}} {
		api.Root.Put(api.BrokerAt(id, ""), step.body).Want(204)
		want(api, id, step.want)
	}
	for _, value := range []any{"false", 0, []bool{}} {
		if got := api.Root.Put(api.BrokerAt(id, ""), object{"topictree": value}).WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(got, []string{"body.topictree"}) {
			t.Errorf("%v: bad fields %q", value, got)
		}
	}
	for _, value := range []bool{true, false} {
		var trial handlers.BrokerTrial
		api.Root.Post("/api/projects/"+api.Project+"/brokers/test", body(value)).Want(200).Decode(&trial)
		if got := slices.Contains(trial.Capabilities, broker.CapTopicTree); !trial.Connected || got != value {
			t.Errorf("trial with %t: %+v", value, trial)
		}
	}
	api.Stop()

	again := apitest.New(t, apitest.In(dir))
	want(again, id, false)
	waitFor(t, "the connection", func() bool { return brokerRecord(again, id).Status.Connected })
	wantNoTree(t, again, id)
}
