// Package apitest runs the whole API for a test: a real database, a real embedded
// broker, a real HTTP server on a free port. Every call is checked against the OpenAPI
// document that the server itself serves.
//
// It is imported by tests only.
package apitest

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/alexedwards/argon2id"

	"signalbox/handlers"
	"signalbox/router/appliance"
	"signalbox/scripts/suite"
)

// The first administrator.
const (
	RootEmail    = "root@example.com"
	RootPassword = "correct horse battery"
)

// API is a running service with the project "default" and its embedded broker.
type API struct {
	URL       string
	MQTT      string   // address of the embedded broker's plain listener
	Listeners []string // URLs of all its listeners, the plain one first
	Project   string
	Embedded  string
	Handlers  *handlers.API
	Root      *Caller

	t         testing.TB
	described *document
	config    appliance.Config
	log       *slog.Logger
	service   *appliance.Appliance
}

// Option changes the configuration before the service starts.
type Option func(*appliance.Config)

// ViewerReadOnly enables auth.viewer_read_only.
func ViewerReadOnly(c *appliance.Config) { c.Auth.ViewerReadOnly = true }

// In uses a data directory, which outlives the service.
func In(dir string) Option { return func(c *appliance.Config) { c.DataDir = dir } }

// New starts a service and stops it at the end of the test.
func New(t testing.TB, options ...Option) *API {
	t.Helper()
	return NewLogged(t, logger(t), options...)
}

// NewLogged is New for a test that reads the service's log.
func NewLogged(t testing.TB, log *slog.Logger, options ...Option) *API {
	t.Helper()
	c := appliance.DefaultConfig()
	c.DataDir, c.HTTP.Listen, c.Broker.Listen = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
	c.Admin = handlers.Admin{Email: RootEmail, Password: RootPassword}
	c.Broker.PasswordIterations = 1000 // enough for a test
	// However slow the machine is:
	c.HTTP.ReadTimeout, c.HTTP.WriteTimeout, c.Broker.ConnectTimeout = suite.HangLimit, suite.HangLimit, suite.HangLimit
	c.Auth.Hashing = &argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}
	for _, o := range options {
		o(&c)
	}
	service, err := appliance.Start(t.Context(), c, appliance.Program{Version: "test"}, log)
	if err != nil {
		t.Fatal(err)
	}
	service.API.SearchTime = suite.HangLimit
	a := &API{t: t, URL: service.URL, MQTT: strings.TrimPrefix(service.Broker[0], "mqtt://"), Listeners: service.Broker,
		Handlers: service.API, Embedded: service.API.Embedded(), config: c, log: log, service: service}
	t.Cleanup(a.Stop)
	a.described = a.readDocument()
	a.Root = a.LogIn(RootEmail, RootPassword)
	a.Project = a.project()
	return a
}

// Stop stops the service before the end of the test, for one that continues with the
// same data.
func (a *API) Stop() {
	a.t.Helper()
	if err := a.service.StopWithin(suite.HangLimit); err != nil {
		a.t.Error("stop:", err)
	}
}

// Start starts the stopped service again, with its data. The callers remain.
func (a *API) Start() {
	a.t.Helper()
	service, err := appliance.Start(a.t.Context(), a.config, appliance.Program{Version: "test"}, a.log)
	if err != nil {
		a.t.Fatal("start again:", err)
	}
	a.service, a.Handlers, a.URL = service, service.API, service.URL
}

// logger writes the service's log to the test's if that is verbose.
func logger(t testing.TB) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Caller is a caller of the API.
type Caller struct {
	api   *API
	token string
}

// Anonymous returns a caller without credentials.
func (a *API) Anonymous() *Caller { return &Caller{api: a} }

// Bearer returns a caller with a token.
func (a *API) Bearer(token string) *Caller { return &Caller{api: a, token: token} }

// LogIn creates a session and returns its caller.
func (a *API) LogIn(email, password string) *Caller {
	a.t.Helper()
	var session struct{ Token string }
	a.Anonymous().Post("/api/auth/login", object{"email": email, "password": password}).Want(200).Decode(&session)
	return a.Bearer(session.Token)
}

type object = map[string]any

func (a *API) project() string {
	a.t.Helper()
	var projects []struct{ ID string }
	a.Root.Get("/api/projects").Want(200).Decode(&projects)
	return projects[0].ID
}

// At returns a path below the embedded broker.
func (a *API) At(path string) string { return a.BrokerAt(a.Embedded, path) }

// BrokerAt returns a path below a broker of the default project.
func (a *API) BrokerAt(id, path string) string {
	return "/api/projects/" + a.Project + "/brokers/" + id + path
}

// Token creates a project token and returns its caller.
func (a *API) Token(role string, brokers ...string) *Caller {
	a.t.Helper()
	return a.Bearer(a.TokenText(role, brokers...))
}

// TokenText creates a project token and returns it.
func (a *API) TokenText(role string, brokers ...string) string {
	a.t.Helper()
	kind := "unrestricted"
	if len(brokers) > 0 {
		kind = "restricted"
	}
	var record struct{ Token string }
	a.Root.Post("/api/projects/"+a.Project+"/tokens",
		object{"name": role, "role": role, "type": kind, "brokers": append([]string{}, brokers...)}).Want(200).Decode(&record)
	return record.Token
}

// Get calls with GET.
func (c *Caller) Get(path string) *Response { return c.Do("GET", path, nil) }

// Delete calls with DELETE.
func (c *Caller) Delete(path string) *Response { return c.Do("DELETE", path, nil) }

// Put calls with PUT.
func (c *Caller) Put(path string, body any) *Response { return c.Do("PUT", path, body) }

// Post calls with POST.
func (c *Caller) Post(path string, body any) *Response { return c.Do("POST", path, body) }

// Text is a body that is sent unchanged, and not checked against the document.
type Text string

// Do calls the API. The response is checked against the document; so is the request, if
// the service accepted it.
func (c *Caller) Do(method, path string, body any) *Response {
	c.api.t.Helper()
	sent := c.encode(body)
	r, err := http.NewRequestWithContext(c.api.t.Context(), method, c.api.URL+path, bytes.NewReader(sent))
	if err != nil {
		c.api.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		c.api.t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	received, err := io.ReadAll(res.Body)
	if err != nil {
		c.api.t.Fatal(err)
	}
	answer := &Response{Status: res.StatusCode, Header: res.Header, Body: received, t: c.api.t, call: method + " " + path}
	_, raw := body.(Text)
	c.api.check(r, sent, answer, raw)
	return answer
}

func (c *Caller) encode(body any) []byte {
	switch body := body.(type) {
	case nil:
		return nil
	case Text:
		return []byte(body)
	}
	b, err := json.Marshal(body)
	if err != nil {
		c.api.t.Fatal(err)
	}
	return b
}

// Response is a response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte

	t    testing.TB
	call string
}

// Want ends the test unless the status is this one.
func (a *Response) Want(status int) *Response {
	a.t.Helper()
	if a.Status != status {
		a.t.Fatalf("%s: got %d %s, want %d", a.call, a.Status, a.Body, status)
	}
	return a
}

// WantError ends the test unless the response is the error object with this status and
// code.
func (a *Response) WantError(status int, code string) *Response {
	a.t.Helper()
	e := a.Error()
	if a.Status != status || e.Code != code || e.Status != status || e.Message == "" {
		a.t.Fatalf("%s: got %d %s, want %d %s with a message", a.call, a.Status, a.Body, status, code)
	}
	return a
}

// Error decodes the error object.
func (a *Response) Error() handlers.ErrorObject {
	a.t.Helper()
	var e handlers.ErrorObject
	a.Decode(&e)
	return e
}

// Fields returns the invalid fields that a 400 names.
func (a *Response) Fields() []string {
	a.t.Helper()
	var e struct {
		Info struct{ Errors []handlers.FieldError }
	}
	a.Decode(&e)
	var fields []string
	for _, f := range e.Info.Errors {
		fields = append(fields, f.Field)
	}
	return fields
}

// Decode decodes the body.
func (a *Response) Decode(into any) {
	a.t.Helper()
	if err := json.Unmarshal(a.Body, into); err != nil {
		a.t.Fatalf("%s answered %d %q: %v", a.call, a.Status, a.Body, err)
	}
}
