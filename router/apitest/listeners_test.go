package apitest_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// presented returns what a TLS client is presented at a listener, as PEM.
func presented(t *testing.T, listener string, c *tls.Config) (chain string) {
	t.Helper()
	u, err := url.Parse(listener)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", u.Host, c)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, one := range conn.ConnectionState().PeerCertificates {
		chain += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: one.Raw}))
	}
	return chain
}

// TestListenerCertificate compares the certificates of listeners with those that a client is presented,
// also after the file was replaced by one with a hostile name, and never returns a key.
func TestListenerCertificate(t *testing.T) {
	t.Parallel()
	p := issueCertificates(t)
	write := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(p.file(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chain := slices.Concat(p.server.Cert, p.ca.Cert)
	write("cert.pem", chain)
	api := everyListener(t, p)
	viewer := api.Token("viewer")
	download := func(id int) string {
		t.Helper()
		res := viewer.Get(api.At(fmt.Sprintf("/listeners/%d/certificate", id))).Want(200)
		if got := res.Header.Get("Content-Disposition"); got != fmt.Sprintf("attachment; filename=listener-%d.pem", id) {
			t.Errorf("Content-Disposition %q", got)
		}
		return string(res.Body)
	}
	trusting := p.config(t, func(*tls.Config) {})
	for _, id := range []int{2, 3, 5} {
		if got, want := download(id), presented(t, api.Listeners[id-1], trusting); got != want || got != string(chain) {
			t.Errorf("listener %d: got\n%s\nwant\n%s", id, got, want)
		}
	}

	next := brokertest.SelfSigned(t, brokertest.CertOptions{Subject: hostileID, Names: []string{"127.0.0.1"}})
	write("key.pem", next.Key)
	write("cert.pem", next.Cert)
	trusting.RootCAs.AppendCertsFromPEM(next.Cert)
	waitFor(t, "the new certificate", func() bool { return download(3) == string(next.Cert) })
	if want := presented(t, api.Listeners[2], trusting); want != string(next.Cert) {
		t.Errorf("a client is presented\n%s", want)
	}
	v := visit(t, api, "viewer")
	link := `href="../../../../p/` + api.Project + "/b/" + api.Embedded + `/listeners/3/certificate"`
	if text := v.page("listeners", "&lt;script&gt;", link); strings.Contains(text, "<script>") {
		t.Errorf("the name of the certificate is markup:\n%s", text)
	}
	file := v.Get(v.base + "listeners/3/certificate")
	if file.Status != 200 || file.Text != string(next.Cert) {
		t.Errorf("the console: %d\n%s", file.Status, file.Text)
	}

	for _, id := range []string{"0", "1", "6", "7", "x", "-1", "03a"} { // 1 and 6 have no TLS
		viewer.Get(api.At("/listeners/"+id+"/certificate")).WantError(404, "NOT_FOUND")
	}
	v.Want(v.Get(v.base+"listeners/1/certificate"), 404, "does not use TLS")
	api.Anonymous().Get(api.At("/listeners/3/certificate")).WantError(401, "UNAUTHORIZED")
	remote := addMosquitto(t, api)
	waitFor(t, "the broker to be known", func() bool {
		return api.Root.Get(api.BrokerAt(remote, "/listeners/1/certificate")).Status == 405
	})
	api.Root.Get(api.BrokerAt(remote, "/listeners/1/certificate")).WantError(405, "NOT_SUPPORTED")
}
