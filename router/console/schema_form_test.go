package console

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/http"
	"signalbox/broker/bridges/influxdb"
	"signalbox/broker/bridges/kafka"
	"signalbox/broker/bridges/mqtt"
	"signalbox/broker/bridges/nats"
	"signalbox/broker/bridges/sql"
)

// kindSchemas returns the schema of every kind of bridge.
func kindSchemas(t testing.TB) map[string]*schemaNode {
	t.Helper()
	kinds := []bridges.Kind{http.New(), influxdb.Kind{}, kafka.Kind{}, mqtt.New(), nats.Kind{}, sql.Kind{}}
	h := bridges.NewHost(&bridgestest.Store{}, kinds, slog.New(slog.DiscardHandler))
	e := h.Open("b", "here", &bridgestest.Broker{})
	t.Cleanup(func() { e.Close(t.Context()) }) //nolint:errcheck // nothing is stored
	all := map[string]*schemaNode{}
	for _, id := range h.Kinds() {
		text, err := e.GetBridgeSchema(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		all[id] = readSchema(t, string(text))
	}
	return all
}

func readSchema(t testing.TB, text string) *schemaNode {
	t.Helper()
	n := &schemaNode{}
	if err := json.Unmarshal([]byte(text), n); err != nil {
		t.Fatal(err)
	}
	return n
}

// allKinds is a schema with what no kind of bridge has.
const allKinds = `{"type":"object","$defs":{"deep":{"type":"object","properties":{"deep":{"$ref":"#/$defs/deep"},"a":{"type":"string"}}}},"properties":{
	"variant":{"title":"Variant","oneOf":[
		{"title":"First","properties":{"kind":{"const":"one"},"a":{"type":"string"},"both":{"type":"string"}}},
		{"title":"Second","properties":{"kind":{"const":2},"b":{"type":"integer"},"both":{"type":"string"}},"required":["b"]}],
		"type":"object","properties":{"common":{"type":"string"}}},
	"named":{"oneOf":[{"const":1,"title":"One"},{"const":"two"}]},
	"radio":{"enum":["a","b"],"default":"a"},
	"fixed":{"const":"only"},
	"free":{},
	"any":true,
	"several":{"type":["string","null"]},
	"deep":{"$ref":"#/$defs/deep"},
	"numbers":{"type":"array","items":{"type":"number"},"default":[1]},
	"matrix":{"type":"array","items":{"type":"array","items":{"type":"string"}}},
	"odd ~/\"name":{"type":"string","default":"d"},
	"texts":{"type":"object","additionalProperties":{"type":"string"}},
	"secrets":{"type":"object","additionalProperties":{"type":"string","writeOnly":true}}}}`

// everything returns a value with every member of a schema.
func everything(n *schemaNode, defs map[string]schemaNode, depth int) any {
	n = n.resolved(defs)
	if c := n.choices(); c != nil {
		return c[len(c)-1].value
	}
	switch n.typ() {
	case "boolean":
		v, _ := n.defaultValue()
		return v != true
	case "integer", "number":
		return json.Number("7")
	case "string":
		return "text of <b>\"it\""
	case "array":
		return []any{everything(n.Items, defs, depth+1), everything(n.Items, defs, depth+1)}
	case "object":
		o := &jsonObject{}
		if depth > 6 {
			return o
		}
		if name, values := n.discriminator(); name != "" {
			o.set(name, values[0].value)
		}
		for _, p := range n.chosen(o).Properties {
			if _, has := o.get(p.name); !has {
				o.set(p.name, everything(&p.node, defs, depth+1))
			}
		}
		if n.Others != nil && len(n.Properties) == 0 {
			o.set("X-Name", "a: b")
		}
		return o
	}
	return []any{json.Number("1.50"), nil, &jsonObject{}}
}

// posted returns what a browser posts of an unchanged form.
func posted(parts []schemaPart) url.Values {
	form := url.Values{}
	for i := range parts {
		p := &parts[i]
		switch p.Kind {
		case kindGroup, kindList:
			for name, values := range posted(p.Parts) {
				form[name] = append(form[name], values...)
			}
		case kindCheckbox:
			form.Add(p.Name, "false")
			if p.Checked {
				form.Add(p.Name, "true")
			}
		case kindRadio:
			if slices.ContainsFunc(p.Options, func(o option) bool { return o.Value == p.Value }) {
				form.Add(p.Name, p.Value)
			}
		case kindSelect:
			value := p.Options[0].Value
			if slices.ContainsFunc(p.Options, func(o option) bool { return o.Value == p.Value }) {
				value = p.Value
			}
			form.Add(p.Name, value)
		default:
			form.Add(p.Name, strings.ReplaceAll(lineEnds.Replace(p.Value), "\n", "\r\n"))
		}
	}
	return form
}

func newTestForm(schema *schemaNode) *schemaForm {
	return &schemaForm{schema: schema, errors: map[string]string{}, wrong: map[string]string{}, sentence: new(locale).sentence,
		t: func(key string, args ...any) string {
			return strings.TrimSpace(fmt.Sprintln(append([]any{key}, args...)...))
		}}
}

// roundTrip returns the document of the unchanged form of a document.
func roundTrip(schema *schemaNode, document any) (any, *schemaForm) {
	f := newTestForm(schema)
	f.posted = posted(f.fields(document))
	return f.document(document), f
}

// TestSchemaForm_keeps_documents shows documents of every kind of bridge as a form and posts
// it unchanged: the document stays the same, member by member.
func TestSchemaForm_keeps_documents(t *testing.T) {
	t.Parallel()
	schemas := kindSchemas(t)
	schemas["all kinds"] = readSchema(t, allKinds)
	for id, schema := range schemas {
		documents := []string{
			`{}`, `{"connections":[]}`, `{"connections":[{}],"schemaMappings":[{"mapping":[{}]}],"unknown":{"a":[1.0,1e3]}}`, string(writeJSON(everything(schema, schema.Defs, 0))),
			`{"version":"v9","connections":[{"name":7,"enabled":"yes","connection":"none","options":{"batchSize":"many","whenFull":"sometimes"},` +
				`"topicMappings":[{"name":"a\nb","mqttTopics":["a","b\nc"],"headers":{"a:b":"c"," d":"e"}},5]}]}`,
			`{"connections":[{"name":"` + `\u0000\u202e` + `","connection":{"tls":{},"credentials":{"password":"********"}},"topicMappings":[{"mqttTopics":[]},{"mqttTopics":["a",""]}]}]}`,
			`{"connections":[{"connection":{"tls":{"caCertificate":"-----BEGIN\r\nCERTIFICATE-----\n\n","clientKey":"\n leading\ttab"}}}]}`,
		}
		for _, text := range documents {
			document, err := readJSON([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			got, f := roundTrip(schema, document)
			if string(writeJSON(got)) != string(writeJSON(document)) || len(f.errors) > 0 {
				t.Errorf("%s: %v\n%s\nbecame\n%s", id, f.errors, text, writeJSON(got))
			}
		}
	}
}

// TestSchemaForm_fields checks the kind of field of each kind of schema.
func TestSchemaForm_fields(t *testing.T) {
	t.Parallel()
	schemas := kindSchemas(t)
	schemas["all"] = readSchema(t, allKinds)
	document, err := readJSON([]byte(`{"variant":{"kind":2},"connections":[{"topicMappings":[{}],"connection":{}}],"schemaMappings":[{"mapping":[{}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	var collect func(id string, parts []schemaPart)
	collect = func(id string, parts []schemaPart) {
		for i := range parts {
			kinds[id+parts[i].Name] = parts[i].Kind
			collect(id, parts[i].Parts)
		}
	}
	for id, schema := range schemas {
		collect(id, newTestForm(schema).fields(document))
	}
	const connection = "http-bridge/connections/0/connection/"
	const mapping = "http-bridge/connections/0/topicMappings/0/"
	for name, want := range map[string]string{
		connection + "url": kindText, connection + "token": kindPassword, connection + "tls/enabled": kindCheckbox, connection + "tls/caCertificate": kindLong,
		connection + "tls/clientKey": kindLong, connection + "headers": kindPairs, connection + "hmac": kindGroup, connection + "hmac/algorithm": kindRadio,
		"http-bridge/connections": kindList, "http-bridge/connections/0/options/batchSize": kindNumber, "http-bridge/connections/0/options/successStatus": kindLines,
		mapping + "mqttTopics": kindLines, mapping + "method": kindSelect, mapping + "body": kindLong, mapping + "headers": kindPairs,
		"http-bridge/schemaMappings/0/mapping/0/value": kindJSON, "http-bridge/schemaMappings/0/mapping/0/type": kindSelect,
		"kafka-bridge/connections/0/connection/saslMechanism": kindSelect,
		"all/variant/kind": kindSelect, "all/variant/b": kindNumber, "all/variant/common": kindText, "all/named": kindSelect, "all/radio": kindRadio,
		"all/free": kindJSON, "all/any": kindJSON, "all/several": kindJSON, "all/numbers": kindLines, "all/matrix": kindJSON, "all/odd ~0~1\"name": kindText,
		"all/deep/deep/deep/deep": kindGroup, "all/deep/deep/deep/deep/deep": kindJSON,
	} {
		if got, ok := kinds[name]; got != want || !ok {
			t.Errorf("%s is %q (%t), want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"http-bridge/version", "all/variant/a", "all/fixed"} {
		if kind, ok := kinds[name]; ok {
			t.Errorf("%s has the field %q", name, kind)
		}
	}
}

// TestSchemaForm_changes changes one field of a document.
func TestSchemaForm_changes(t *testing.T) {
	t.Parallel()
	schemas := kindSchemas(t)
	schemas["all"] = readSchema(t, allKinds)
	for _, c := range []struct{ schema, give, name, value, want string }{
		{"all", `{}`, "/radio", "b", `{"radio":"b"}`},
		{"all", `{}`, "/named", "1", `{"named":1}`},
		{"all", `{"named":1}`, "/named", "", `{}`},
		{"all", `{}`, "/named", "none", `{"named":"none"}`},
		{"all", `{}`, "/numbers", "1\r\n2.5\r\n\r\nx", `{"numbers":[1,2.5,"x"]}`},
		{"all", `{}`, "/numbers", "", `{"numbers":[]}`},
		{"all", `{"numbers":[2]}`, "/numbers", "1", `{"numbers":[1]}`},
		{"all", `{}`, "/odd ~0~1\"name", "", `{"odd ~/\"name":""}`},
		{"all", `{}`, "/free", ` {"a": 1}`, `{"free":{"a":1}}`},
		{"all", `{"free":1}`, "/free", ``, `{}`},
		{"all", `{"variant":{"kind":"one","a":"x","both":"y","common":"z","more":1}}`, "/variant/kind", "2", `{"variant":{"kind":2,"both":"y","common":"z","more":1}}`},
		{"all", `{}`, "/variant/kind", "one", `{"variant":{"kind":"one"}}`},
		{"all", `{"secrets":{"A":"********"}}`, "/secrets", "A: ********\r\nB:b:c", `{"secrets":{"A":"********","B":"b:c"}}`},
		{"all", `{"deep":{"a":"x"}}`, "/deep/a", "", `{}`},
		{"http-bridge", `{"connections":[{"enabled":true}]}`, "/connections/0/enabled", "false", `{"connections":[{"enabled":false}]}`},
		{"http-bridge", `{"connections":[{}]}`, "/connections/0/connection/tls/verify", "false", `{"connections":[{"connection":{"tls":{"verify":false}}}]}`},
		{"http-bridge", `{"connections":[{}]}`, "/connections/0/options/batchSize", " 12 ", `{"connections":[{"options":{"batchSize":12}}]}`},
		{"http-bridge", `{"connections":[{}]}`, "/connections/0/options/batchSize", "1,5", `{"connections":[{"options":{"batchSize":"1,5"}}]}`},
		{"http-bridge", `{"connections":[{"options":{"batchSize":5}}]}`, "/connections/0/options/batchSize", "", `{"connections":[{}]}`},
		{"http-bridge", `{"connections":[{"name":"a"}]}`, "/connections/0/name", "", `{"connections":[{"name":""}]}`},
		{"http-bridge", `{"connections":[{"topicMappings":[{"contentType":"text/plain"}]}]}`, "/connections/0/topicMappings/0/contentType", "", `{"connections":[{"topicMappings":[{}]}]}`},
		{"http-bridge", `{"connections":[{}]}`, "/connections/0/connection/url", "http://[::1]/" + "\u00e9", `{"connections":[{"connection":{"url":"http://[::1]/é"}}]}`},
		{"kafka-bridge", `{"connections":[{"topicMappings":[{}]}]}`, "/connections/0/topicMappings/0/key", "", `{"connections":[{"topicMappings":[{"key":""}]}]}`},
		{"influxdb-bridge", `{"connections":[{}]}`, "/connections/0/connection/version", "2", `{"connections":[{"connection":{"version":2}}]}`},
	} {
		f := newTestForm(schemas[c.schema])
		base, err := readJSON([]byte(c.give))
		if err != nil {
			t.Fatal(err)
		}
		f.posted = posted(f.fields(base))
		if !f.posted.Has(c.name) && c.name != "/variant/kind" {
			t.Errorf("%s: the form has no field %s", c.give, c.name)
		}
		f.posted.Set(c.name, c.value)
		if got := string(writeJSON(f.document(base))); got != c.want || len(f.errors) > 0 {
			t.Errorf("%s with %s = %q became %s, want %s; %v", c.give, c.name, c.value, got, c.want, f.errors)
		}
	}
}

// TestSchemaForm_wrong posts texts that are no values: the document stays, the text is shown
// again with what is wrong, but for secrets.
func TestSchemaForm_wrong(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, allKinds)
	for _, c := range []struct{ name, text, want string }{
		{"/free", "{\n,", "error.not_json 2"},
		{"/free", "{\"a\":1,\n\"a\":2,\n\"b\":3}", "schema.line 2 schema.twice a"},
		{"/free", "\n" + strings.Repeat("[", maxJSONDepth+1) + "1" + strings.Repeat("]", maxJSONDepth+1) + "\n", "schema.line 2 schema.too_deep 64"},
		{"/texts", "a: b\na: c", "schema.twice a"},
		{"/texts", "a: b\n\nc", "schema.line 3 schema.not_pair"},
		{"/texts", ": b", "schema.line 1 schema.not_pair"},
		{"/secrets", "a: b\na: c", "schema.twice a"},
		{"/secrets", "a: b\nc", "schema.line 2 schema.not_pair"},
	} {
		f := newTestForm(schema)
		f.posted = url.Values{c.name: {c.text}}
		if got := string(writeJSON(f.document(&jsonObject{}))); got != "{}" || f.errors[c.name] != c.want {
			t.Errorf("%s %q became %s, %v, want %q", c.name, c.text, got, f.errors, c.want)
		}
		shown := c.text
		if c.name == "/secrets" {
			shown = ""
		}
		for _, p := range f.fields(&jsonObject{}) {
			if p.Name == c.name && (p.Value != shown || p.Error != c.want) {
				t.Errorf("%s shows %q, %q", c.name, p.Value, p.Error)
			}
		}
	}
}

// TestSchemaForm_steps checks what the buttons do with a document.
func TestSchemaForm_steps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ give, step, want, open string }{
		{`{}`, "add:/connections", `{"connections":[{}]}`, "/connections/0"},
		{`{"connections":[{"a":1}]}`, "add:/connections", `{"connections":[{"a":1},{}]}`, "/connections/1"},
		{`{"connections":[{}]}`, "add:/connections/0/topicMappings", `{"connections":[{"topicMappings":[{}]}]}`, "/connections/0/topicMappings/0"},
		{`{"connections":5}`, "add:/connections", `{"connections":5}`, ""},
		{`{"connections":[1,2,3]}`, "up:/connections/1", `{"connections":[2,1,3]}`, "/connections/0"},
		{`{"connections":[1,2,3]}`, "down:/connections/1", `{"connections":[1,3,2]}`, "/connections/2"},
		{`{"connections":[1,2,3]}`, "up:/connections/0", `{"connections":[1,2,3]}`, ""},
		{`{"connections":[1,2,3]}`, "down:/connections/2", `{"connections":[1,2,3]}`, ""},
		{`{"connections":[1,2,3]}`, "up:/connections/-1", `{"connections":[1,2,3]}`, ""},
		{`{"connections":[1,2,3]}`, "remove:/connections/1", `{"connections":[1,3]}`, ""},
		{`{"connections":[1,2,3]}`, "remove:/connections/3", `{"connections":[1,2,3]}`, ""},
		{`{"connections":[{"connection":{"hmac":{},"url":""}}]}`, "remove:/connections/0/connection/hmac", `{"connections":[{"connection":{"url":""}}]}`, ""},
		{`{"a/b~":{"c":1}}`, "remove:/a~1b~0/c", `{"a/b~":{}}`, ""},
		{`{"a":1}`, "open:/connections/7", `{"a":1}`, "/connections/7"},
		{`{"a":1}`, "remove:", `{"a":1}`, ""},
		{`{"a":1}`, "remove:a", `{"a":1}`, ""},
		{`{"a":1}`, "add:" + strings.Repeat("/a", 100), `{"a":1}`, ""},
		{`{"a":1}`, "nothing:/a", `{"a":1}`, ""},
		{`[1]`, "add:/0/x", `[1]`, ""},
	} {
		f := newTestForm(readSchema(t, allKinds))
		document, err := readJSON([]byte(c.give))
		if err != nil {
			t.Fatal(err)
		}
		do, pointer, _ := strings.Cut(c.step, ":")
		got, said := f.step(document, do, pointer)
		if string(writeJSON(got)) != c.want || f.open != c.open {
			t.Errorf("%s with %s became %s, open %q, want %s, %q", c.give, c.step, writeJSON(got), f.open, c.want, c.open)
		}
		if did := c.want != c.give; (said != "") != did {
			t.Errorf("%s with %s says %q", c.give, c.step, said)
		}
		if again := string(writeJSON(document)); again != c.give {
			t.Errorf("%s changed the document that was given to %s", c.step, again)
		}
	}
}

// TestSchemaForm_new_entries checks that a new entry has the objects that it requires, so that
// what is missing in them is reported at its field.
func TestSchemaForm_new_entries(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{"http-bridge": `{"connections":[{"connection":{}}]}`, "sql-bridge": `{"connections":[{"connection":{"credentials":{}}}]}`} {
		f := newTestForm(kindSchemas(t)[id])
		document, _ := f.step(&jsonObject{}, "add", "/connections")
		if got := string(writeJSON(document)); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
		document, _ = f.step(document, "add", "/connections/0/topicMappings")
		if got := string(writeJSON(document)); got != strings.Replace(want, "}]}", `,"topicMappings":[{}]}]}`, 1) {
			t.Errorf("%s: %s", id, got)
		}
	}
}

// TestSchemaForm_errors checks that the errors of the API come to their fields.
func TestSchemaForm_errors(t *testing.T) {
	t.Parallel()
	f := newTestForm(kindSchemas(t)["http-bridge"])
	document := everything(f.schema, f.schema.Defs, 0)
	for path, field := range map[string]string{
		"body.connections[0].connection.url": "/connections/0/connection/url", "body.connections": "/connections", "body.connections[1]": "/connections/1",
		`body.connections[0].topicMappings[1].mqttTopics[1]`: "/connections/0/topicMappings/1/mqttTopics", `body.connections[0].connection.headers["X-Name"]`: "/connections/0/connection/headers",
		`body["a.b[\"c/"].d`: "/a.b[\"c~1/d", "body": "",
	} {
		pointer := pointerOf(path)
		if !isWithin(pointer, field) {
			t.Errorf("%s is at %q, want %q", path, pointer, field)
		}
		f.errors[pointer] = path
	}
	var find func(parts []schemaPart, name string) string
	find = func(parts []schemaPart, name string) string {
		for i := range parts {
			if parts[i].Name == name {
				return parts[i].Error
			}
			if e := find(parts[i].Parts, name); e != "" {
				return e
			}
		}
		return ""
	}
	parts := f.fields(document)
	for name, want := range map[string]string{
		"/connections/0/connection/url": "body.connections[0].connection.url", "/connections": "body.connections", "/connections/1": "body.connections[1]",
		"/connections/0/topicMappings/1/mqttTopics": "schema.line 2 body.connections[0].topicMappings[1].mqttTopics[1]",
		"/connections/0/connection/headers":         `X-Name: body.connections[0].connection.headers["X-Name"]`,
	} {
		if got := find(parts, name); got != want {
			t.Errorf("%s has the error %q, want %q", name, got, want)
		}
	}
	for _, pointer := range []string{"", "/a", "/0/a~1b/~0", "/a/0/b/1", `/"/x y`} {
		if got := pointerOf(pathOf(pointer)); got != pointer {
			t.Errorf("%q became %q, %q", pointer, pathOf(pointer), got)
		}
	}
}

// TestSchemaForm_many checks that a document with many entries makes a form of a bounded
// size, with the fields of the entry that was opened.
func TestSchemaForm_many(t *testing.T) {
	t.Parallel()
	schema := kindSchemas(t)["http-bridge"]
	one := everything(schema, schema.Defs, 0)
	connection := memberOf(asObject(one), "connections").([]any)[0]
	list := slices.Repeat([]any{connection}, maxFormEntries)
	document := &jsonObject{}
	document.set("connections", list)
	f := newTestForm(schema)
	f.open = "/connections/40"
	form := posted(f.fields(document))
	if n := len(form); n > 3*maxFormFields || !form.Has("/connections/40/name") || form.Has("/connections/39/name") {
		t.Errorf("the form has %d fields", n)
	}
	f.posted = form
	if got := f.document(document); string(writeJSON(got)) != string(writeJSON(document)) {
		t.Errorf("the document became %s", writeJSON(got))
	}
	f = newTestForm(schema)
	if !f.fields(document)[0].Full {
		t.Errorf("%d entries are not the most", maxFormEntries)
	}
	document.set("connections", list[1:])
	if f = newTestForm(schema); f.fields(document)[0].Full {
		t.Errorf("%d entries are the most", maxFormEntries-1)
	}
	document.set("connections", append(list, connection))
	if parts := f.fields(document); parts[0].Kind != kindJSON {
		t.Errorf("%d entries are shown as %s", maxFormEntries+1, parts[0].Kind)
	}
}

// TestSealer checks that a sealed secret can be read only for its owner.
func TestSealer(t *testing.T) {
	t.Parallel()
	s := newSealer()
	sealed := s.seal("secret", "me")
	if strings.Contains(sealed, "secret") || s.seal(sealed, "me") != sealed || s.seal("", "me") != "" || s.seal(maskedSecret, "me") != maskedSecret {
		t.Errorf("sealed %q", sealed)
	}
	if got, ok := s.open(sealed, "me"); got != "secret" || !ok {
		t.Errorf("opened %q, %t", got, ok)
	}
	for _, text := range []string{sealed + "A", sealedPrefix, sealedPrefix + "?", newSealer().seal("secret", "me"), s.seal("secret", "you")} {
		if got, ok := s.open(text, "me"); ok || got != "" {
			t.Errorf("opened %q of %q", got, text)
		}
	}
	if got, ok := s.open("plain", "me"); got != "plain" || !ok {
		t.Errorf("opened %q, %t", got, ok)
	}
}

// FuzzSchemaForm posts arbitrary forms about arbitrary documents: the result is a document,
// whose own form posts it unchanged.
func FuzzSchemaForm(f *testing.F) {
	schemas := []*schemaNode{readSchema(f, allKinds), kindSchemas(f)["http-bridge"]}
	f.Add(`{"connections":[{}]}`, "%2Fconnections%2F0%2Fname=a", "add:/connections")
	f.Add(`{"variant":{"kind":"one"}}`, "%2Fvariant%2Fkind=2&%2Fnumbers=1%0D%0Ax&%2Ffree=%5B", "remove:/variant")
	f.Add(`{"free":[1,{"a":null}],"secrets":{"a":"b"}}`, "%2Fsecrets=a%3A+b%0Aa&%2Fradio=c", "up:/free/1")
	f.Fuzz(func(t *testing.T, text, query, step string) {
		base, err := readJSON([]byte(text))
		if err != nil {
			return
		}
		form, _ := url.ParseQuery(query) // what can be read
		for _, schema := range schemas {
			f := newTestForm(schema)
			f.posted = form
			document := f.document(base)
			do, pointer, _ := strings.Cut(step, ":")
			document, _ = f.step(document, do, pointer)
			document = schema.mapSecrets(schema.Defs, document, "", func(_, text string) string { return text })
			written := string(writeJSON(document))
			read, err := readJSON([]byte(written))
			if err != nil {
				t.Fatalf("%s with %s is no document: %v\n%s", text, query, err, written)
			}
			if got, f := roundTrip(schema, read); string(writeJSON(got)) != string(writeJSON(read)) {
				t.Fatalf("%s became\n%s, %v", written, writeJSON(got), f.errors)
			}
		}
	})
}
