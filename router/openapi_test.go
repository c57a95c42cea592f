package router

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// loaded reads the document as a user's tool would.
func loaded(t *testing.T, document []byte) *openapi3.T {
	t.Helper()
	d, err := openapi3.NewLoader().LoadFromData(document)
	must(t, err)
	return d
}

func TestOpenAPI_is_valid(t *testing.T) {
	t.Parallel()
	d := loaded(t, newFixture(t).document(t))
	if !d.IsOpenAPI31OrLater() {
		t.Errorf("version is %q", d.OpenAPI)
	}
	must(t, d.Validate(t.Context()))
}

func TestOpenAPI_shows_every_row(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := loaded(t, f.document(t))
	for _, row := range f.router.rows {
		item := d.Paths.Value(row.Path)
		if item == nil || item.GetOperation(row.Method) == nil {
			t.Errorf("%s %s is missing", row.Method, row.Path)
			continue
		}
		op := item.GetOperation(row.Method)
		if op.OperationID != row.ID || op.Extensions["x-minimum-role"] != row.Role.String() {
			t.Errorf("%s: shown as %s, role %v", row.ID, op.OperationID, op.Extensions["x-minimum-role"])
		}
		for _, status := range append(slices.Clone(row.promised), row.Status) {
			if op.Responses.Status(status) == nil {
				t.Errorf("%s: status %d is missing", row.ID, status)
			}
		}
	}
}

func TestOpenAPI_schemas_agree_with_the_binder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := loaded(t, f.document(t))
	op := d.Paths.Value(brokerPath + "/clients").Post
	body := op.RequestBody.Value.Content["application/json"].Schema.Value
	row := f.row(t, "createClient")
	for _, c := range []struct {
		body string
		ok   bool
	}{
		{`{"username":"a"}`, true},
		{`{"username":""}`, false},
		{`{}`, false},
		{`{"username":"a","password":null,"groups":null}`, true},
		{`{"username":"a","roles":null}`, false},
		{`{"username":"a","roles":[{"rolename":"r","priority":3}]}`, true},
		{`{"username":"a","roles":[{"rolename":""}]}`, false},
		{`{"username":"a","roles":[{"rolename":"r","priority":1.5}]}`, false},
		{`{"username":"a","roles":[{"rolename":"r","priority":100001}]}`, false},
		{`{"username":"a","unknown":1}`, true},
		{`{"username":1}`, false},
		{`[]`, false},
	} {
		var v any
		must(t, json.Unmarshal([]byte(c.body), &v))
		byDocument := body.VisitJSON(v, openapi3.EnableJSONSchema2020()) == nil
		byBinder := len(row.bindJSON(c.body)) == 0
		if byDocument != c.ok || byBinder != c.ok {
			t.Errorf("%s: document says %t, binder says %t, want %t", c.body, byDocument, byBinder, c.ok)
		}
	}
}

func TestOpenAPI_describes_everything(t *testing.T) {
	t.Parallel()
	_, gaps, err := newFixture(t).router.writeOpenAPI(shapes{})
	must(t, err)
	if len(gaps) > 0 {
		t.Errorf("%d gaps:\n%s", len(gaps), strings.Join(gaps, "\n"))
	}
}

func TestOpenAPI_examples_are_what_operations_take_and_return(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := loaded(t, f.document(t))
	for _, row := range f.router.rows {
		op := d.Paths.Value(row.Path).GetOperation(row.Method)
		if op.RequestBody != nil {
			wantExample(t, row.ID+" body", op.RequestBody.Value.Content["application/json"])
			text, err := row.bodyExample()
			must(t, err)
			if bad := row.bindJSON(string(text)); len(bad) > 0 {
				t.Errorf("%s: body example: %v", row.ID, bad)
			}
		}
		for status, response := range op.Responses.Map() {
			for _, media := range response.Value.Content {
				wantExample(t, row.ID+" "+status, media)
			}
		}
	}
}

// wantExample reports a missing example. The validation of the document includes that
// examples match their schemas.
func wantExample(t *testing.T, where string, media *openapi3.MediaType) {
	t.Helper()
	if media.Example == nil {
		t.Errorf("%s has no example", where)
	}
}

func TestOpenAPI_is_served_to_anybody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	resp := f.do(t, http.MethodGet, openAPIPath, "", "")
	var b bytes.Buffer
	_, err := b.ReadFrom(resp.Body)
	must(t, err)
	if resp.StatusCode != 200 || !bytes.Equal(b.Bytes(), f.document(t)) {
		t.Errorf("got %d, %d bytes", resp.StatusCode, b.Len())
	}
}

func TestDocs_load_nothing_from_elsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	resp := f.do(t, http.MethodGet, docsPath, "", "")
	var b bytes.Buffer
	_, err := b.ReadFrom(resp.Body)
	must(t, err)
	page := b.String()
	if resp.StatusCode != 200 || strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Errorf("got %d:\n%s", resp.StatusCode, page)
	}
	if csp := resp.Header.Get("Content-Security-Policy"); csp != docsPolicy || !strings.Contains(csp, "default-src 'none'; script-src 'self';") {
		t.Errorf("policy is %q", csp)
	}
	for _, part := range []string{"swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png", docsScriptName} {
		if !strings.Contains(page, docsPath+"/"+part) {
			t.Errorf("the page does not use %s", part)
		}
		resp := f.do(t, http.MethodGet, docsPath+"/"+part, "", "")
		b.Reset()
		if _, err := b.ReadFrom(resp.Body); err != nil || resp.StatusCode != 200 || b.Len() < 100 {
			t.Errorf("%s: %d, %d bytes, %v", part, resp.StatusCode, b.Len(), err)
		}
	}
	wantError(t, f.do(t, http.MethodGet, docsPath+"/no-such-part.js", "", ""), 404, "NOT_FOUND")
}

func TestManual_is_served_to_anybody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for path, want := range map[string]string{
		manualPath:                    `<a href="docs/streams">`,
		manualPath + "?q=dead+letter": `<a href="docs/bridges`,
		manualPath + "/streams":       `href="../docs"`,
		manualPath + "/configuration": "data_dir: ./data",
		manualPath + "/style.css":     "color-scheme",
	} {
		resp := f.do(t, http.MethodGet, path, "", "")
		var b bytes.Buffer
		_, err := b.ReadFrom(resp.Body)
		must(t, err)
		if resp.StatusCode != 200 || !strings.Contains(b.String(), want) || strings.Contains(b.String(), `="http`) {
			t.Errorf("%s: got %d:\n%s", path, resp.StatusCode, b.String())
		}
	}
	wantError(t, f.do(t, http.MethodGet, manualPath+"/no-such-page", "", ""), 404, "NOT_FOUND")
	wantError(t, f.do(t, http.MethodGet, manualPath+"/", "", ""), 404, "NOT_FOUND")
}
