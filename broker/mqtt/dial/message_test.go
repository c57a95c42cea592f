package dial

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
)

// TestCertificateForAnotherName reports the expected name, which may be configured and differ
// from the host.
func TestCertificateForAnotherName(t *testing.T) {
	t.Parallel()
	err := x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"broker.example"}}, Host: "wanted.example"}
	nameless := x509.HostnameError{Certificate: &x509.Certificate{}, Host: "wanted.example"}
	for _, c := range []struct {
		err      error
		settings SettingNames
		want     string
	}{
		{err, SettingNames{}, `not for "wanted.example" but for broker.example: use that name in the url, or let the broker`},
		{err, SettingNames{ServerName: "tls.serverName"}, `not for "wanted.example" but for broker.example: give that name as tls.serverName, or let the broker`},
		{err, SettingNames{Fingerprint: "server_fingerprint"}, `use that name in the url, or pin the certificate by its fingerprint as server_fingerprint, or let`},
		{nameless, SettingNames{Fingerprint: "server_fingerprint"}, `but for no host name at all: pin the certificate by its fingerprint as server_fingerprint, or let`},
		{nameless, SettingNames{ServerName: "tls.serverName"}, `but for no host name at all: let the broker present a certificate for this name`},
	} {
		ep := Endpoint{Host: "10.0.0.1", Addr: "10.0.0.1:8883", TLS: &tls.Config{ServerName: "wanted.example"}, Settings: c.settings}
		if got := ep.Message(&Failure{Stage: StageTLS, Err: &tls.CertificateVerificationError{Err: c.err}}, ""); !strings.Contains(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestCertificateForManyNames reports a few of the names, without control characters.
func TestCertificateForManyNames(t *testing.T) {
	t.Parallel()
	cert := &x509.Certificate{DNSNames: []string{"a\x1b[2Jb"}}
	for range 5000 {
		cert.DNSNames = append(cert.DNSNames, "name.example")
	}
	ep := Endpoint{Host: "h", Addr: "h:8883", TLS: &tls.Config{}}
	got := ep.Message(&Failure{Stage: StageTLS, Err: x509.HostnameError{Certificate: cert, Host: "h"}}, "")
	if len(got) > 300 || strings.Contains(got, "\x1b") || !strings.Contains(got, "and 4996 more") {
		t.Errorf("got %d bytes: %.300q", len(got), got)
	}
}
