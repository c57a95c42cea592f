package http_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// serveTLS starts a server with TLS. It requires client certificates of the authority, unless
// that is nil.
func serveTLS(t *testing.T, authority *x509.Certificate, h2 bool) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(s.handler(nil))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = h2
	if authority != nil {
		pool := x509.NewCertPool()
		pool.AddCert(authority)
		s.Server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func quote(s string) string {
	q, _ := json.Marshal(s)
	return string(q)
}

func (s *server) authority() string {
	return `"tls":{"caCertificate":` + quote(pemOf("CERTIFICATE", s.Certificate().Raw)) + `}`
}

// identity creates a self-signed certificate.
func identity(t *testing.T) (*x509.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bridge"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return cert, `"clientCertificate":` + quote(pemOf("CERTIFICATE", der)) + `,"clientKey":` + quote(pemOf("PRIVATE KEY", keyDER))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		s := serveTLS(t, nil, h2)
		c := connected(t, s.URL, s.authority(), `"concurrency":4`, "")
		delivered(t, c, []*bridges.Entry{entry(1, "a", "1"), entry(2, "b", "2"), entry(3, "a", "3")})
		if got := len(s.requests()); got != 3 {
			t.Errorf("got %d requests, want 3", got)
		}
		delivered(t, connected(t, s.URL, `"tls":{"verify":false}`, "", ""), entries("1"))
	}
}

func TestClientCertificate(t *testing.T) {
	t.Parallel()
	cert, own := identity(t)
	s := serveTLS(t, cert, false)
	delivered(t, connected(t, s.URL, strings.TrimSuffix(s.authority(), "}")+","+own+"}", "", ""), entries("1"))
	// In TLS 1.3 the server sends its alert after the client has completed the handshake.
	c := compiled(t, s.URL, s.authority(), "", "")
	results, err := deliver(t, c, entries("1"))
	if !isLost(err) || results[0].State != bridges.Pending || !strings.Contains(err.Error(), "clientCertificate") {
		t.Errorf("got %v, %v, want it to ask for a certificate", results, err)
	}
}

// connectError returns the error text of a Connect that fails.
func connectError(t *testing.T, url, connection string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suite.HangLimit)
	defer cancel()
	err := compiled(t, url, connection, "", "").Connect(ctx)
	if err == nil {
		t.Fatalf("%s: got no error", url)
	}
	return err.Error()
}

func TestConnectErrors(t *testing.T) {
	t.Parallel()
	secure, clear := serveTLS(t, nil, false), serve(t, nil)
	_, port, _ := net.SplitHostPort(secure.Listener.Addr().String())
	for _, c := range []struct{ url, connection, want string }{
		{"http://" + brokertest.FreePort(t, "127.0.0.1"), "", "refuses connections"},
		{secure.URL, "", "its authority is unknown"},
		{"https://localhost:" + port, secure.authority(), "its certificate is for another name"},
		{strings.Replace(clear.URL, "http:", "https:", 1), "", "does not speak TLS"},
	} {
		if got := connectError(t, c.url, c.connection); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q in it", c.url, got, c.want)
		}
	}
	connected(t, "https://localhost:"+port, strings.TrimSuffix(secure.authority(), "}")+`,"serverName":"example.com"}`, "", "")
}

func TestConnectSendsNothing(t *testing.T) {
	t.Parallel()
	s, secure := serve(t, nil), serveTLS(t, nil, true)
	for _, c := range []bridges.Connector{connected(t, s.URL, "", "", ""), connected(t, secure.URL, secure.authority(), "", "")} {
		if err := c.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := len(s.requests()) + len(secure.requests()); got != 0 {
		t.Errorf("got %d requests, want none", got)
	}
}

func TestCheckFindsAStoppedServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", brokertest.FreePort(t, "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	s := &nethttp.Server{Handler: nethttp.NotFoundHandler()}
	go s.Serve(l) //nolint:errcheck // until it is closed
	c := connected(t, "http://"+l.Addr().String(), "", "", "")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := deliver(t, c, entries("1")); !isLost(err) {
		t.Errorf("got %v, want the connection to be lost", err)
	}
	if err := c.Check(t.Context()); !isLost(err) || !strings.Contains(err.Error(), "refuses") {
		t.Errorf("got %v, want the connection to be lost", err)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	opened := make(chan net.Conn, 100)
	s := &server{}
	s.Server = httptest.NewUnstartedServer(s.handler(status(nethttp.StatusOK, strings.Repeat("x", 10_000))))
	s.Config.ConnState = func(c net.Conn, state nethttp.ConnState) {
		if state == nethttp.StateNew {
			opened <- c
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	c := compiled(t, s.URL, "", "", "")
	for range 5 {
		delivered(t, c, entries("1", "2", "3"))
	}
	if got := len(opened); got != 1 {
		t.Errorf("got %d connections, want 1", got)
	}
}
