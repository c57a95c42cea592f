package apitest_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/handlers"
	"signalbox/router/apitest"
)

// TestLicenseOfTheEmbeddedBroker names every feature, in both responses.
func TestLicenseOfTheEmbeddedBroker(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	var l broker.License
	api.Root.Get(api.At("/license")).Want(200).Decode(&l)
	features := brokerRecord(api, api.Embedded).Capabilities
	for _, want := range []broker.Capability{broker.CapDynamicSecurity, broker.CapInspect, broker.CapListeners, broker.CapLicense,
		broker.CapClientControl, broker.CapMessages, broker.CapSubscriptions, broker.CapAccessCheck, broker.CapDenials, broker.CapBans} {
		if !slices.Contains(l.Features, string(want)) || !slices.Contains(features, want) {
			t.Errorf("%s is missing in %q, or in %q", want, l.Features, features)
		}
	}
	if l.Edition != "embedded" || len(l.Features) != len(features) {
		t.Errorf("licence: %+v", l)
	}
	var info handlers.BrokerInfo
	api.Root.Get(api.At("/info")).Want(200).Decode(&info)
	if diff := cmp.Diff(l, info.LicenseInfo); diff != "" {
		t.Errorf("licence in the info (-licence +info):\n%s", diff)
	}
}

// TestListenersWithCertificates shows all listeners with their certificates.
func TestListenersWithCertificates(t *testing.T) {
	t.Parallel()
	p := issueCertificates(t)
	api := everyListener(t, p)
	block, _ := pem.Decode(p.server.Cert)
	sum := sha256.Sum256(block.Bytes)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	join(t, api, 5, "c", asAdmin) // at the first listener
	var got []broker.Listener
	api.Root.Get(api.At("/listeners")).Want(200).Decode(&got)
	var want []broker.Listener
	for i, l := range []broker.Listener{{Protocol: "mqtt"}, {Protocol: "mqtt", TLS: true, RequireCertificate: true}, {Protocol: "mqtt", TLS: true},
		{Protocol: "mqtt+websockets"}, {Protocol: "mqtt+websockets", TLS: true},
		{Protocol: "mqtt", BindAddress: strings.TrimPrefix(api.Listeners[5], "unix://")}} {
		l.ID, l.Certs, l.Connections = i+1, []broker.ListenerCert{}, new(0)
		if l.BindAddress == "" {
			l.Port, l.BindAddress = portOf(t, api.Listeners[i]), "127.0.0.1"
		}
		if i == 0 {
			*l.Connections = 1
		}
		if l.TLS {
			l.Certs = append(l.Certs, broker.ListenerCert{CertificateID: hex.EncodeToString(sum[:]), Name: "broker", Filename: "cert.pem",
				NotAfter: cert.NotAfter.UnixMilli()})
		}
		want = append(want, l)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
}
