package bridges_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/bridges/bridgestest"
)

// TestProblems checks the problems of invalid documents.
func TestProblems(t *testing.T) {
	t.Parallel()
	r, _ := start(t)
	mapped := func(more string) string {
		return `{"connections":[{"name":"c","connection":{"address":"t"},"topicMappings":[{"name":"m","mqttTopics":["a"],"target":"x"` + more + `}]}]`
	}
	for _, c := range []struct {
		name, give string
		want       []string
	}{
		{"no JSON", `{"connections":[}`, []string{": is not JSON: invalid character '}' looking for beginning of value"}},
		{"nothing", ``, []string{": is not JSON: unexpected end of JSON input"}},
		{"two documents", `{"connections":[]}{}`, []string{": is not JSON: invalid character '{' after top-level value"}},
		{"no object", `[]`, []string{": must be an object, not an array"}},
		{"empty", `{}`, []string{"connections: is missing"}},
		{"another version", `{"version":"v2","connections":[]}`, []string{"version: must be one of v1"}},
		{"unknown members", `{"connections":[],"more":1,"and more":2}`, []string{`["and more"]: is not known here`, "more: is not known here"}},
		{"a member twice", `{"connections":[],"version":"v1","connections":[]}`, []string{"connections: is given twice"}},
		{"a member twice in a connection", `{"connections":[{"name":"c","connection":{"address":"a","address":"b"}}]}`,
			[]string{"connections[0].connection.address: is given twice"}},
		{"types", `{"connections":[{"name":1,"connection":{"address":"a","port":1.5,"headers":{"a b":1}},"enabled":"yes"}]}`, []string{
			`connections[0].connection.headers["a b"]: must be a string, not a number`, "connections[0].connection.port: must be a whole number, not a number",
			"connections[0].enabled: must be a boolean, not a string", "connections[0].name: must be a string, not a number"}},
		{"bounds", `{"connections":[{"name":"","connection":{"address":"a","port":70000},"options":{"batchSize":0,"flavour":"bitter"}}]}`, []string{
			"connections[0].connection.port: must be at most 65535", "connections[0].name: must not be empty",
			"connections[0].options.batchSize: must be at least 1", "connections[0].options.flavour: must be one of sweet, sour"}},
		{"a number that is too large", `{"connections":[{"name":"c","connection":{"address":"a","port":1e999999999}}]}`, []string{
			"connections[0].connection.port: is a number that cannot be used: it is too large or too long",
			"connections[0].connection.port: must be at least 1"}},
		{"members that are missing", `{"connections":[{"connection":{},"topicMappings":[{"name":"m"}]}]}`, []string{
			"connections[0].connection.address: is missing", "connections[0].name: is missing",
			"connections[0].topicMappings[0].mqttTopics: is missing", "connections[0].topicMappings[0].target: is missing"}},
		{"the alternative that was meant", `{"connections":[{"name":"c","connection":{"address":"a","sign":{"by":"key","key":"k"}}}]}`,
			[]string{"connections[0].connection.sign.key: must have at least 3 characters"}},
		{"a format", `{"connections":[{"name":"c","connection":{"address":"a","sign":{"by":"name","name":"-"}}}]}`,
			[]string{"connections[0].connection.sign.name: is not a valid hostname"}},
		{"within what all kinds share", `{"connections":[{"name":"c","connection":{"address":"a","tls":{"enable":true},"credentials":{"user":"u"}}}]}`, []string{
			"connections[0].connection.credentials.user: is not known here", "connections[0].connection.tls.enable: is not known here"}},
		{"names twice", `{"connections":[` + takes("c", "a") + `,` + takes("c", "b") + `]}`,
			[]string{"connections[1].name: is the name of another connection of this bridge"}},
		{"topics", doc(takes("c", "a/#/b", "$SYS/#", "$share/g/a", "", "a+", "b/+/c")), []string{
			"connections[0].topicMappings[0].mqttTopics[0]: is not a valid topic filter", "connections[0].topicMappings[0].mqttTopics[1]: topics with $ cannot be taken",
			"connections[0].topicMappings[0].mqttTopics[2]: a shared subscription cannot be a source: give the filter in it",
			"connections[0].topicMappings[0].mqttTopics[3]: is not a valid topic filter", "connections[0].topicMappings[0].mqttTopics[4]: is not a valid topic filter"}},
		{"delays", doc(conn("c", `"retryMinInsertDelay":100`, `"retryMaxInsertDelay":50`)),
			[]string{"connections[0].options.retryMaxInsertDelay: must not be less than retryMinInsertDelay"}},
		{"a schema mapping that is not there", mapped(`,"schemaMapping":"s"`) + `}`,
			[]string{"connections[0].topicMappings[0].schemaMapping: there is no schema mapping of this name"}},
		{"schema mappings", mapped(`,"schemaMapping":"s"`) + `,"schemaMappings":[{"name":"s","mapping":[{"source":"payload"}]},{"name":"e","mapping":[]},{"name":"d","mapping":[{"source":"qos","target":"q"}]},{"name":"d","mapping":[{"source":"qos","target":"q"}]}]}`, []string{
			"schemaMappings[0].mapping[0].target: is missing", "schemaMappings[1].mapping: must not be empty", "schemaMappings[3].name: is the name of another schema mapping"}},
		{"what the kind finds", doc(takes("a", "a"), strings.Replace(takes("c", "a"), `"x"`, `"nowhere"`, 1), strings.Replace(takes("d", "a"), `"x"`, `"X"`, 1)), []string{
			"connections[1].topicMappings[0].target: leads nowhere", "connections[2].topicMappings[0].target: must match the pattern ^[a-z]+$"}},
		{"TLS", `{"connections":[{"name":"c","connection":{"address":"a","tls":{"enabled":true,"caCertificate":"x","clientKey":"y"}}}]}`, []string{
			"connections[0].connection.tls.caCertificate: contains no certificate in PEM", "connections[0].connection.tls.clientCertificate: is missing beside clientKey"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := wantKind(t, set(r, c.give), broker.Invalid)
			var got []string
			for _, f := range e.Fields {
				got = append(got, f.Path+": "+f.Msg)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if got := config(t, r); got != `{"version":"v1","connections":[],"schemaMappings":[]}` {
				t.Errorf("the configuration is now %s", got)
			}
		})
	}
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	r, k := start(t)
	var all []string
	for i := range 101 {
		all = append(all, takes(fmt.Sprint(i), "a"))
	}
	e := wantKind(t, set(r, doc(all...)), broker.Invalid)
	if len(e.Fields) != 1 || e.Fields[0].Path != "connections" {
		t.Errorf("problems are %+v", e.Fields)
	}
	if made, closed := k.Connectors(); made != closed {
		t.Errorf("%d connectors of %d were closed", closed, made)
	}
	must(t, set(r, doc(all[:100]...)))
}

// TestNumbers parses integers in other notations.
func TestNumbers(t *testing.T) {
	t.Parallel()
	r, _ := start(t)
	r.Set(doc(conn("c", `"batchSize":1e2`, `"timeout":1000.0`)))
	if got := config(t, r); !strings.Contains(got, `"batchSize":100,"timeout":1000`) {
		t.Errorf("the configuration is %s", got)
	}
}

// TestSchema checks that the schema is self-contained and marks its secrets.
func TestSchema(t *testing.T) {
	t.Parallel()
	r, _ := start(t)
	text, err := r.GetBridgeSchema(t.Context(), fake)
	must(t, err)
	var s map[string]any
	must(t, json.Unmarshal(text, &s))
	for _, part := range []string{`"title":"Fake"`, `"$defs":`, `"writeOnly":true`, `"x-address":true`, `"maxQueuedMessages"`, `"flavour"`, `"additionalProperties":false`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the schema has no %s", part)
		}
	}
	// In the order of a form.
	if a, b := strings.Index(string(text), `"enabled":{"title":"Enabled","description":"If disabled`), strings.Index(string(text), `"topicMappings"`); a < 0 || b < a {
		t.Errorf("members are not in order")
	}
}

// FuzzDocument checks that no document panics, and that an accepted one is the same after it is
// read and sent back.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		`{}`, doc(), doc(takes("c", "a/#", "a/b")), doc(conn("c", `"batchSize":1`)), `{"connections":[{"name":"c","connection":{"address":"t","headers":{"a":"b"}}}]}`,
		`{"connections":[{"name":"c","connection":{"address":"t","credentials":{"username":"u","password":"secret"},"sign":{"by":"key","key":"12345"}}}]}`,
		`{"connections":[{"name":"c","connection":{"address":"t","credentials":{"username":"u","password":"********"}}}]}`,
		`{"connections":[],"schemaMappings":[{"name":"s","mapping":[{"source":"jsonPayload.a[0]","target":"t","type":"number","default":1}]}]}`,
	} {
		f.Add(s)
	}
	r := bridgestest.Start(f, &bridgestest.Kind{}, nil)
	f.Fuzz(func(t *testing.T, text string) {
		if err := set(r, text); err != nil {
			wantKind(t, err, broker.Invalid)
			return
		}
		first := config(t, r)
		must(t, set(r, first))
		if again := config(t, r); again != first {
			t.Errorf("read as %s, sent back, and then %s", first, again)
		}
	})
}
