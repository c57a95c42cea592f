package bridges_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges"
)

// pair returns a certificate and its key in PEM.
func pair(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	encode := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, key := pair(t)
	_, other := pair(t)
	locked := string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")}))
	var problems bridges.Problems
	var none *bridges.TLS
	if none.Config("h", "tls", &problems) != nil || (&bridges.TLS{CACertificate: "x"}).Config("h", "tls", &problems) != nil || problems != nil {
		t.Errorf("without TLS there is a configuration, or %v", problems)
	}
	c := (&bridges.TLS{Enabled: true, CACertificate: certificate, ClientCertificate: certificate, ClientKey: key}).Config("h", "tls", &problems)
	if c.ServerName != "h" || c.InsecureSkipVerify || c.RootCAs == nil || len(c.Certificates) != 1 || problems != nil {
		t.Errorf("got %+v, %v", c, problems)
	}
	c = (&bridges.TLS{Enabled: true, Verify: new(false), ServerName: "s"}).Config("h", "tls", &problems)
	if c.ServerName != "s" || !c.InsecureSkipVerify || c.RootCAs != nil || len(c.Certificates) != 0 || problems != nil {
		t.Errorf("got %+v, %v", c, problems)
	}
	for _, bad := range []bridges.TLS{
		{ClientCertificate: certificate}, {ClientKey: key}, {ClientCertificate: certificate, ClientKey: other},
		{ClientCertificate: certificate, ClientKey: locked}, {CACertificate: key},
	} {
		bad.Enabled = true
		bad.Config("h", "tls", &problems)
	}
	want := bridges.Problems{
		{Path: "tls.clientKey", Msg: "is missing beside clientCertificate"},
		{Path: "tls.clientCertificate", Msg: "is missing beside clientKey"},
		{Path: "tls.clientKey", Msg: "is not the private key of clientCertificate, or one of them is not PEM"},
		{Path: "tls.clientKey", Msg: "is encrypted; give the key without a pass phrase"},
		{Path: "tls.caCertificate", Msg: "contains no certificate in PEM"},
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	into := struct {
		Connection struct {
			Port int `json:"port"`
		} `json:"connection"`
		Kept string `json:"kept"`
	}{Kept: "as it was"}
	if p := bridges.Decode([]byte(`{"name":"c","connection":{"port":7,"more":1}}`), &into); p != nil || into.Connection.Port != 7 || into.Kept != "as it was" {
		t.Errorf("got %+v, %v", into, p)
	}
	want := bridges.Problems{{Path: "connection.port", Msg: "is a string, which cannot be used here"}}
	if diff := cmp.Diff(want, bridges.Decode([]byte(`{"connection":{"port":"x"}}`), &into)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
