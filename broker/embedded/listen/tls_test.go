package listen_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/brokertest"
	"signalbox/broker/embedded/limits"
	"signalbox/broker/embedded/listen"
	"signalbox/scripts/suite"
)

// secure does the TLS handshake with the nth listener.
func (r *rig) secure(n int, c *tls.Config) (*tls.Conn, error) {
	r.t.Helper()
	conn := tls.Client(r.dial(n), c)
	return conn, conn.HandshakeContext(r.t.Context())
}

// wantRefusal expects a handshake to fail. With TLS 1.3 a client learns that with its first
// read.
func (r *rig) wantRefusal(n int, c *tls.Config) {
	r.t.Helper()
	conn, err := r.secure(n, c)
	if err == nil {
		var b [1]byte
		_, err = conn.Read(b[:])
	}
	if err == nil || os.IsTimeout(err) {
		r.t.Errorf("listener %d: admitted, or not answered: %v", n, err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, certs := newAuthority(t)
	stranger := brokertest.NewCA(t)
	base := listen.Config{Protocol: "mqtts", CertFile: certs.cert, KeyFile: certs.key}
	optional, required := base, base
	optional.CAFile, required.CAFile, required.RequireCertificate = certs.ca, certs.ca, true
	r := serve(t, options{}, base, optional, required)
	alice := ca.Issue(t, brokertest.CertOptions{Subject: "alice"})
	for n, wantPEM := range []bool{false, true, true} {
		peer, err := r.secure(n, showing(t, trusting(ca), alice))
		if err != nil {
			t.Fatal(err)
		}
		wantEcho(t, peer, "hello")
		c := r.next()
		state, ok := c.TLS()
		if !ok || state.Version != tls.VersionTLS13 || c.Raw() != nil || c.Identity() != "" {
			t.Errorf("listener %d: encrypted %v, version %x, raw %v, identity %q", n, ok, state.Version, c.Raw(), c.Identity())
		}
		if got := string(c.Certificate()); (got == string(alice.Cert)) != wantPEM {
			t.Errorf("listener %d: certificate %q", n, got)
		}
	}
	if peer, err := r.secure(1, trusting(ca)); err != nil {
		t.Errorf("without a certificate: %v", err)
	} else {
		wantEcho(t, peer, "hello")
	}
	r.wantRefusal(2, trusting(ca))
	for n := 1; n < 3; n++ {
		r.wantRefusal(n, showing(t, trusting(ca), stranger.Issue(t, brokertest.CertOptions{Subject: "alice"})))
		r.wantRefusal(n, showing(t, trusting(ca), ca.Issue(t, brokertest.CertOptions{Subject: "alice", Expired: true})))
	}
	old := trusting(ca)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	r.wantRefusal(0, old)
	r.wantLost("TLS", 6)
}

// named creates a client's certificate with names of all kinds.
func named(t *testing.T, change func(*x509.Certificate)) (brokertest.KeyPair, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return brokertest.KeyPair{Cert: cert, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})}, cert
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	uri, err := url.Parse("urn:device:7")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  func(*x509.Certificate)
		cn, san string // "" where it is refused
	}{
		"common name": {func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "müller"} }, "müller", ""},
		"e-mail": {func(c *x509.Certificate) {
			c.DNSNames, c.EmailAddresses, c.URIs = []string{"d.test"}, []string{"a@b.test", "c@d.test"}, []*url.URL{uri}
		}, "", "a@b.test"},
		"URI": {func(c *x509.Certificate) {
			c.Subject.CommonName, c.DNSNames, c.URIs = "cn", []string{"d.test"}, []*url.URL{uri}
		}, "cn", "urn:device:7"},
		"DNS name": {func(c *x509.Certificate) { c.DNSNames = []string{"d.test", "e.test"} }, "", "d.test"},
		"no UTF-8": {func(c *x509.Certificate) { c.Subject.CommonName = "a\x00b" }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca, certs := newAuthority(t)
			pair, own := named(t, c.change)
			write(t, certs.ca, own)
			base := listen.Config{Protocol: "mqtts", CertFile: certs.cert, KeyFile: certs.key, CAFile: certs.ca}
			cn, san := base, base
			cn.CertificateUsername, san.CertificateUsername = "cn", "san"
			r := serve(t, options{}, cn, san)
			for n, want := range []string{c.cn, c.san} {
				if want == "" {
					r.wantRefusal(n, showing(t, trusting(ca), pair))
					continue
				}
				session := tls.NewLRUClientSessionCache(1)
				for range 2 { // the second resumes the session of the first
					config := showing(t, trusting(ca), pair)
					config.ClientSessionCache = session
					peer, err := r.secure(n, config)
					if err != nil {
						t.Fatal(err)
					}
					wantEcho(t, peer, "hello")
					if got := r.next().Identity(); got != want {
						t.Errorf("identity %q, want %q", got, want)
					}
				}
			}
			peer, err := r.secure(0, trusting(ca))
			if err != nil {
				t.Fatal(err)
			}
			wantEcho(t, peer, "hello")
			if got := r.next().Identity(); got != "" {
				t.Errorf("identity %q without a certificate", got)
			}
		})
	}
}

func TestErrorsNameInvalidCertificates(t *testing.T) {
	t.Parallel()
	_, certs := newAuthority(t)
	_, others := newAuthority(t)
	for want, c := range map[string]listen.Config{
		"l.cert_file, key_file: open ": {CertFile: "missing.pem", KeyFile: certs.key},
		"l.cert_file, key_file: tls: ": {CertFile: certs.cert, KeyFile: others.key},
		"l.ca_file: ":                  {CertFile: certs.cert, KeyFile: certs.key, CAFile: certs.key},
	} {
		c.Protocol, c.Address, c.Key = "mqtts", "127.0.0.1:0", "l."
		o := listen.Options{Timeout: suite.HangLimit, Limits: limits.New(limits.Config{}, time.Now)}
		if _, err := listen.New([]listen.Config{c}, o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// serial returns the name of the certificate that a listener presents.
func (r *rig) serial(c *tls.Config) string {
	r.t.Helper()
	peer, err := r.secure(0, c)
	if err != nil {
		r.t.Fatal(err)
	}
	defer peer.Close()
	return peer.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func TestChangedCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	ca, certs := newAuthority(t)
	c := newClock()
	r := serve(t, options{Options: listen.Options{Now: c.now}},
		listen.Config{Protocol: "mqtts", CertFile: certs.cert, KeyFile: certs.key})
	first := r.serial(trusting(ca))
	pair := ca.Issue(t, server)
	write(t, certs.cert, pair.Cert)
	for range 3 { // the key does not belong to it
		c.pass(time.Second)
		if got := r.serial(trusting(ca)); got != first {
			t.Error("a certificate without its key is shown")
		}
	}
	if got := r.log.count("cannot be used"); got != 1 {
		t.Errorf("complained %d times", got)
	}
	write(t, certs.key, pair.Key)
	if got := r.serial(trusting(ca)); got != first {
		t.Error("the files are looked at more often than once a second")
	}
	c.pass(time.Second)
	second := r.serial(trusting(ca))
	if second == first {
		t.Error("the changed certificate is not shown")
	}
	if got := r.Listeners()[0].Describe().Certs[0].CertificateID; got != certs.fingerprint(t) {
		t.Errorf("fingerprint %s", got)
	}
	if err := os.Remove(certs.key); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Second)
	if got := r.serial(trusting(ca)); got != second {
		t.Error("a deleted file removes the certificate")
	}
}

// TestSessionDoesNotOutliveItsAuthority: a client that was verified by an authority that is
// no longer trusted cannot resume.
func TestSessionDoesNotOutliveItsAuthority(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		ca, certs := newAuthority(t)
		c := newClock()
		r := serve(t, options{Options: listen.Options{Now: c.now}}, listen.Config{
			Protocol: "mqtts", CertFile: certs.cert, KeyFile: certs.key, CAFile: certs.ca, RequireCertificate: true,
		})
		config := showing(t, trusting(ca), ca.Issue(t, brokertest.CertOptions{Subject: "alice"}))
		config.ClientSessionCache, config.MaxVersion = tls.NewLRUClientSessionCache(1), version
		for n := range 2 {
			peer, err := r.secure(0, config)
			if err != nil {
				t.Fatal(err)
			}
			wantEcho(t, peer, "hello")
			if got := peer.ConnectionState().DidResume; got != (n == 1) {
				t.Errorf("version %x, connection %d: resumed %v", version, n, got)
			}
		}
		write(t, certs.ca, brokertest.NewCA(t).PEM)
		c.pass(time.Second)
		r.wantRefusal(0, config)
	}
}

// TestReloadUnderLoad replaces the certificate repeatedly while clients connect: no client
// is refused.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	ca, certs := newAuthority(t)
	c := newClock()
	r := serve(t, options{Options: listen.Options{Now: c.now}},
		listen.Config{Protocol: "wss", CertFile: certs.cert, KeyFile: certs.key})
	var stop atomic.Bool
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for !stop.Load() {
				conn, err := net.Dial("tcp", r.addr(0))
				if err != nil {
					t.Error(err)
					return
				}
				secured := tls.Client(conn, trusting(ca))
				if err := secured.HandshakeContext(t.Context()); err != nil {
					t.Error(err)
				}
				secured.Close()
			}
		})
	}
	shown := ""
	for range 20 {
		certs.replace(t, ca.Issue(t, server))
		before := shown
		eventually(t, "the changed certificate is shown", func() bool { // not always to the first client
			c.pass(time.Second)
			shown = r.serial(trusting(ca))
			return shown != before
		})
	}
	stop.Store(true)
	clients.Wait()
}
