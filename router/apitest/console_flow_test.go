package apitest

import (
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// hostile is a text that is markup, ends attributes and changes the direction of text.
const hostile = `<img src=x onerror=alert(1)>"'` + "\u202e"

// TestConsoleStreams creates, switches, changes, replays, clears and deletes a stream in
// the console.
func TestConsoleStreams(t *testing.T) {
	t.Parallel()
	a := New(t)
	b := a.Browser(RootEmail, RootPassword)
	b.Want(b.Get(b.Broker("/streams")), 200, "A stream transforms messages")
	bad := url.Values{"do": {"edit"}, "step": {"save"}, "mode": {"json"}, "streamname": {"s"}, "sourcetopic": {"a/#/b"}, "targetqos": {"-1"}, "query": {"{\n]"}}
	b.Want(b.Post(b.Broker("/streams/new"), bad), 400, "is not valid JSON: look at line 2", `value="a/#/b"`)
	bad.Set("query", "")
	b.Want(b.Post(b.Broker("/streams/new"), bad), 400, `aria-invalid="true"`)
	form := url.Values{"do": {"edit"}, "step": {"save"}, "streamname": {hostile}, "sourcetopic": {"a/#"}, "targettopic": {"out"}, "targetqos": {"1"}, "active": {"true"}, "persist": {"true"}, "ttl": {"3600"}}
	created := b.Want(b.Post(b.Broker("/streams/new"), form), 200, "was created", "1 hour", "&lt;img src=x onerror")
	b.Lacks(created, "<img src=x", "\u202e")
	name := url.Values{"streamname": {hostile}}.Encode()
	b.Lacks(b.Want(b.Get(b.Broker("/streams")), 200, "Active", "a/#", "<td><span>Stored</span></td>", `<p class="quiet">1 hour</p>`, `name="rates"`), "msg/s")
	b.Want(b.Get(b.Broker("/streams?rates=true")), 200, "msg/s</th>", `<td class="number"><span>0.0</span></td>`, `value="true" checked`)
	b.Want(b.Post(b.Broker("/streams/detail?"+name), url.Values{"do": {"deactivate"}}), 200, "Switched off")
	form.Set("active", "true")
	form.Set("textdescription", "of the plant")
	b.Want(b.Post(b.Broker("/streams/edit?"+name), form), 200, "was saved", "of the plant", "Active")
	b.Want(b.Post(b.Broker("/streams/replay?"+name), url.Values{"replaytopic": {"again"}, "speed": {"0"}, "gte": {"yesterday"}}), 400, "is not a time")
	b.Want(b.Post(b.Broker("/streams/replay?"+name), url.Values{"replaytopic": {"again"}, "speed": {"0"}}), 200, "has started")
	b.Want(b.Get(b.Broker("/streams/clear?"+name)), 200, "stores no message")
	b.Want(b.Post(b.Broker("/streams/clear?"+name), url.Values{"do": {"count"}, "gte": {"2026-01-01T00:00"}}), 200, "0 of 0 stored messages", `<input type="hidden" name="gte" value="2026-01-01T00:00">`)
	b.Want(b.Post(b.Broker("/streams/clear?"+name), url.Values{"do": {"clear"}, "gte": {"2026-01-01T00:00"}}), 200, "were deleted")
	v := a.Member("viewer")
	b.Lacks(v.Want(v.Get(b.Broker("/streams/detail?"+name)), 200, "of the plant"), "Switch off", "/streams/edit")
	b.Want(b.Post(b.Broker("/streams/delete?"+name), nil), 200, "was deleted", "A stream transforms messages")
	b.Want(b.Get(b.Broker("/streams/detail?"+name)), 404, "This page cannot be shown")
}

// TestConsoleBridges configures a bridge in the console and looks at its connection.
func TestConsoleBridges(t *testing.T) {
	t.Parallel()
	a := New(t)
	b := a.Browser(RootEmail, RootPassword)
	b.Want(b.Get(b.Broker("/bridges")), 200, "http-bridge", "Not used")
	config := b.Broker("/bridges/http-bridge/config")
	b.Want(b.Get(config), 200, "Add “Connection”", "Test without saving", `name="document" value="{&#34;version&#34;`)
	asJSON := func(step, document string) url.Values {
		return url.Values{"do": {"edit"}, "mode": {"json"}, "step": {step}, "config": {document}}
	}
	b.Want(b.Post(config, asJSON("fields", `{"version":"v1","connections":[]}`)), 200, "Add “Connection”")
	b.Want(b.Post(config, url.Values{"do": {"edit"}, "mode": {"fields"}, "step": {"json"}, "document": {`{"connections":[]}`}}), 200, "connections[].connection.url")
	b.Want(b.Post(config, asJSON("save", "{\n]")), 400, "look at line 2", `aria-invalid="true"`)
	b.Want(b.Post(config, asJSON("save", `{"version":"v1","connections":[{"name":"x"}]}`)), 400, "body.connections[0]")
	valid := `{"version":"v1","connections":[{"name":"history <b>","enabled":true,"connection":{"url":"http://127.0.0.1:9/"},` +
		`"topicMappings":[{"name":"all","mqttTopics":["sensors/#"],"schemaMapping":"r"}]}],` +
		`"schemaMappings":[{"name":"r","mapping":[{"source":"topic","target":"sensor"}]}]}`
	b.Want(b.Post(config, asJSON("test", valid)), 200, "history &lt;b&gt;: ", "refuses")
	b.Want(b.Get(b.Broker("/bridges/http-bridge")), 200, "no connection yet")
	saved := b.Want(b.Post(config, asJSON("save", valid)), 200, "was saved", "history &lt;b&gt;", "letters?connection=history%20%3cb%3e")
	b.Lacks(saved, "history <b>")
	letters := b.Broker("/bridges/http-bridge/letters?" + url.Values{"connection": {"history <b>"}}.Encode())
	b.Want(b.Get(letters), 200, "No dead letters")
	b.Want(b.Post(letters, url.Values{"do": {"retry"}}), 400, "Select the dead letters first")
	b.Want(b.Post(letters, url.Values{"do": {"retry-all"}}), 200, "queued again")
	all := strings.Replace(letters, "/letters?", "/letters/delete?", 1)
	b.Want(b.Get(all), 200, "0 dead letters of history")
	b.Want(b.Post(all, nil), 200, "were deleted")
	b.Want(b.Get(b.Broker("/bridges/none")), 404)
}

// sealed matches a secret that was typed and is shown again.
var sealed = regexp.MustCompile(`value="(signalbox-sealed:[^"]+)"`)

// TestConsoleBridgeForm makes a configuration by its fields: adds and moves entries, tries it,
// looks at what a message becomes, and keeps its secret.
func TestConsoleBridgeForm(t *testing.T) {
	t.Parallel()
	a := New(t)
	b := a.Browser(RootEmail, RootPassword)
	config := b.Broker("/bridges/http-bridge/config")
	form := url.Values{"do": {"edit"}, "mode": {"fields"}, "document": {`{"version":"v1","connections":[]}`}}
	press := func(step string, status int, texts ...string) *Page {
		t.Helper()
		form.Set("step", step)
		return b.Want(b.Post(config, form), status, texts...)
	}
	press("add:/connections", 200, `name="/connections/0/name" value=""`, "autofocus", "An entry was added")
	form.Set("document", `{"version":"v1","connections":[{"connection":{},"topicMappings":[{"name":"one","mqttTopics":["a/#"]},{}]}]}`)
	b.Lacks(press("up:/connections/0/topicMappings/1", 200, `name="/connections/0/topicMappings/1/name" value="one"`, "position 1 of 2"), "message bad")
	press("save", 400, "body.connections[0].name", `aria-invalid="true"`, `id="f--connections-0-connection-url-error"`)
	form.Set("/connections/0/name", hostile)
	form.Set("/connections/0/connection/url", "http://127.0.0.1:9/in")
	form.Set("/connections/0/connection/token", "a very secret token")
	form.Set("/connections/0/topicMappings/1/name", "two <b>")
	form.Set("/connections/0/topicMappings/1/mqttTopics", "b/#\r\nc/#")
	tested := press("test", 200, "refuses", "&lt;img src=x", `&#34;mqttTopics&#34;:[&#34;b/#&#34;,&#34;c/#&#34;]`)
	b.Lacks(tested, "very secret", "<img src=x", "two <b>")
	found := sealed.FindStringSubmatch(tested.Text)
	if found == nil {
		t.Fatal("the secret is not kept:", tested.main())
	}
	form.Set("/connections/0/connection/token", html.UnescapeString(found[1]))
	form.Set("topic", "no/topic/#")
	press("preview", 400, "is not a topic", `id="f-publish-topic-error"`)
	form.Set("topic", "c/7")
	form.Set("payload", `{"v":"<i>"}`)
	preview := press("preview", 200, "1 topic mapping takes this message", "POST http://127.0.0.1:9/in", "two &lt;b&gt;", "&#34;topic&#34;:&#34;c/7&#34;")
	b.Lacks(preview, "<i>", "very secret")
	form.Set("/connections/0/connection/token", found[1]+"x")
	press("save", 400, "must be entered again", `id="f--connections-0-connection-token-error"`)
	form.Set("/connections/0/connection/token", html.UnescapeString(found[1]))
	press("save", 200, "was saved")
	b.Lacks(b.Want(b.Get(config), 200, `value="********"`, "A secret is stored", "stored secrets must be entered again"), "very secret")

	form = url.Values{"do": {"edit"}, "mode": {"fields"}, "document": {`{"connections":[{"name":"x"}]}`}, "/connections/0/name": {hostile},
		"/connections/0/connection/url": {"http://127.0.0.1:9/other"}, "/connections/0/connection/token": {"********"}}
	press("save", 400, "must be entered again, since", `id="f--connections-0-connection-token-error"`)
	form.Set("/connections/0/connection/url", "http://127.0.0.1:9/in")
	press("save", 200, "was saved")
	v := a.Member("viewer")
	v.Want(v.Post(config, form), 403, "FORBIDDEN")
	v.Want(v.Get(config), 403)
}

// TestConsoleConnect tests and adds a broker in the console, here the embedded one of the
// same service over MQTT.
func TestConsoleConnect(t *testing.T) {
	t.Parallel()
	a := New(t)
	b := a.Browser(RootEmail, RootPassword)
	form := url.Values{"do": {"test"}, "name": {"mine"}, "url": {"mqtt://127.0.0.1:9"}, "verify_ca_cert": {"true"}, "password": {"very secret"}, "username": {"u"}}
	refused := b.Want(b.Post(b.Project("/brokers/new"), form), 200, "127.0.0.1:9", "refuse")
	b.Lacks(refused, "very secret")
	form.Set("url", "http://127.0.0.1:9")
	b.Want(b.Post(b.Project("/brokers/new"), form), 400, `aria-invalid="true"`)
	form.Set("url", "mqtt://127.0.0.1:9")
	form.Set("do", "add")
	added := b.Post(b.Project("/brokers/new"), form)
	b.Want(b.Get(b.Project("/brokers")), 200, "mine", "Not connected", "mqtt://127.0.0.1:9")
	b.Lacks(added, "very secret")
	v := a.Member("viewer")
	v.Lacks(v.Want(v.Get(b.Project("/brokers")), 200, "mine"), "Add broker")
	v.Want(v.Post(b.Project("/brokers/new"), form), 403, "FORBIDDEN")
	v.Want(v.Get("/users"), 403, "FORBIDDEN")
}

// TestConsoleClusters shows the pages of clusters of a project that has none, and refuses
// a cluster without nodes.
func TestConsoleClusters(t *testing.T) {
	t.Parallel()
	a := New(t)
	b := a.Browser(RootEmail, RootPassword)
	b.Want(b.Get(b.Project("/clusters")), 200, "A cluster keeps several brokers in agreement")
	b.Want(b.Get(b.Project("/clusters/new")), 200, "Node 1: broker", "embedded")
	b.Want(b.Post(b.Project("/clusters/new"), url.Values{"clustername": {"c"}, "syncmode": {"full"}}), 400, "nodes")
	b.Want(b.Post(b.Project("/clusters/delete"), url.Values{"confirm": {"none"}}), 400, "to confirm")
	b.Want(b.Get(b.Project("/clusters/0190f3c2-9c7d-7b11-a2f4-6d5e4c3b2a19")), 404)
}
