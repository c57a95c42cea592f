package apitest_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/router/apitest"
)

// calls are one valid call of each operation about streams.
var calls = []struct {
	method, path string
	body         any
	unnamed      bool // names no stream that must exist
	writes       bool
}{
	{"GET", "/streams", nil, true, false},
	{"POST", "/streams", object{"streamname": "new", "sourceTopic": "a"}, true, true},
	{"PUT", "/streams", object{"streamname": "none", "ttl": 1}, false, true},
	{"DELETE", "/streams?streamname=none", nil, false, true},
	{"DELETE", "/streams/messages?streamname=none", nil, false, true},
	{"PUT", "/streams/replay", object{"streamname": "none", "replayTopic": "b"}, false, true},
	{"GET", "/streams/detail?streamname=none", nil, false, false},
	{"GET", "/streams/messages/count?streamname=none", nil, false, false},
	{"DELETE", "/streams/messages/range?streamname=none&gte=1", nil, false, true},
	{"DELETE", "/streams/replay?streamname=none", nil, false, true},
}

// TestStreamsRefused calls each operation where it must not succeed.
func TestStreamsRefused(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	down := addBroker(t, api, object{"name": "down", "url": "mqtt://127.0.0.1:1"})
	elsewhere := api.Token("editor", down)
	unknown := "0197c10d-0000-7000-8000-00000000dead"
	for _, c := range calls {
		if !c.unnamed {
			api.Root.Do(c.method, api.At(c.path), c.body).WantError(404, "NOT_FOUND")
		}
		api.Anonymous().Do(c.method, api.At(c.path), c.body).WantError(401, "UNAUTHORIZED")
		elsewhere.Do(c.method, api.At(c.path), c.body).WantError(403, "FORBIDDEN")
		api.Root.Do(c.method, api.BrokerAt(unknown, c.path), c.body).WantError(404, "NOT_FOUND")
		api.Root.Do(c.method, strings.Replace(api.At(c.path), api.Project, unknown, 1), c.body).WantError(404, "NOT_FOUND")
	}
	for path, allow := range map[string]string{
		"/streams": "GET", "/streams/messages": "DELETE", "/streams/messages/range": "DELETE", "/streams/replay": "PUT", "/streams/detail": "GET",
	} {
		answer := api.Root.Do("PATCH", api.At(path), nil).WantError(405, "METHOD_NOT_ALLOWED")
		if got := answer.Header.Get("Allow"); !strings.Contains(got, allow) {
			t.Errorf("PATCH %s: Allow is %q, want %s in it", path, got, allow)
		}
	}
	makeStream(t, api, object{"streamname": "s", "sourceTopic": "a"})
	api.Root.Post(api.At("/streams"), object{"streamname": "s", "sourceTopic": "b"}).WantError(400, "ALREADY_EXISTS")
	api.Root.Put(api.At("/streams/replay"), object{"streamname": "s", "replayTopic": "b"}).WantError(400, "CONFLICT") // stores nothing
}

// TestStreamsReadOnly checks that viewers cannot write if that is configured.
func TestStreamsReadOnly(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, apitest.ViewerReadOnly)
	viewer := api.Token("viewer")
	for _, c := range calls {
		if c.writes {
			viewer.Do(c.method, api.At(c.path), c.body).WantError(403, "FORBIDDEN")
		}
	}
	viewer.Get(api.At("/streams")).Want(200)
}

// TestBadStreams names every invalid field, as the caller spelt it.
func TestBadStreams(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	makeStream(t, api, storingStream("s", "in"))
	twice := object{"streamname": "n", "sourceTopic": "a", "sourcetopic": "b", "targetTopic": "c", "targettopic": "d"}
	badQuery := object{"select": []object{{"source": "[a", "target": "[x]"}, {"source": "[a]", "target": "[y]", "function": object{"name": "median"}}},
		"where": []object{{"operator": "~", "left": "[a]", "right": 1}}}
	for _, c := range []struct {
		method, path string
		body         any
		fields       []string
	}{
		{"POST", "/streams", object{}, []string{"body.sourceTopic", "body.streamname"}},
		{"POST", "/streams", object{"streamname": "n", "sourcetopic": ""}, []string{"body.sourcetopic"}},
		{"POST", "/streams", object{"streamname": "", "sourceTopic": 7, "targetqos": 3, "ttl": -1, "query": []int{}, "textname": nil},
			[]string{"body.query", "body.sourceTopic", "body.streamname", "body.targetqos", "body.textname", "body.ttl"}},
		{"POST", "/streams", object{"streamname": "n", "sourceTopic": "$SYS/#", "targetTopic": "a/+"}, []string{"body.sourceTopic", "body.targetTopic"}},
		{"POST", "/streams", object{"streamname": "n", "sourcetopic": "#/a", "targettopic": "$x"}, []string{"body.sourcetopic", "body.targettopic"}},
		{"POST", "/streams", object{"streamname": "n\x01", "sourceTopic": "$share/g/a", "ttl": 1 << 40}, []string{"body.sourceTopic", "body.streamname", "body.ttl"}},
		{"POST", "/streams", twice, []string{"body.sourcetopic", "body.targettopic"}},
		{"POST", "/streams", object{"streamname": "n", "sourceTopic": "a", "query": badQuery},
			[]string{"body.query.select[0].source", "body.query.select[1].function.name", "body.query.where[0].operator"}},
		{"PUT", "/streams", object{"streamname": "s", "sourcetopic": "$a", "targetTopic": "#", "active": "yes", "replace": 1}, []string{"body.active", "body.replace"}},
		{"PUT", "/streams", object{"streamname": "s", "sourcetopic": "$a", "targetTopic": "#"}, []string{"body.sourcetopic", "body.targetTopic"}},
		{"PUT", "/streams", twice, []string{"body.sourcetopic", "body.targettopic"}},
		{"DELETE", "/streams", nil, []string{"query.streamname"}},
		{"DELETE", "/streams?streamname=", nil, []string{"query.streamname"}},
		{"DELETE", "/streams/messages", nil, []string{"query.streamname"}},
		{"PUT", "/streams/replay", object{}, []string{"body.replayTopic", "body.streamname"}},
		{"PUT", "/streams/replay", object{"streamname": "s", "replayTopic": "a", "gte": "today", "lte": true, "limit": -2, "speed": "slow", "reverse": "no"},
			[]string{"body.gte", "body.limit", "body.lte", "body.reverse", "body.speed"}},
		{"PUT", "/streams/replay", object{"streamname": "s", "replayTopic": "a/#", "gte": "2", "lte": 1}, []string{"body.lte", "body.replayTopic"}},
		{"PUT", "/streams/replay", object{"streamname": "s", "replaytopic": "$a"}, []string{"body.replaytopic"}},
		{"PUT", "/streams/replay", object{"streamname": "s", "replaytopic": "a", "replayTopic": "b"}, []string{"body.replaytopic"}},
		{"PUT", "/streams/replay", object{"streamname": "s", "replayTopic": "in"}, []string{"body.replayTopic"}}, // which is the stream's own source
		{"GET", "/streams/detail", nil, []string{"query.streamname"}},
		{"GET", "/streams/messages/count?streamname=", nil, []string{"query.streamname"}},
		{"DELETE", "/streams/messages/range?gte=x", nil, []string{"query.gte", "query.streamname"}},
		{"DELETE", "/streams/messages/range?streamname=s", nil, []string{"query.gte"}},
		{"DELETE", "/streams/messages/range?streamname=s&gte=&lte=", nil, []string{"query.gte"}},
		{"DELETE", "/streams/messages/range?streamname=s&gte=2&lte=1", nil, []string{"query.lte"}},
		{"DELETE", "/streams/replay", nil, []string{"query.streamname"}},
	} {
		got := api.Root.Do(c.method, api.At(c.path), c.body).WantError(400, "INVALID_REQUEST").Fields()
		slices.Sort(got)
		if !slices.Equal(got, c.fields) {
			body, _ := json.Marshal(c.body) // for the message
			t.Errorf("%s %s %s: bad fields %q, want %q", c.method, c.path, body, got, c.fields)
		}
	}
	var names []string
	if api.Root.Get(api.At("/streams?verbose=false")).Want(200).Decode(&names); !slices.Equal(names, []string{"s"}) {
		t.Errorf("streams after all that was refused: %q", names)
	}
}

// TestStreamLoops refuses loops, and names them.
func TestStreamLoops(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	refuse := func(method string, body object, field string, chain ...string) {
		t.Helper()
		answer := api.Root.Do(method, api.At("/streams"), body).WantError(400, "INVALID_REQUEST")
		if got := answer.Fields(); !slices.Equal(got, []string{field}) {
			t.Errorf("%v: bad fields %q, want %s", body, got, field)
		}
		message := answer.Error().Message
		for _, part := range chain {
			at := strings.Index(message, part)
			if at < 0 {
				t.Fatalf("%v: %q does not name %s in its place", body, message, part)
			}
			message = message[at+len(part):]
		}
	}
	refuse("POST", object{"streamname": "self", "sourceTopic": "a/#", "targetTopic": "a/b"}, "body.targetTopic", "self", "a/b", "self")
	makeStream(t, api, object{"streamname": "one", "sourceTopic": "a/+", "targetTopic": "b/1"})
	makeStream(t, api, object{"streamname": "two", "sourceTopic": "b/#", "targetTopic": "c"})
	refuse("POST", object{"streamname": "three", "sourcetopic": "c", "targettopic": "a/x"}, "body.targettopic", "three", "a/x", "one", "b/1", "two", "c", "three")
	makeStream(t, api, object{"streamname": "three", "sourceTopic": "c", "targetTopic": "a/x", "active": false})
	refuse("PUT", object{"streamname": "three", "active": true}, "body.targettopic", "three", "one", "two", "three")
	refuse("PUT", object{"streamname": "two", "targettopic": "a/1"}, "body.targettopic", "two", "one", "two")
	api.Root.Put(api.At("/streams"), object{"streamname": "one", "active": false}).Want(204)
	api.Root.Put(api.At("/streams"), object{"streamname": "three", "active": true}).Want(204)
}

// TestStreamControl manages streams over the broker's control topic.
func TestStreamControl(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	d, p := join(t, api, 5, "admin's", asAdmin), join(t, api, 5, "writer", asAdmin)
	d.SubscribeTo(filter(control.StreamTopic+control.ResponseSuffix, 0), filter("again", 0))
	ask := func(command string) string {
		t.Helper()
		p.Publish(control.StreamTopic, `{"commands":[`+command+`]}`, 1)
		pk := d.Want(packet.Publish)
		if pk.Topic != control.StreamTopic+control.ResponseSuffix {
			t.Fatalf("%s: got %q on %s", command, pk.Payload, pk.Topic)
		}
		return string(pk.Payload)
	}
	want := func(command, answer string) {
		t.Helper()
		if got := ask(command); got != `{"responses":[`+answer+`]}` {
			t.Errorf("%s:\ngot  %s\nwant %s", command, got, answer)
		}
	}
	done := func(name string) string { return `{"command":"` + name + `","data":{}}` }
	want(`{"command":"createStream","streamname":"s","sourceTopic":"in","persist":true,"correlationData":"x"}`, `{"command":"createStream","data":{},"correlationData":"x"}`)
	want(`{"command":"createStream","streamname":"s","sourcetopic":"in"}`, `{"command":"createStream","error":"Stream already exists"}`)
	want(`{"command":"createStream","streamname":"t"}`, `{"command":"createStream","error":"Invalid/missing sourcetopic"}`)
	if got := ask(`{"command":"createStream","streamname":"t","sourcetopic":"$SYS/#"}`); !strings.Contains(got, `"error":"sourcetopic`) {
		t.Errorf("a source that cannot be used: %s", got)
	}
	want(`{"command":"modifyStream","streamname":"s","textname":"n"}`, done("modifyStream"))
	want(`{"command":"disableStream","streamname":"s"}`, done("disableStream"))
	if streamOf(api, "s").Active {
		t.Error("disabled, and still active")
	}
	want(`{"command":"enableStream","streamname":"s"}`, done("enableStream"))
	want(`{"command":"listStreams"}`, `{"command":"listStreams","data":{"totalCount":1,"streams":["s"]}}`)

	before := fill(t, p, "in", 2)
	want(`{"command":"getStreamMessageCount","streamname":"s"}`, `{"command":"getStreamMessageCount","data":{"streamname":"s","count":2}}`)
	want(`{"command":"replayStream","streamname":"s","replaytopic":"again","limit":0}`, done("replayStream"))
	noReplay(t, api, "s")
	want(`{"command":"stopStreamReplay","streamname":"s"}`, `{"command":"stopStreamReplay","error":"no replay of this stream is running"}`)
	first, err := json.Marshal(before[1])
	if err != nil {
		t.Fatal(err)
	}
	want(`{"command":"clearStreamMessages","streamname":"s","lte":`+string(first)+`}`, done("clearStreamMessages"))
	want(`{"command":"getStreamMessageCount","streamname":"s"}`, `{"command":"getStreamMessageCount","data":{"streamname":"s","count":1}}`)

	var record control.StreamRecord
	if err := control.Read([]byte(ask(`{"command":"getStream","streamname":"s","correlationData":"y"}`)), "y", &record); err != nil || record.TextName != "n" || !record.Active || !record.Persist {
		t.Errorf("getStream: %+v, %v", record, err)
	}
	if got := ask(`{"command":"getLicense"}`); !strings.Contains(got, `"name":"stream-count"`) {
		t.Errorf("getLicense: %s", got)
	}
	want(`{"command":"deleteStream","streamname":"s"}`, done("deleteStream"))
	want(`{"command":"getStream","streamname":"s"}`, `{"command":"getStream","error":"Stream not found"}`)
}

// TestStreamControlIsNotForEverybody: it requires the right to publish to the topic.
func TestStreamControlIsNotForEverybody(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	account(t, api, "meter", allowed("publishClientSend", "#"))
	d := join(t, api, 5, "c", user("meter", "secret"))
	if code := d.Publish(control.StreamTopic, `{"commands":[{"command":"createStream","streamname":"s","sourcetopic":"in"}]}`, 1); code != 0x87 {
		t.Errorf("PUBACK %#x, want 0x87", code)
	}
	if got := strings.TrimSpace(string(api.Root.Get(api.At("/streams")).Want(200).Body)); got != "[]" {
		t.Errorf("streams: %s", got)
	}
}
