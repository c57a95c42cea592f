package apitest_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/broker/embedded/listen"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// certificates are the certificates of a broker and of a client.
type certificates struct {
	ca, server, client brokertest.KeyPair
	dir                string
}

func issueCertificates(t *testing.T) certificates {
	t.Helper()
	ca := brokertest.NewCA(t)
	p := certificates{dir: t.TempDir(), ca: brokertest.KeyPair{Cert: ca.PEM},
		server: ca.Issue(t, brokertest.CertOptions{Subject: "broker", Names: []string{"127.0.0.1"}}),
		client: ca.Issue(t, brokertest.CertOptions{Subject: "pump-7"})}
	for name, content := range map[string][]byte{"ca.pem": p.ca.Cert, "cert.pem": p.server.Cert, "key.pem": p.server.Key} {
		if err := os.WriteFile(p.file(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p certificates) file(name string) string { return filepath.Join(p.dir, name) }

// config is a client's configuration that trusts the broker and has its certificate.
func (p certificates) config(t *testing.T, change func(*tls.Config)) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(p.client.Cert, p.client.Key)
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{pair}}
	c.RootCAs.AppendCertsFromPEM(p.ca.Cert)
	change(c)
	return c
}

// everyListener starts a broker with a listener of each kind: mqtt, mqtts with client
// certificates, mqtts, ws, wss.
func everyListener(t *testing.T, p certificates, options ...apitest.Option) *apitest.API {
	t.Helper()
	dir, err := os.MkdirTemp("", "sbx") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	secured := listen.Config{Protocol: listen.MQTTS, Address: "127.0.0.1:0", CertFile: p.file("cert.pem"), KeyFile: p.file("key.pem")}
	identified, web := secured, secured
	identified.CAFile, identified.RequireCertificate = p.file("ca.pem"), true
	web.Protocol, web.Path = listen.WSS, "/mqtt"
	return apitest.New(t, append(options, withAdminPassword, func(c *appliance.Config) {
		c.Broker.AllowAnonymous = true
		c.Broker.Listeners = []listen.Config{identified, secured, {Protocol: listen.WS, Address: "127.0.0.1:0", Path: "/mqtt"}, web,
			{Protocol: listen.Unix, Address: filepath.Join(dir, "mqtt.sock")}}
	})...)
}

func portOf(t *testing.T, listener string) int {
	t.Helper()
	u, err := url.Parse(listener)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
