package systemtest

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// TestTLS serves HTTPS, uses a renewed certificate without a restart, and keeps the old
// one while the files are invalid.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, files := brokertest.NewCA(t), certificateFiles{dir: t.TempDir()}
	files.install(t, ca, "first")
	p := serve(t, dataDir(t), configured(settings{"HTTP_TLS_CERT_FILE": files.cert(), "HTTP_TLS_KEY_FILE": files.key()}))
	if !strings.HasPrefix(p.API, "https://") {
		t.Fatalf("the greeting says %s", p.API)
	}
	address := strings.TrimPrefix(p.API, "https://")
	if got := shown(t, address, ca); got != "first" {
		t.Errorf("shown: certificate of %q, want first", got)
	}
	env := settings{"HTTP_LISTEN": address, "HTTP_TLS_CERT_FILE": files.cert(), "HTTP_TLS_KEY_FILE": files.key()}.environ(p.dir)
	if got := command(t, env, "healthcheck"); got.code != 0 {
		t.Errorf("healthcheck: %+v", got)
	}
	if got, err := http.Get("http://" + address + "/healthz"); err == nil {
		got.Body.Close()
		if got.StatusCode == http.StatusOK {
			t.Error("plain HTTP is served on the same port")
		}
	}

	files.put(t, files.cert(), "half a renewal")
	suite.WaitFor(t, "the service has noticed", func() bool {
		if got := shown(t, address, ca); got != "first" {
			t.Fatalf("with unusable files: certificate of %q", got)
		}
		return strings.Contains(p.Stderr.String(), "certificate not reloaded")
	})
	files.install(t, ca, "second")
	suite.WaitFor(t, "the renewed certificate is shown", func() bool { return shown(t, address, ca) == "second" })
	p.stop(t)
}

// certificateFiles are the configured files.
type certificateFiles struct{ dir string }

func (f certificateFiles) cert() string { return filepath.Join(f.dir, "cert.pem") }
func (f certificateFiles) key() string  { return filepath.Join(f.dir, "key.pem") }

// install replaces the certificate and its key.
func (f certificateFiles) install(t *testing.T, ca *brokertest.CA, subject string) {
	t.Helper()
	pair := ca.Issue(t, brokertest.CertOptions{Subject: subject, Names: []string{"127.0.0.1"}})
	f.put(t, f.key(), string(pair.Key))
	f.put(t, f.cert(), string(pair.Cert))
}

// put replaces a file atomically.
func (f certificateFiles) put(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// shown returns the subject of the certificate on a new connection.
func shown(t *testing.T, address string, ca *brokertest.CA) string {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}
