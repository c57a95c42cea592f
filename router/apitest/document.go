package apitest

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// document is an OpenAPI document with which calls are compared.
//
// JSON bodies are checked against its schemas as JSON Schema 2020-12, which OpenAPI 3.1
// uses. openapi3filter would compile a schema anew for each value, which takes longer than
// the call. So it is told that the document is one of 3.0: it checks all the rest, and bodies
// once more with its own validator.
type document struct {
	routes routers.Router

	mu       sync.Mutex // of what follows
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema // by location
}

// location is where the compiler finds the document.
const location = "openapi.json"

// init makes JSON lines readable for the checks of responses.
func init() { openapi3filter.RegisterBodyDecoder("application/jsonl", openapi3filter.FileBodyDecoder) }

// readOnce is the document of the first service: that of all others is the same, as it depends
// on the table of operations only, and reading it takes longer than the start of a service.
var readOnce struct {
	once sync.Once
	read *document
}

func (a *API) readDocument() *document {
	a.t.Helper()
	readOnce.once.Do(func() {
		read, err := parseDocument(a.getDocument())
		if err != nil {
			a.t.Fatal("read the OpenAPI document:", err)
		}
		readOnce.read = read
	})
	if readOnce.read == nil {
		a.t.Fatal("the OpenAPI document could not be read: see the first test that failed")
	}
	return readOnce.read
}

// getDocument returns the text of the document.
func (a *API) getDocument() []byte {
	a.t.Helper()
	answer, err := http.Get(a.URL + "/api/openapi.json")
	if err != nil {
		a.t.Fatal("get the OpenAPI document:", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		a.t.Fatalf("get the OpenAPI document: %s, %v", answer.Status, err)
	}
	return text
}

func parseDocument(text []byte) (*document, error) {
	parsed, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	parsed.Servers = nil
	routes, err := legacy.NewRouter(parsed, openapi3.DisableExamplesValidation())
	if err != nil {
		return nil, err
	}
	if !parsed.IsOpenAPI31OrLater() {
		return nil, fmt.Errorf("its version is %s, want 3.1 or later", parsed.OpenAPI)
	}
	parsed.OpenAPI = "3.0.3" // see document
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(location, value); err != nil {
		return nil, err
	}
	return &document{routes: routes, compiler: c, compiled: map[string]*jsonschema.Schema{}}, nil
}

// check compares a call with the document.
func (a *API) check(r *http.Request, sent []byte, answer *Response, raw bool) {
	a.t.Helper()
	r.URL.Scheme, r.URL.Host, r.Host = "", "", ""
	route, params, err := a.described.routes.FindRoute(r)
	if err != nil {
		if answer.Status != 404 && answer.Status != 405 {
			a.t.Errorf("%s answered %d, but the document does not know it: %v", answer.call, answer.Status, err)
		}
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(sent))
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}}
	if answer.Status < 300 && !raw {
		if err := a.described.checkRequest(a.t, in, sent); err != nil {
			a.t.Errorf("%s was taken, but the document refuses it: %v", answer.call, err)
		}
	}
	if err := a.described.checkResponse(a.t, in, answer); err != nil {
		a.t.Errorf("%s answered %d %s, which the document does not promise: %v", answer.call, answer.Status, answer.Body, err)
	}
}

func (d *document) checkRequest(t testing.TB, in *openapi3filter.RequestValidationInput, sent []byte) error {
	if err := openapi3filter.ValidateRequest(t.Context(), in); err != nil {
		return err
	}
	if len(sent) == 0 || in.Route.Operation.RequestBody == nil {
		return nil
	}
	return d.checkBody(in.Request.Header, sent, operation(in.Route)+"/requestBody", in.Route.Operation.RequestBody.Ref, in.Route.Operation.RequestBody.Value.Content)
}

func (d *document) checkResponse(t testing.TB, in *openapi3filter.RequestValidationInput, answer *Response) error {
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: answer.Status, Header: answer.Header, Options: in.Options}
	out.SetBodyBytes(answer.Body)
	if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil {
		return err
	}
	return d.checkResponseBody(in.Route, answer)
}

func (d *document) checkResponseBody(route *routers.Route, answer *Response) error {
	responses, status := route.Operation.Responses, strconv.Itoa(answer.Status)
	described := responses.Value(status)
	if described == nil {
		described, status = responses.Default(), "default"
	}
	if described == nil { // a redirection, of which the filter checks nothing
		return nil
	}
	return d.checkBody(answer.Header, answer.Body, operation(route)+"/responses/"+status, described.Ref, described.Value.Content)
}

// operation returns the JSON pointer of an operation, escaped for the fragment of a URL.
func operation(route *routers.Route) string {
	return "#/paths/" + token(route.Path) + "/" + strings.ToLower(route.Method)
}

// token returns a name as a part of a JSON pointer in the fragment of a URL.
func token(name string) string {
	return url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
}

// checkBody checks a body if it is JSON. The document describes it at the pointer, or refers
// from there to the reference.
func (d *document) checkBody(header http.Header, body []byte, pointer, reference string, content openapi3.Content) error {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if described := content[kind]; err != nil || kind != "application/json" || described == nil || described.Schema == nil {
		return nil
	}
	if reference != "" {
		pointer = reference
	}
	schema, err := d.schema(pointer + "/content/" + token(kind) + "/schema")
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// schema returns the schema at a JSON pointer, which it compiles the first time.
func (d *document) schema(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.compiled[pointer]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile(location + pointer)
	if err != nil {
		return nil, fmt.Errorf("compile the schema %s: %w", pointer, err)
	}
	d.compiled[pointer] = s
	return s, nil
}
