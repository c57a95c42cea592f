package console

import (
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// smallSchema is that of a bridge in these tests.
const smallSchema = `{"type":"object","properties":{"connections":{"type":"array","items":{"type":"object","properties":{
	"name":{"type":"string"},"password":{"type":"string","writeOnly":true},"size":{"type":"integer"},"u\u202e":{"enum":["a","b\u202e"]}}}}}}`

// TestBridgeConfig_without_its_schema checks that a schema that cannot be read is not taken for
// none: without it the fields would be lost, and secrets could not be told from other texts.
func TestBridgeConfig_without_its_schema(t *testing.T) {
	t.Parallel()
	const config = `{"connections":[{"name":"a"}]}`
	fields := url.Values{"do": {"edit"}, "step": {"save"}, "mode": {"fields"}, "document": {config}, "/connections/0/name": {"b"}}
	asJSON := url.Values{"do": {"edit"}, "step": {"save"}, "mode": {"json"}, "config": {config}}
	for code, c := range map[string]struct{ status, fields, json int }{
		"BROKER_UNAVAILABLE": {http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusServiceUnavailable},
		"INTERNAL_ERROR":     {http.StatusInternalServerError, http.StatusInternalServerError, http.StatusInternalServerError},
		"NOT_FOUND":          {http.StatusNotFound, http.StatusBadRequest, http.StatusSeeOther},
		"NOT_SUPPORTED":      {http.StatusMethodNotAllowed, http.StatusBadRequest, http.StatusSeeOther},
	} {
		service := &calledService{responses: map[string]*Response{"getBridgeConfig": success(config), "getBridgeSchema": refusal(c.status, code)}}
		console := newTestConsole(t, service.call)
		w := console.open("bridge-config")
		if isShown := c.json == http.StatusSeeOther; isShown && (w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `name="config"`)) || !isShown && w.Code != c.status {
			t.Errorf("%s: the page has the status %d", code, w.Code)
		}
		w = console.post("bridge-config", fields)
		if w.Code != c.fields || service.did("setBridgeConfig") {
			t.Errorf("%s: fields are saved with the status %d", code, w.Code)
		}
		w = console.post("bridge-config", asJSON)
		sent, did := service.sent("setBridgeConfig")
		if w.Code != c.json || did != (c.json == http.StatusSeeOther) || did && sent != config {
			t.Errorf("%s: JSON is saved with the status %d: %s", code, w.Code, sent)
		}
	}
}

// TestBridgeConfig_sealed_secrets checks that a sealed secret is opened where it is a secret,
// and refused anywhere else.
func TestBridgeConfig_sealed_secrets(t *testing.T) {
	t.Parallel()
	service := &calledService{responses: map[string]*Response{"getBridgeConfig": success("{}"), "getBridgeSchema": success(smallSchema)}}
	console := newTestConsole(t, service.call)
	path, _, _ := strings.Cut(console.pageNamed("bridge-config").testPath(), "?")
	sealed := console.sealer.seal("s3cret", "1 "+path)
	for config, want := range map[string]string{
		`{"connections":[{"password":"` + sealed + `"}]}`:           `{"connections":[{"password":"s3cret"}]}`,
		`{"connections":[{"name":"` + sealed + `"}]}`:               "",
		`{"connections":[{"name":"is ` + sealed + `"}]}`:            "",
		`{"connections":[{"` + sealed + `":1}]}`:                    "",
		`{"connections":[{"password":["` + sealed + `"]}]}`:         "",
		`{"unknown":[[{"a":{"b":"` + sealed + `"}}]]}`:              "",
		`{"connections":[{"password":"` + sealedPrefix + `AAAA"}]}`: "",
		`"` + sealed + `"`: "",
	} {
		w := console.post("bridge-config", url.Values{"do": {"edit"}, "step": {"save"}, "mode": {"json"}, "config": {config}})
		sent, did := service.sent("setBridgeConfig")
		if did != (want != "") || sent != want {
			t.Errorf("%s is sent as %s", config, sent)
		}
		if !did && (w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "must be entered again")) {
			t.Errorf("%s: status %d", config, w.Code)
		}
	}
}

// TestBridgeConfig_shows checks what the page shows of strange documents and schemas.
func TestBridgeConfig_shows(t *testing.T) {
	t.Parallel()
	entries := func(n int) string {
		return `{"connections":[` + strings.Join(slices.Repeat([]string{"{}"}, n), ",") + `]}`
	}
	const add = `value="add:/connections"`
	for config, c := range map[string]struct{ has, lacks string }{
		`[]`:                                {show("connections[].u\u202e"), "\u202e"},
		`{"connections":[{"u\u202e":"a"}]}`: {">" + show("b\u202e") + "</option>", ">b\u202e"},
		`{"connections":[{"size":"many"}]}`: {`<input type="text" inputmode="decimal" id="f--connections-0-size" name="/connections/0/size" value="many"`, `type="number"`},
		entries(maxFormEntries):             {"More entries are added as JSON.", add},
		entries(maxFormEntries - 1):         {add, "More entries are added as JSON."},
	} {
		service := &calledService{responses: map[string]*Response{"getBridgeConfig": success(config), "getBridgeSchema": success(smallSchema)}}
		w := newTestConsole(t, service.call).open("bridge-config")
		if page := html.UnescapeString(w.Body.String()); w.Code != http.StatusOK || !strings.Contains(page, c.has) || strings.Contains(page, c.lacks) {
			t.Errorf("%.100s: status %d, shows %q: %t, shows %q: %t", config, w.Code, c.has, strings.Contains(page, c.has), c.lacks, strings.Contains(page, c.lacks))
		}
	}
}
