package router

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/broker"
	"signalbox/broker/clusters"
	"signalbox/broker/monitor"
	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/handlers"
	"signalbox/handlers/audit"
	"signalbox/handlers/audit/sinks"
	"signalbox/handlers/auth"
	"signalbox/handlers/jobs"
	"signalbox/handlers/vault"
)

var update = flag.Bool("update", false, "write golden files anew")

// fixture is the API in this process over a real database. Its two brokers are records
// of a disabled embedded broker: every operation on them reaches the broker and then
// returns 503.
type fixture struct {
	*Server
	db      *db.DB
	auth    *auth.Auth
	log     *bytes.Buffer // of the router; read it after the requests
	owner   db.User
	project string
	broker  string
	other   string // a broker that the restricted token does not allow
	tokens  map[string]string
}

const (
	ownerEmail    = "root@example.org"
	ownerPassword = "correct horse battery"
)

// newFixture returns the API; change adapts the configuration.
func newFixture(t testing.TB, change ...func(*Config, *auth.Config)) *fixture {
	t.Helper()
	cfg, authCfg := DefaultConfig(), auth.DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	for _, c := range change {
		c(&cfg, &authCfg)
	}
	f := &fixture{db: dbtest.New(t), log: &bytes.Buffer{}, tokens: map[string]string{}}
	quiet := slog.New(slog.DiscardHandler)
	f.auth = auth.New(f.db, authCfg, time.Now, quiet)
	t.Cleanup(func() { f.auth.Close(context.Background()) }) //nolint:errcheck // the test is over
	v, err := vault.Open(filepath.Join(t.TempDir(), "key"), true)
	must(t, err)
	connections := &handlers.Connections{DB: f.db, Brokers: broker.NewPool(nil), Vault: v, Now: time.Now, Log: quiet}
	history := monitor.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), monitor.Options{})
	t.Cleanup(func() { history.Close(context.Background()) }) //nolint:errcheck // the test is over
	trail, err := audit.Open(t.Context(), f.db, v, audit.Config{Required: true}, time.Now, quiet)
	must(t, err)
	t.Cleanup(func() { trail.Close(context.Background()) }) //nolint:errcheck // the test is over
	api := &handlers.API{Connections: connections, Clusters: clusters.New(connections.ClusterRows(), quiet), Auth: f.auth, Audit: trail, AuditSinks: sinks.New(f.db, sinks.Config{}, sinks.Options{}), LogLevel: handlers.NewLogLevel(slog.LevelInfo), DiskFree: func() int64 { return -1 }, System: noSystem{},
		Jobs: jobs.New(jobs.DefaultLimits(), time.Now, quiet), SearchTime: handlers.DefaultSearchTime, History: history,
		Events: monitor.NewEvents(connections.Brokers, quiet)}
	ready := func(ctx context.Context) error { return f.db.Ping(ctx) }
	f.Server, err = New(cfg, ready, Program{Version: "test", ConfigExample: "data_dir: ./data\n"}, slog.New(slog.NewJSONHandler(f.log, nil)))
	must(t, err)
	must(t, f.Server.Serve(api, f.auth))
	f.fill(t)
	return f
}

// fill stores an owner, a project, two brokers and a token of each role.
func (f *fixture) fill(t testing.TB) {
	t.Helper()
	now := time.Now()
	f.owner = db.User{ID: newID(), Email: ownerEmail, FirstName: "Ada", Verified: true, Root: true, CreatedAt: now, UpdatedAt: now}
	must(t, f.db.CreateUser(t.Context(), f.owner))
	p := db.Project{ID: newID(), Name: "plant", OwnerID: f.owner.ID, CreatedAt: now, UpdatedAt: now}
	must(t, f.db.CreateProject(t.Context(), p))
	f.project = p.ID
	f.broker, f.other = f.addBroker(t, "one"), f.addBroker(t, "two")
	for _, role := range []string{"viewer", "editor", "admin"} {
		f.tokens[role] = f.addToken(t, db.Token{ProjectID: p.ID, Role: role, Type: "unrestricted"})
	}
	f.tokens["restricted"] = f.addToken(t, db.Token{ProjectID: p.ID, Role: "editor", Type: "restricted", Brokers: []string{f.broker}})
}

func (f *fixture) addBroker(t testing.TB, name string) string {
	t.Helper()
	now := time.Now()
	row := db.Broker{ID: newID(), ProjectID: f.project, Rev: 1, Type: "on-premise-setup", Name: name,
		URL: "mqtt://127.0.0.1:1", Details: json.RawMessage("{}"), CreatedAt: now, UpdatedAt: now}
	must(t, f.db.CreateBroker(t.Context(), row))
	return row.ID
}

func (f *fixture) addToken(t testing.TB, token db.Token) string {
	t.Helper()
	value, hash := auth.NewToken()
	token.ID, token.OwnerID, token.Hash, token.Name, token.IssuedAt = newID(), f.owner.ID, hash, token.Role, time.Now()
	must(t, f.db.CreateToken(t.Context(), token))
	return value
}

// ownerHash hashes the owner's password, once for all tests, because that is slow on
// purpose.
var ownerHash = sync.OnceValues(func() (string, error) {
	a := auth.New(nil, auth.DefaultConfig(), time.Now, slog.New(slog.DiscardHandler))
	return a.HashPassword(context.Background(), ownerPassword)
})

// login sets a password for the owner and returns a session.
func (f *fixture) login(t *testing.T) string {
	t.Helper()
	hash, err := ownerHash()
	must(t, err)
	must(t, f.db.SetPassword(t.Context(), f.owner.ID, hash, "", time.Now()))
	s, err := f.auth.Login(t.Context(), ownerEmail, ownerPassword, auth.Origin{Caller: "127.0.0.1"})
	must(t, err)
	return s.Token
}

// do sends a request; token and body may be "" for none.
func (f *fixture) do(t *testing.T, method, target, token, body string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.router.ServeHTTP(w, r)
	return w.Result()
}

// path inserts the fixture's ids into a path of the table.
func (f *fixture) path(p string) string {
	return strings.NewReplacer("{projectId}", f.project, "{brokerId}", f.broker, "{userId}", f.owner.ID,
		"{clusterId}", newID(), "{tokenId}", newID(), "{jobId}", newID(), "{bridgeId}", "b1", "{connectionName}", "c1", "{file}", docsScriptName).Replace(p)
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError checks that a response is the error object with status and code.
func wantError(t *testing.T, resp *http.Response, status int, code string) handlers.ErrorObject {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	var got handlers.ErrorObject
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("body %q is no error object: %v", body, err)
	}
	if resp.StatusCode != status || got.Code != code || got.Status != status {
		t.Fatalf("got %d %s (body status %d, %q), want %d %s", resp.StatusCode, got.Code, got.Status, got.Message, status, code)
	}
	if got.Message == "" {
		t.Error("the error has no message")
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type is %q", ct)
	}
	return got
}

// row returns a row by its id.
func (f *fixture) row(t testing.TB, id string) *route {
	t.Helper()
	for _, row := range f.router.rows {
		if row.ID == id {
			return row
		}
	}
	t.Fatalf("there is no row %q", id)
	return nil
}

// bindJSON binds a body alone and returns its errors.
func (row *route) bindJSON(body string) []handlers.FieldError {
	var bad problems
	row.plan.bindBody(&bad, reflect.New(row.plan.typ).Elem(), []byte(body))
	return bad.list
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(b)
}

// document returns the OpenAPI document.
func (f *fixture) document(t testing.TB) []byte {
	t.Helper()
	document, err := f.router.document()
	must(t, err)
	return document
}

// noSystem is a system of which nothing is known.
type noSystem struct{}

func (noSystem) Describe(context.Context) (handlers.SystemRecord, error) {
	return handlers.SystemRecord{}, nil
}

func (noSystem) Log(int, slog.Level) []handlers.LogLine { return []handlers.LogLine{} }

func (noSystem) SupportBundle(context.Context, handlers.SupportBundleOptions) (handlers.File, error) {
	return handlers.File{Content: io.NopCloser(strings.NewReader(""))}, nil
}
