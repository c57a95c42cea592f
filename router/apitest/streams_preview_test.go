package apitest_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/router/apitest"
)

// speedQuery has a sum of the speeds in hall 3.
const speedQuery = `{"select":[{"source":"[speed]","target":"[sum]","function":{"name":"sum"}},{"source":"[name]","target":"[name]"}],"where":[{"left":"[hall]","operator":"==","right":3}]}`

func TestPreviewStream(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	viewer, at := api.Token("viewer"), api.At("/streams/preview")
	var got struct{ Outcomes []broker.StreamOutcome }
	viewer.Post(at, object{"sourcetopic": "plant/#", "targettopic": "out", "targetqos": 2, "persist": true, "query": json.RawMessage(speedQuery), "messages": []object{
		{"topic": "plant/1", "payload": `{"speed":2,"name":"a","hall":3}`}, {"topic": "plant/1", "payload": `{"speed":2,"name":"a","hall":4}`},
		{"topic": "plant/1", "payload": "//79", "encoding": "base64", "at": 1}, {"topic": "plant/1", "payload": `{"speed":3,"name":"b","hall":3}`, "qos": 1},
		{"topic": "other", "payload": ""}}}).Want(200).Decode(&got)
	passed := broker.StreamOutcome{Result: "passed", Payload: `{"sum":2,"name":"a"}`, Size: 20, Topic: "out", QoS: 2, Stored: true}
	second := passed
	second.Payload = `{"sum":5,"name":"b"}`
	want := []broker.StreamOutcome{passed, {Result: "filtered", Cause: "conditionFalse", Path: "query.where[0]"}, {Result: "invalid", Cause: "notJSON"}, second,
		{Result: "ignored", Cause: "topic", Path: "sourcetopic"}}
	for i, w := range want {
		if i >= len(got.Outcomes) || got.Outcomes[i] != w {
			t.Errorf("message %d: got %+v, want %+v", i, got.Outcomes, w)
			break
		}
	}
	wrong := string(viewer.Post(at, object{"sourcetopic": "a/#/b", "query": json.RawMessage(`{"select":[{"source":"x"}],"were":1}`), "messages": []object{}}).WantError(400, "INVALID_REQUEST").Body)
	for _, field := range []string{"body.sourcetopic", "body.query.select[0].source", "body.query.were"} {
		if !strings.Contains(wrong, `"`+field+`"`) {
			t.Errorf("%s lacks %s", wrong, field)
		}
	}
	viewer.Post(at, object{"sourcetopic": "a", "messages": []object{{"topic": "a/+", "payload": "?", "encoding": "base64"}}}).WantError(400, "INVALID_REQUEST")
	viewer.Post(at, object{"sourcetopic": "a", "messages": make([]object, 101)}).WantError(400, "INVALID_REQUEST")
	if list := strings.TrimSpace(string(viewer.Get(api.At("/streams")).Want(200).Body)); list != "[]" {
		t.Errorf("a preview has made a stream: %s", list)
	}
}

// editorForm is what the editor of a stream posts: one select and the condition.
func editorForm(step string, more ...string) url.Values {
	form := formOf([]string{"do", "edit", "mode", "fields", "step", step, "streamname", "speed", "sourcetopic", "plant/#", "targettopic", "out", "targetqos", "-1", "active", "true",
		"process", "true", "query/select/0/function/name", "sum", "query/select/0/source", "[speed]", "query/select/0/target", "[sum]",
		"query/where/0/left", "[hall]", "query/where/0/operator", "==", "query/where/0/right", "3", "query/where/0/kind", "number"})
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

// TestConsoleStreamEditor builds a query by the buttons of its form without a script, tries
// it on messages and saves it.
func TestConsoleStreamEditor(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	v := visit(t, api, "editor")
	post := func(page string, status int, form url.Values, want ...string) string {
		t.Helper()
		return v.harmless(v.Want(v.Post(v.base+page, form), status, want...))
	}
	v.page("streams/new", "No select", `name="query/where/0/left"`)
	added := post("streams/new", 200, editorForm("add"), `name="query/select/1/source"`, `value="[speed]"`, `<option value="sum" selected>`, `value="remove:1"`)
	if strings.Contains(added, `name="query/select/2/source"`) {
		t.Error("two selects were added")
	}
	two := []string{"query/select/1/source", "[name]", "query/select/1/target", "[name]"}
	for step, first := range map[string]string{"up:1": "[name]", "down:0": "[name]", "up:0": "[speed]", "remove:0": "[name]", "remove:x": "[speed]"} {
		text := post("streams/new", 200, editorForm(step, two...))
		if _, after, _ := strings.Cut(text, `name="query/select/0/source" value="`); !strings.HasPrefix(after, first) {
			t.Errorf("%s: the first select is not %s", step, first)
		}
	}
	asJSON := post("streams/new", 200, editorForm("json", two...), `name="mode" value="json"`)
	_, document, _ := strings.Cut(asJSON, `<textarea id="f-query"`)
	_, document, _ = strings.Cut(document, ">\n")
	document, _, _ = strings.Cut(document, "</textarea>")
	document = strings.NewReplacer("&#34;", `"`).Replace(document)
	back := editorForm("fields", "mode", "json", "query", document)
	post("streams/new", 200, back, `name="mode" value="fields"`, `name="query/select/1/source" value="[name]"`, `name="query/where/0/right" value="3"`)
	post("streams/new", 400, editorForm("fields", "mode", "json", "query", `{"were":[]}`), "cannot be shown as fields", "were")

	sample := []string{"sample/topic", "plant/1", "sample/payload", `{"speed":2,"hall":3}`}
	post("streams/new", 200, editorForm("preview", sample...), "Published to out with QoS 0", "{&#34;sum&#34;:2}")
	post("streams/new", 200, editorForm("preview", append(sample, "sample/payload", `{"speed":2,"hall":4}`)...), "Dropped by the condition", "<code>query.where[0]</code>")
	post("streams/new", 200, editorForm("preview", append(sample, "sample/payload", `{"hall":3}`)...), "lacks the selected value", "<code>query.select[0].source</code>")
	post("streams/new", 200, editorForm("preview", append(sample, "sample/payload", hostilePayload)...), "Dropped by the condition")
	post("streams/new", 200, editorForm("preview", append(sample, "sample/topic", "x"+hostileTopic)...), "does not match the topic")
	post("streams/new", 200, editorForm("preview"), "definition is valid")
	post("streams/new", 400, editorForm("preview", append(sample, "sample/topic", "a/#")...), `id="f-sample-topic-error"`)
	followed := post("streams/new", 200, editorForm("preview", "messages", `[{"topic":"plant/1","payload":"{\"speed\":2,\"hall\":3}","at":1},{"topic":"plant/1","payload":"{\"speed","truncated":true},{"topic":"plant/1","payload":"{\"speed\":5,\"hall\":3}","at":2}]`),
		"{&#34;sum&#34;:2}", "{&#34;sum&#34;:7}", "Too long to follow")
	if strings.Contains(followed, `id="outcome" role="status"`) {
		t.Error("each message of the source is announced")
	}

	bad := post("streams/new", 400, editorForm("preview", append(sample, "query/select/0/source", "speed", "query/where/0/right", "three")...), "not of the chosen type")
	if strings.Contains(bad, "select[0]") {
		t.Error("the operation was called with a value of another type")
	}
	post("streams/new", 400, editorForm("save", "query/select/0/source", "speed", "query/where/0/left", "hall"),
		`aria-invalid="true" aria-describedby="e-query/select/0/source"`, `id="e-query/select/0/source"`, "<code>select[0].source</code> must be names in brackets", "<code>where[0].left</code> must be the alias")
	post("streams/new", 400, editorForm("save", "mode", "json", "query", `{"select":[{"source":"speed"}]}`), "<code>select[0].source</code> must be names in brackets")
	post("streams/new", 200, editorForm("save", two...), "was created", "[hall]")
	s := streamOf(api, "speed")
	if want := `{"select":[{"source":"[speed]","function":{"name":"sum"},"target":"[sum]"},{"source":"[name]","target":"[name]"}],"where":[{"left":"[hall]","operator":"==","right":3}]}`; string(s.Query) != want {
		t.Errorf("saved %s\nwant  %s", s.Query, want)
	}
	v.page("streams/edit?streamname=speed", `name="query/select/1/source" value="[name]"`, `name="sample/topic" value="plant/1"`)
	post("streams/edit?streamname=speed", 200, editorForm("save", "persist", "true", "ttl", "60", "process", ""), "was saved")
	if s := streamOf(api, "speed"); !s.Persist || s.TTL != 60 || s.Process || strings.Contains(string(s.Query), "name]") {
		t.Errorf("changed to %+v", s)
	}
}

// TestStreamTimeline counts what a stream stores, over the API and in the console, where a
// period is deleted after its messages were counted.
func TestStreamTimeline(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	v := visit(t, api, "editor")
	makeStream(t, api, storingStream("kept", "in"))
	v.page("streams/detail?streamname=kept", "The stream stores no message")
	before := fill(t, join(t, api, 5, "writer", asAdmin), "in", 4)
	timeline := func(more string) (got broker.StreamTimeline) {
		api.Token("viewer").Get(api.At("/streams/messages/timeline?streamname=kept" + more)).Want(200).Decode(&got)
		return got
	}
	all := timeline("&slices=7")
	sum := int64(0)
	for _, n := range all.Counts {
		sum += n
	}
	if all.Count != 4 || sum != 4 || len(all.Counts) != 7 || all.Counts[0] == 0 || all.First > all.Last || all.Step != (all.Last-all.First)/7+1 {
		t.Errorf("all: %+v", all)
	}
	if part := timeline(fmt.Sprintf("&gte=%.3f&lte=%.3f", before[1], before[3])); part.Count != 2 || part.First <= all.First {
		t.Errorf("a period: %+v", part)
	}
	if none := timeline("&lte=1"); none.Count != 0 || none.Counts != nil || none.First != 0 {
		t.Errorf("a period without messages: %+v", none)
	}
	viewer := api.Token("viewer")
	for _, wrong := range []string{"&gte=2&lte=1", "&gte=x", "&slices=0", "&slices=201"} {
		viewer.Get(api.At("/streams/messages/timeline?streamname=kept"+wrong)).WantError(400, "INVALID_REQUEST")
	}
	viewer.Get(api.At("/streams/messages/timeline?streamname=none")).WantError(404, "NOT_FOUND")

	v.page("streams/detail?streamname=kept", "4 messages, received from", "<rect ", `data-first="`)
	v.page("streams/replay?streamname=kept", "4 messages", `step="1"`)
	post := func(page string, form url.Values, want ...string) {
		v.harmless(v.Want(v.Post(v.base+page, form), 200, want...))
	}
	past, future := "2001-01-01T00:00:00", "2199-01-01T00:00:00"
	post("streams/replay?streamname=kept", formOf([]string{"do", "count", "gte", future}), "0 of 4 stored messages")
	post("streams/clear?streamname=kept", formOf([]string{"do", "count", "gte", past, "lte", future}), "4 of 4 stored messages", `name="do" value="clear"`)
	if n := countOf(api, "kept"); n != 4 {
		t.Errorf("counting has deleted messages: %d are left", n)
	}
	post("streams/clear?streamname=kept", formOf([]string{"do", "clear", "gte", past, "lte", future}), "were deleted", "stores no message")
}
