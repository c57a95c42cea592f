package remote

import (
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// diagnosed tries a target, as Pool.Try does.
func diagnosed(t *testing.T, target broker.Target) (broker.Diagnosis, error) {
	t.Helper()
	b := open(t, quick(), target)
	err := b.Ready(t.Context())
	return b.Diagnose(err), err
}

// summary returns the steps and the cause of a diagnosis on one line.
func summary(d broker.Diagnosis) string {
	var parts []string
	for _, s := range d.Steps {
		parts = append(parts, s.Step+" "+s.State)
	}
	return strings.Join(parts, ", ") + ": " + string(d.Cause)
}

// problems returns those of the certificates, by their positions.
func problems(d broker.Diagnosis) string {
	var parts []string
	for i, c := range d.Certificates {
		for _, p := range c.Problems {
			parts = append(parts, fmt.Sprint(i, " ", p.Problem))
		}
	}
	return strings.Join(parts, ", ")
}

// remedyLines returns the lines of a remedy, "" if it is not proposed.
func remedyLines(d broker.Diagnosis, remedy string) string {
	for _, r := range d.Remedies {
		if r.Remedy == remedy {
			return r.Lines
		}
	}
	return ""
}

func fingerprintOf(t *testing.T, certificate []byte) string {
	t.Helper()
	block, _ := pem.Decode(certificate)
	if block == nil {
		t.Fatal("not PEM")
	}
	return broker.FingerprintOf(block.Bytes).String()
}

const (
	allGood   = "port good, tls good, login good, control good: "
	tlsFailed = "port good, tls failed, login not-reached, control not-reached: "
)

// TestDiagnose_certificate tries brokers whose certificates are not trusted, and pins what
// they present.
func TestDiagnose_certificate(t *testing.T) {
	t.Parallel()
	ca := brokertest.NewCA(t)
	here := []string{"127.0.0.1"}
	for name, c := range map[string]struct {
		pair                      brokertest.KeyPair
		trusted                   bool // the authority is given
		cause, problems, remedies string
	}{
		"self-signed":         {brokertest.SelfSigned(t, brokertest.CertOptions{Subject: "broker", Names: here}), false, "untrusted", "0 self-signed", "compare-fingerprint"},
		"a private authority": {ca.Issue(t, brokertest.CertOptions{Subject: "broker", Names: here}), false, "untrusted", "0 unknown-authority", "show-authority"},
		"another name":        {ca.Issue(t, brokertest.CertOptions{Subject: "broker", Names: []string{"broker.example"}}), true, "wrong-name", "0 wrong-name", "reissue-certificate"},
		"expired":             {ca.Issue(t, brokertest.CertOptions{Subject: "broker", Names: here, Expired: true}), true, "expired", "0 expired", "compare-fingerprint"},
		"not valid yet":       {ca.Issue(t, brokertest.CertOptions{Subject: "broker", Names: here, NotYet: true}), true, "expired", "0 not-yet-valid", "compare-fingerprint"},
		"all at once":         {brokertest.SelfSigned(t, brokertest.CertOptions{Subject: "broker", Names: []string{"x"}, Expired: true}), false, "expired", "0 wrong-name, 0 expired, 0 self-signed", "reissue-certificate"},
		"of a client":         {ca.Issue(t, brokertest.CertOptions{Subject: "broker"}), true, "wrong-name", "0 wrong-name, 0 invalid", "reissue-certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := brokertest.Mosquitto(t, brokertest.WithCertificate(c.pair))
			target := server.Target()
			target.URL, target.TLS = server.TLSURL, broker.TLS{Verify: true}
			if c.trusted {
				target.TLS.CACert = string(ca.PEM)
			}
			d, err := diagnosed(t, target)
			if err == nil || summary(d) != tlsFailed+c.cause || problems(d) != c.problems || remedyLines(d, c.remedies) == "" {
				t.Fatalf("error %v, diagnosis %s, problems %q, remedies %+v", err, summary(d), problems(d), d.Remedies)
			}
			if d.Cause == broker.CauseExpired && !strings.Contains(err.Error(), "server_fingerprint") {
				t.Errorf("the error does not name the pin: %v", err)
			}
			own := d.Certificates[0]
			if own.Fingerprint != fingerprintOf(t, c.pair.Cert) || own.Subject != "CN=broker" || own.NotBefore >= own.NotAfter {
				t.Errorf("presented %+v", own)
			}
			target.TLS.Fingerprint = own.Fingerprint
			if d, err := diagnosed(t, target); err != nil || summary(d) != allGood || problems(d) != "" {
				t.Errorf("with the pin: error %v, diagnosis %s, problems %q", err, summary(d), problems(d))
			}
			target.TLS.Fingerprint = broker.FingerprintOf(nil).String()
			if d, err := diagnosed(t, target); err == nil || summary(d) != tlsFailed+"other-certificate" || problems(d) != "0 not-pinned" ||
				!strings.Contains(err.Error(), own.Fingerprint) {
				t.Errorf("with another pin: error %v, diagnosis %s, problems %q", err, summary(d), problems(d))
			}
		})
	}
}

// TestDiagnose_trusted shows the chain of a broker that is trusted, and why one that is not
// verified would not be.
func TestDiagnose_trusted(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t, brokertest.WithTLS(), brokertest.WithWebSockets())
	target := server.Target()
	target.URL, target.TLS = server.WSSURL, broker.TLS{CACert: string(server.CA.PEM), Verify: true}
	d, err := diagnosed(t, target)
	if want := "port good, tls good, websocket good, login good, control good: "; err != nil || summary(d) != want || problems(d) != "" ||
		len(d.Certificates) == 0 || d.Certificates[0].Issuer != "CN=brokertest authority" || !slices.Contains(d.Certificates[0].Names, "127.0.0.1") {
		t.Errorf("error %v, diagnosis %s, certificates %+v", err, summary(d), d.Certificates)
	}
	target.TLS = broker.TLS{}
	if d, err := diagnosed(t, target); err != nil || problems(d) != "0 unknown-authority" {
		t.Errorf("not verified: error %v, problems %q", err, problems(d))
	}
}

// TestDiagnose_replacedCertificate connects to a pinned broker that comes back with another
// certificate.
func TestDiagnose_replacedCertificate(t *testing.T) {
	t.Parallel()
	options := brokertest.CertOptions{Subject: "broker", Names: []string{"127.0.0.1"}}
	pair := brokertest.SelfSigned(t, options)
	server := brokertest.Mosquitto(t, brokertest.WithCertificate(pair))
	target := server.Target()
	target.URL, target.TLS = server.TLSURL, broker.TLS{Verify: true, Fingerprint: fingerprintOf(t, pair.Cert)}
	b := connected(t, target)
	server.Stop(t)
	other := brokertest.SelfSigned(t, options)
	for file, content := range map[string][]byte{"cert.pem": other.Cert, "key.pem": other.Key} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(server.ConfigPath), file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server.Start(t)
	suite.WaitFor(t, "the other certificate is refused", func() bool {
		s := b.Status()
		return !s.Connected && strings.Contains(s.Error, "another certificate") && strings.Contains(s.Error, fingerprintOf(t, other.Cert))
	})
}

// TestDiagnose_hostileCertificate shows a certificate with hostile names within bounds.
func TestDiagnose_hostileCertificate(t *testing.T) {
	t.Parallel()
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("n%d.example", i)
	}
	names[0] = "<script>alert(1)</script>"
	hostile := "<script>\x1b[2J\u202e" + strings.Repeat("x", 5000)
	server := brokertest.Mosquitto(t, brokertest.WithCertificate(brokertest.SelfSigned(t, brokertest.CertOptions{Subject: hostile, Names: names})))
	target := server.Target()
	target.URL, target.TLS = server.TLSURL, broker.TLS{Verify: true}
	d, err := diagnosed(t, target)
	if err == nil || len(d.Certificates) != 1 {
		t.Fatalf("error %v, certificates %+v", err, d.Certificates)
	}
	if c := d.Certificates[0]; len(c.Subject) > maxShown || len(c.Issuer) > maxShown || len(c.Names) != 100 || len(c.Problems[0].Text) > maxShown {
		t.Errorf("subject of %d bytes, %d names, %+v", len(c.Subject), len(c.Names), c.Problems)
	}
}

const maxShown = 510

// TestDiagnose_steps tries what fails at the other steps.
func TestDiagnose_steps(t *testing.T) {
	t.Parallel()
	dynsec, plain := brokertest.Mosquitto(t, brokertest.WithClientCertificates()), brokertest.Mosquitto(t, brokertest.WithoutPlugin())
	authority := broker.TLS{CACert: string(dynsec.CA.PEM), Verify: true}
	admin, wrong := dynsec.Target(), dynsec.Target()
	wrong.Username, wrong.Password = "o'brien; x", "quite-wrong"
	noCertificate, refused := dynsec.Target(), dynsec.Target()
	noCertificate.URL, noCertificate.TLS = dynsec.TLSURL, authority
	pair := brokertest.NewCA(t).Issue(t, brokertest.CertOptions{Subject: "signalbox"})
	refused.URL, refused.TLS = dynsec.TLSURL, authority
	refused.TLS.ClientCert, refused.TLS.ClientKey = string(pair.Cert), broker.Secret(pair.Key)
	free := brokertest.FreePort(t, "127.0.0.1")
	for name, c := range map[string]struct {
		target         broker.Target
		want           string
		remedy, within string // lines of the remedy
	}{
		"all well":              {admin, "port good, login good, control good: ", "", ""},
		"no such name":          {broker.Target{URL: "mqtts://broker.invalid"}, "name failed, port not-reached, tls not-reached, login not-reached, control not-reached: unknown-name", "look-up-name", "broker.invalid"},
		"nothing listens":       {broker.Target{URL: "ws://" + free}, "port failed, websocket not-reached, login not-reached, control not-reached: refused", "listen", "protocol websockets"},
		"no TLS":                {broker.Target{URL: strings.Replace(plain.URL, "mqtt:", "mqtts:", 1)}, tlsFailed + "no-tls", "listen-tls", "certfile "},
		"TLS is wanted":         {broker.Target{URL: strings.Replace(dynsec.TLSURL, "mqtts:", "mqtt:", 1)}, "port good, login failed, control not-reached: closed", "listen", "listener "},
		"no WebSockets":         {broker.Target{URL: strings.Replace(plain.URL, "mqtt:", "ws:", 1)}, "port good, websocket failed, login not-reached, control not-reached: no-websocket", "listen-websockets", "protocol websockets"},
		"no client certificate": {noCertificate, tlsFailed + "client-certificate-wanted", "no-client-certificate", "require_certificate false"},
		"another authority's":   {refused, tlsFailed + "client-certificate-refused", "trust-clients", "cafile "},
		"no credentials":        {broker.Target{URL: dynsec.URL}, "port good, login failed, control not-reached: credentials-wanted", "create-user", "createClient signalbox"},
		"wrong credentials":     {wrong, "port good, login failed, control not-reached: credentials-refused", "set-password", `setClientPassword 'o'\''brien; x'`},
		"no plugin":             {broker.Target{URL: plain.URL}, "port good, login good, control limited: no-dynamic-security", "load-dynamic-security", "plugin_opt_config_file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := diagnosed(t, c.target)
			if summary(d) != c.want || !strings.Contains(remedyLines(d, c.remedy), c.within) {
				t.Errorf("error %v, diagnosis %s, remedies %+v, want %s and %q", err, summary(d), d.Remedies, c.want, c.within)
			}
		})
	}
}
