package remote

import (
	"encoding/pem"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
)

func TestDial_names_what_is_wrong(t *testing.T) {
	t.Parallel()
	ca := brokertest.NewCA(t)
	pair, other := ca.Issue(t, brokertest.CertOptions{Subject: "a"}), ca.Issue(t, brokertest.CertOptions{Subject: "b"})
	good, key := string(pair.Cert), broker.Secret(pair.Key)
	locked := &pem.Block{Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}}
	const url = "mqtts://h"
	for name, c := range map[string]struct {
		target broker.Target
		want   string
	}{
		"empty url":         {broker.Target{}, "url: must begin with"},
		"no url":            {broker.Target{URL: "mqtt://h:port"}, "url: is not a URL"},
		"another scheme":    {broker.Target{URL: "http://h"}, "url: must begin with"},
		"no scheme":         {broker.Target{URL: "h:1883"}, "url: must begin with"},
		"no host":           {broker.Target{URL: "mqtt://:1883"}, "url: has no host"},
		"credentials":       {broker.Target{URL: "mqtt://u:hidden@h"}, "url: must not hold credentials"},
		"a fragment":        {broker.Target{URL: "ws://h/#x"}, "url: must not have a fragment"},
		"a path":            {broker.Target{URL: "mqtt://h/mqtt"}, "url: must end after host and port"},
		"a query":           {broker.Target{URL: "mqtt://h?x=1"}, "url: must end after host and port"},
		"port 0":            {broker.Target{URL: "mqtt://h:0"}, "url: the port"},
		"port 65536":        {broker.Target{URL: "mqtt://h:65536"}, "url: the port"},
		"password only":     {broker.Target{URL: url, Password: "hidden"}, "password: cannot be used without a username"},
		"long username":     {broker.Target{URL: url, Username: strings.Repeat("u", 65536)}, "username: is longer"},
		"long password":     {broker.Target{URL: url, Username: "u", Password: broker.Secret(strings.Repeat("p", 65536))}, "password: is longer"},
		"no PEM":            {broker.Target{URL: url, TLS: broker.TLS{CACert: "none"}}, "ca_cert: holds no PEM certificate"},
		"no key":            {broker.Target{URL: url, TLS: broker.TLS{ClientCert: good}}, "client_key: is missing"},
		"no certificate":    {broker.Target{URL: url, TLS: broker.TLS{ClientKey: key}}, "client_cert: is missing"},
		"key of another":    {broker.Target{URL: url, TLS: broker.TLS{ClientCert: good, ClientKey: broker.Secret(other.Key)}}, "client_cert and client_key:"},
		"a key of no kind":  {broker.Target{URL: url, TLS: broker.TLS{ClientCert: good, ClientKey: "hidden"}}, "client_cert and client_key:"},
		"a locked key":      {broker.Target{URL: url, TLS: broker.TLS{ClientCert: good, ClientKey: broker.Secret(pem.EncodeToMemory(locked))}}, "client_key: is encrypted"},
		"a locked key (#8)": {broker.Target{URL: url, TLS: broker.TLS{ClientCert: good, ClientKey: broker.Secret(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY"}))}}, "client_key: is encrypted"},
		"no fingerprint":    {broker.Target{URL: url, TLS: broker.TLS{Fingerprint: "AB:CD"}}, "server_fingerprint: must be"},
		"a pin without TLS": {broker.Target{URL: "ws://h", TLS: broker.TLS{Fingerprint: broker.FingerprintOf(nil).String()}}, "server_fingerprint: can be used with"},
		"unused but wrong":  {broker.Target{URL: "mqtt://h", TLS: broker.TLS{CACert: "none"}}, "ca_cert: holds no PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := quick().Dial(c.target)
			if b != nil {
				t.Fatalf("Dial() = %v", b)
			}
			e := wantKind(t, err, broker.Invalid)
			if !strings.HasPrefix(e.Msg, c.want) {
				t.Errorf("Dial() = %q, want %q", e.Msg, c.want)
			}
			if strings.Contains(e.Msg, "hidden") {
				t.Errorf("the error shows a secret: %q", e.Msg)
			}
		})
	}
}
