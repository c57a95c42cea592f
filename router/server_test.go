package router

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/handlers/auth"
)

// writeCertificate writes a self-signed certificate for localhost with the given
// serial number.
func writeCertificate(t *testing.T, files TLSConfig, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	must(t, os.WriteFile(files.CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(files.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
}

func tempTLS(t *testing.T) TLSConfig {
	t.Helper()
	dir := t.TempDir()
	files := TLSConfig{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	writeCertificate(t, files, 1)
	return files
}

func TestCertificates_are_read_again_when_they_change(t *testing.T) {
	t.Parallel()
	files := tempTLS(t)
	c, err := loadCertificates(files, slog.New(slog.DiscardHandler))
	must(t, err)
	now := time.Now()
	serial := func(at time.Time) int64 {
		leaf, err := x509.ParseCertificate(c.get(at).Certificate[0])
		must(t, err)
		return leaf.SerialNumber.Int64()
	}
	if got := serial(now); got != 1 {
		t.Fatalf("serial number %d, want 1", got)
	}
	writeCertificate(t, files, 2)
	later := now.Add(-time.Hour)
	must(t, os.Chtimes(files.CertFile, later, later)) // also where the clock of the file system is coarse
	if got := serial(now.Add(recheck / 2)); got != 1 {
		t.Errorf("the files were looked at too early: %d", got)
	}
	if got := serial(now.Add(recheck)); got != 2 {
		t.Errorf("after the renewal: serial number %d, want 2", got)
	}
	must(t, os.WriteFile(files.CertFile, []byte("half a certificate"), 0o600))
	if got := serial(now.Add(3 * recheck)); got != 2 {
		t.Errorf("in the middle of a renewal: serial number %d, want 2", got)
	}
	writeCertificate(t, files, 3)
	if got := serial(now.Add(5 * recheck)); got != 3 {
		t.Errorf("after the interrupted renewal: serial number %d, want 3", got)
	}
}

func TestServer_speaks_TLS_from_1_2(t *testing.T) {
	t.Parallel()
	files := tempTLS(t)
	f := newFixture(t, func(c *Config, _ *auth.Config) { c.TLS = files })
	must(t, f.Start(t.Context()))
	t.Cleanup(func() { f.Close(context.Background()) }) //nolint:errcheck // the test is over
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(files.CertFile)
	must(t, err)
	pool.AppendCertsFromPEM(pem)
	get := func(maxVersion uint16) (*http.Response, error) {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: maxVersion}, ForceAttemptHTTP2: true}
		defer tr.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), "GET", f.URL()+"/healthz", nil)
		must(t, err)
		return tr.RoundTrip(r)
	}
	if !strings.HasPrefix(f.URL(), "https://127.0.0.1:") {
		t.Errorf("URL is %s", f.URL())
	}
	for _, v := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		resp, err := get(v)
		must(t, err)
		if body := readAll(t, resp); resp.StatusCode != 200 || resp.ProtoMajor != 2 || !strings.Contains(body, `"ok"`) {
			t.Errorf("%s: %d %s over %s", tls.VersionName(v), resp.StatusCode, body, resp.Proto)
		}
	}
	old := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if c, err := tls.Dial("tcp", f.Addr(), old); err == nil {
		c.Close() //nolint:errcheck // it should have been refused
		t.Error("TLS 1.1 is spoken")
	}
}

func TestServer_sets_a_secure_cookie_under_TLS(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.login(t)
	r := httptest.NewRequest("POST", "https://example.com/api/auth/login", strings.NewReader(`{"email":"`+ownerEmail+`","password":"`+ownerPassword+`"}`))
	w := httptest.NewRecorder()
	f.router.ServeHTTP(w, r)
	if c := w.Result().Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("got %d, cookies %v", w.Code, c)
	}
}

func TestServer_start_error_names_the_remedy(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	f := newFixture(t, func(c *Config, _ *auth.Config) { c.Listen = l.Addr().String() })
	err = f.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "SIGNALBOX_HTTP_LISTEN") || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("a port in use: %v", err)
	}
	f = newFixture(t, func(c *Config, _ *auth.Config) { c.TLS = TLSConfig{CertFile: "no-such.pem", KeyFile: "no-such.key"} })
	if err := f.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "http.tls") {
		t.Errorf("certificates that are not there: %v", err)
	}
	if f.Addr() != "" || f.URL() != "" {
		t.Errorf("it says that it is bound: %s", f.URL())
	}
	must(t, f.Close(t.Context()))
}

// slowServer serves one row that responds when letGo is closed.
func slowServer(t *testing.T) (s *Server, entered, letGo chan struct{}) {
	t.Helper()
	entered, letGo = make(chan struct{}), make(chan struct{})
	f := newFixture(t)
	rt, _ := newTable(t, &route{ID: "slow", Do: query(func(context.Context, *noParts) (Health, error) {
		close(entered)
		<-letGo
		return Health{Status: "ok"}, nil
	})})
	f.http.Handler = rt
	must(t, f.Start(t.Context()))
	return f.Server, entered, letGo
}

func TestServer_close_finishes_requests_in_flight(t *testing.T) {
	t.Parallel()
	s, entered, letGo := slowServer(t)
	status := make(chan int, 1)
	go func() {
		resp, err := http.Get(s.URL() + "/x") //nolint:noctx // ends with the server
		if err != nil {
			status <- 0
			return
		}
		resp.Body.Close() //nolint:errcheck // only the status counts
		status <- resp.StatusCode
	}()
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- s.Close(context.Background()) }()
	waitRefused(t, s.Addr())
	close(letGo)
	if got := <-status; got != 200 {
		t.Errorf("the request in flight got %d", got)
	}
	must(t, <-closed)
	must(t, s.Close(t.Context()))
}

// waitRefused waits until addr refuses connections.
func waitRefused(t *testing.T, addr string) {
	t.Helper()
	for {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		c.Close() //nolint:errcheck // it was only a test
		if err := t.Context().Err(); err != nil {
			t.Fatal("the server still accepts connections")
		}
	}
}

func TestServer_close_breaks_off_what_outlasts_the_deadline(t *testing.T) {
	t.Parallel()
	s, entered, letGo := slowServer(t)
	defer close(letGo)
	failed := make(chan error, 1)
	go func() {
		resp, err := http.Get(s.URL() + "/x") //nolint:noctx // ends with the server
		if err == nil {
			resp.Body.Close() //nolint:errcheck // it should have been refused
		}
		failed <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ctx); err == nil {
		t.Error("the close that gave up says nothing of it")
	}
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	must(t, DefaultConfig().Validate())
	for key, change := range map[string]func(*Config){
		"http.listen":          func(c *Config) { c.Listen = "8080" },
		"http.tls":             func(c *Config) { c.TLS.CertFile = "x" },
		"http.read_timeout":    func(c *Config) { c.ReadTimeout = 0 },
		"http.write_timeout":   func(c *Config) { c.WriteTimeout = -1 },
		"http.idle_timeout":    func(c *Config) { c.IdleTimeout = 0 },
		"http.trusted_proxies": func(c *Config) { c.TrustedProxies = []string{"10.0.0.0/8", "nonsense"} },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key+":") {
			t.Errorf("%s: %v", key, err)
		}
		if _, err := New(c, nil, Program{}, nil); err == nil {
			t.Errorf("%s: New takes it", key)
		}
	}
	var all Config
	if got := strings.Count(all.Validate().Error(), "\n") + 1; got != 4 {
		t.Errorf("%d keys are named at once, want 4", got)
	}
}

func TestConfig_does_not_print_the_secret(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.MetricsToken = "hush"
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", c, "token", c.MetricsToken)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "config", c, "token", c.MetricsToken)
	if strings.Contains(log.String(), "hush") {
		t.Errorf("the log holds the token: %s", log.String())
	}
}

func TestProxies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, trusted, peer, forwarded, proto, want string
		secure                                      bool
	}{
		{"no proxy", "", "192.0.2.1:5", "", "", "192.0.2.1", false},
		{"a header of nobody trusted", "", "192.0.2.1:5", "203.0.113.9", "https", "192.0.2.1", false},
		{"a header of somebody else", "10.0.0.0/8", "192.0.2.1:5", "203.0.113.9", "https", "192.0.2.1", false},
		{"a proxy", "10.0.0.0/8", "10.1.2.3:5", "203.0.113.9", "https", "203.0.113.9", true},
		{"the caller made up the first", "10.0.0.0/8", "10.1.2.3:5", "1.1.1.1, 203.0.113.9", "http", "203.0.113.9", false},
		{"two proxies", "10.0.0.0/8", "10.1.2.3:5", "203.0.113.9, 10.9.9.9", "", "203.0.113.9", false},
		{"only proxies", "10.0.0.0/8", "10.1.2.3:5", "10.9.9.9", "", "10.9.9.9", false},
		{"nonsense in the header", "10.0.0.0/8", "10.1.2.3:5", "x", "", "10.1.2.3", false},
		{"no header", "10.1.2.3", "10.1.2.3:5", "", "", "10.1.2.3", false},
		{"IPv6", "::1", "[::1]:5", "2001:db8::7", "", "2001:db8::7", false},
		{"IPv4 in IPv6", "127.0.0.1", "[::ffff:127.0.0.1]:5", "::ffff:203.0.113.9", "", "203.0.113.9", false},
	} {
		var list []string
		if c.trusted != "" {
			list = []string{c.trusted}
		}
		ps, err := parseProxies(list)
		must(t, err)
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		r.Header.Set("X-Forwarded-For", c.forwarded)
		r.Header.Set("X-Forwarded-Proto", c.proto)
		if got := ps.address(r).String(); got != c.want {
			t.Errorf("%s: address is %s, want %s", c.name, got, c.want)
		}
		if got := ps.secure(r); got != c.secure {
			t.Errorf("%s: secure is %t", c.name, got)
		}
	}
}

func TestCaller_is_this_machine_only_without_a_proxy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, peer, host, header, want string }{
		{"this machine", "127.0.0.1:5", "127.0.0.1:8080", "", "127.0.0.1"},
		{"this machine by name", "127.0.0.1:5", "localhost:8080", "", "127.0.0.1"},
		{"this machine by IPv6", "[::1]:5", "[::1]:8080", "", "::1"},
		{"another machine", "192.0.2.1:5", "localhost", "", "192.0.2.1"},
		{"a proxy that tells the host", "127.0.0.1:5", "signalbox.example", "", "a proxy at 127.0.0.1"},
		{"a proxy that tells the address", "127.0.0.1:5", "127.0.0.1:8080", "X-Forwarded-For", "a proxy at 127.0.0.1"},
		{"a proxy that tells itself", "[::1]:5", "[::1]:8080", "Via", "a proxy at ::1"},
		{"a proxy of RFC 7239", "127.0.0.1:5", "127.0.0.1:8080", "Forwarded", "a proxy at 127.0.0.1"},
		{"no host", "127.0.0.1:5", "", "", "a proxy at 127.0.0.1"},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.RemoteAddr, r.Host = c.peer, c.host
		if c.header != "" {
			r.Header.Set(c.header, "127.0.0.1")
		}
		if got := (proxies{}).caller(r); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
