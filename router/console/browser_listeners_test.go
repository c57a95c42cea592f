package console_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/broker/embedded/listen"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/router/console/browsertest"
)

// TestListenerCertificate downloads the certificate of a listener from the list, and checks that a
// narrow window shows in all languages whether a listener encrypts, until when, and the download.
func TestListenerCertificate(t *testing.T) {
	t.Parallel()
	pair := brokertest.SelfSigned(t, brokertest.CertOptions{Subject: hostileName("broker"), Names: []string{"127.0.0.1"}})
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for name, content := range map[string][]byte{cert: pair.Cert, key: pair.Key} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	api := apitest.New(t, func(c *appliance.Config) {
		c.Broker.Listeners = []listen.Config{{Protocol: listen.MQTTS, Address: "127.0.0.1:0", CertFile: cert, KeyFile: key},
			{Protocol: listen.MQTTS, Address: "127.0.0.1:0", CertFile: cert, KeyFile: key, CAFile: cert, RequireCertificate: true}}
	})
	listeners := api.URL + "/ui/p/" + api.Project + "/b/" + api.Embedded + "/listeners"
	p := signIn(t, listeners)
	checkText(t, p)
	if text := p.Text("main"); !strings.Contains(text, markup) {
		t.Errorf("the name of the certificate is not in\n%s", text)
	}
	p.Check("listeners", browsertest.Variant{Theme: browsertest.Light, Width: 1280}, browsertest.Variant{Theme: browsertest.Light, Width: 390})
	if n := p.Count("main a[download]"); n != 2 {
		t.Errorf("%d certificates to download, want 2", n)
	}
	got, err := os.ReadFile(p.Download("main a[download]", "listener-2.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(pair.Cert) {
		t.Errorf("downloaded\n%s\nwant\n%s", got, pair.Cert)
	}
	for _, language := range []string{"en", "de", "es", "fr"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			p := signIn(t, listeners, browsertest.WithLanguage(language))
			p.Show(browsertest.Variant{Theme: browsertest.Light, Width: 390})
			p.CheckWidth()
			p.Screenshot("listeners 390 " + language)
			var cut []string
			if p.Evaluate(beyondEdges+"('main tbody td:nth-child(2) :is(.state, p)')", &cut); len(cut) > 0 || p.Count("main td p > .state") != 2 {
				t.Errorf("beyond the edge are %q in\n%s", cut, p.Text("main"))
			}
		})
	}
}
