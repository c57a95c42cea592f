package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"signalbox/router/client"
)

// service responds as the API does, and records the requests.
type service struct {
	*httptest.Server
	brokers map[string]string // project id to the response of its list
	asked   []string
	token   string
	body    string
}

func newService(t *testing.T, brokers map[string]string) *service {
	t.Helper()
	s := &service{brokers: brokers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements the operations that the client uses.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
	s.token = r.Header.Get("Authorization")
	b, _ := io.ReadAll(r.Body) //nolint:errcheck // the test sees the body
	s.body = string(b)
	switch {
	case r.URL.Path == "/readyz":
		io.WriteString(w, `{"status":"ok"}`) //nolint:errcheck // loopback
	case r.URL.Path == "/api/auth/me":
		s.me(w)
	case strings.HasSuffix(r.URL.Path, "/brokers"):
		io.WriteString(w, s.brokers[strings.Split(r.URL.Path, "/")[3]]) //nolint:errcheck // loopback
	case strings.HasSuffix(r.URL.Path, "/access/import"):
		io.WriteString(w, `{"clients":2,"groups":1,"roles":3,"warnings":["w"]}`) //nolint:errcheck // loopback
	case strings.HasSuffix(r.URL.Path, "/access/export"):
		io.WriteString(w, `{"clients":[]}`) //nolint:errcheck // loopback
	}
}

func (s *service) me(w http.ResponseWriter) {
	type project struct {
		ID string `json:"id"`
	}
	me := struct {
		Projects []project `json:"projects"`
	}{}
	for id := range s.brokers {
		me.Projects = append(me.Projects, project{id})
	}
	json.NewEncoder(w).Encode(me) //nolint:errcheck // loopback
}

func TestAccess_finds_the_embedded_broker(t *testing.T) {
	t.Parallel()
	s := newService(t, map[string]string{
		"p1": `[{"id":"b1","name":"mosquitto","type":"self-hosted"}]`,
		"p2": `[{"id":"b2","name":"embedded","type":"on-premise-setup"}]`,
	})
	report, err := client.New(s.URL+"/", "tok").Access("").ImportAccess(t.Context(), strings.NewReader(`{"x":1}`), true)
	if err != nil {
		t.Fatal(err)
	}
	if report.Clients != 2 || report.Groups != 1 || report.Roles != 3 || len(report.Warnings) != 1 {
		t.Errorf("report is %+v", report)
	}
	if last := s.asked[len(s.asked)-1]; last != "POST /api/projects/p2/brokers/b2/access/import?replace=true" || s.body != `{"x":1}` || s.token != "Bearer tok" {
		t.Errorf("asked %s with body %s and %s", last, s.body, s.token)
	}
}

func TestAccess_takes_the_named_broker(t *testing.T) {
	t.Parallel()
	s := newService(t, map[string]string{"p1": `[{"id":"b1","type":"self-hosted"},{"id":"b2","type":"on-premise-setup"}]`})
	document, err := client.New(s.URL, "tok").Access("b1").ExportAccess(t.Context())
	if err != nil || string(document) != `{"clients":[]}` {
		t.Fatalf("got %s, %v", document, err)
	}
	if last := s.asked[len(s.asked)-1]; last != "GET /api/projects/p1/brokers/b1/access/export" {
		t.Errorf("asked %s", last)
	}
}

func TestAccess_lists_the_brokers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ brokers, id, want string }{
		"unknown id":       {`[{"id":"b1","name":"one"}]`, "b9", "b1 (one)"},
		"none embedded":    {`[{"id":"b1","name":"one","type":"self-hosted"}]`, "", "b1 (one)"},
		"several embedded": {`[{"id":"b1","name":"one","type":"on-premise-setup"},{"id":"b2","name":"two","type":"on-premise-setup"}]`, "", "b2 (two)"},
		"no broker at all": {`[]`, "", "none"},
	} {
		s := newService(t, map[string]string{"p1": c.brokers})
		if _, err := client.New(s.URL, "").Access(c.id).ExportAccess(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	local := client.Local(strings.TrimPrefix(s.URL, "http://"), false)
	if err := local.Healthcheck(t.Context()); err != nil {
		t.Error(err)
	}
	anywhere := client.Local(strings.Replace(strings.TrimPrefix(s.URL, "http://"), "127.0.0.1", "0.0.0.0", 1), false)
	if err := anywhere.Healthcheck(t.Context()); err != nil {
		t.Errorf("listening everywhere: %v", err)
	}
	secure := httptest.NewTLSServer(s)
	defer secure.Close()
	if err := client.Local(strings.TrimPrefix(secure.URL, "https://"), true).Healthcheck(t.Context()); err != nil {
		t.Errorf("with TLS: %v", err)
	}
	s.Close()
	if err := local.Healthcheck(t.Context()); err == nil {
		t.Error("a service that is away is said to be well")
	}
}

func TestErrors_are_the_error_object(t *testing.T) {
	t.Parallel()
	answer := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, answer) //nolint:errcheck // loopback
	}))
	defer s.Close()
	answer = `{"message":"not valid","code":"INVALID_REQUEST","status":400,"info":{"errors":[{"field":"body.a","message":"is required"},{"field":"body.b","message":"is odd"}]}}`
	_, err := client.New(s.URL, "").Access("b").ExportAccess(t.Context())
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Code != "INVALID_REQUEST" || e.Status != 400 || !strings.Contains(err.Error(), "body.b: is odd") {
		t.Errorf("got %v", err)
	}
	answer = "<html>a proxy</html>"
	if err := client.New(s.URL, "").Healthcheck(t.Context()); err == nil || !strings.Contains(err.Error(), "400 Bad Request") {
		t.Errorf("a stranger's answer: %v", err)
	}
}

func TestRedirects_are_not_followed(t *testing.T) {
	t.Parallel()
	leaked := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked = true }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	if err := client.New(s.URL, "tok").Healthcheck(t.Context()); err == nil || leaked {
		t.Errorf("followed: %t, %v", leaked, err)
	}
}

// TestConnect_verifies_the_service trusts the authorities or the one certificate that it is
// given.
func TestConnect_verifies_the_service(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(newService(t, nil))
	defer secure.Close()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	foreign := selfSigned(t)
	for name, c := range map[string]struct {
		options client.Options
		trusted bool
	}{
		"authorities of the system": {client.Options{}, false},
		"its authority":             {client.Options{CAs: text}, true},
		"another authority":         {client.Options{CAs: foreign}, false},
		"its certificate":           {client.Options{Certificate: text}, true},
		"another certificate":       {client.Options{Certificate: foreign}, false},
	} {
		c.options.URL, c.options.Token = secure.URL, "tok"
		api, err := client.Connect(c.options)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := api.Do(t.Context(), client.Request{Method: "GET", Path: "/readyz"})
		if err == nil {
			resp.Body.Close()
		}
		lost, ok := errors.AsType[*client.ConnectionError](err)
		if c.trusted != (err == nil) || !c.trusted && (!ok || lost.Sent) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// selfSigned returns a certificate that no service has.
func selfSigned(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"example.com"}, IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// TestConnect_refuses names what is wrong, without a password in a URL.
func TestConnect_refuses(t *testing.T) {
	t.Parallel()
	for _, o := range []client.Options{{URL: ""}, {URL: "127.0.0.1:8080"}, {URL: "ftp://x"}, {URL: "http://"}, {URL: "http://x?y"}, {URL: "http://u:secret@x"},
		{URL: "https://x", CAs: []byte("x")}, {URL: "https://x", Certificate: []byte("x")}} {
		if _, err := client.Connect(o); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", o.URL, err)
		}
	}
}
