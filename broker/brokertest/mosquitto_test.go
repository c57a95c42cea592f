package brokertest_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// connect logs in with plain paho, to test what the suite relies on.
func connect(url, username, password string, config *tls.Config) (mqtt.Client, error) {
	o := mqtt.NewClientOptions().AddBroker(url).SetUsername(username).SetPassword(password).
		SetProtocolVersion(4).SetAutoReconnect(false).SetConnectTimeout(suite.HangLimit).SetTLSConfig(config)
	c := mqtt.NewClient(o)
	token := c.Connect()
	token.Wait()
	return c, token.Error()
}

func TestMosquitto(t *testing.T) {
	t.Parallel()
	s := brokertest.Mosquitto(t, brokertest.WithTLS(), brokertest.WithWebSockets())
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.CA.PEM)
	for _, url := range []string{s.URL, s.TLSURL, s.WSURL, s.WSSURL} {
		c, err := connect(url, s.AdminUsername, string(s.AdminPassword), &tls.Config{RootCAs: pool})
		if err != nil {
			t.Fatalf("log in at %s: %v", url, err)
		}
		c.Disconnect(0)
		if _, err = connect(url, s.AdminUsername, "wrong", &tls.Config{RootCAs: pool}); err == nil {
			t.Errorf("a wrong password is let in at %s", url)
		}
	}
}

func TestMosquittoRestarts(t *testing.T) {
	t.Parallel()
	s := brokertest.Mosquitto(t)
	s.Stop(t)
	if _, err := connect(s.URL, s.AdminUsername, string(s.AdminPassword), nil); err == nil {
		t.Fatal("a stopped server lets the admin in")
	}
	s.Start(t)
	c, err := connect(s.URL, s.AdminUsername, string(s.AdminPassword), nil)
	if err != nil {
		t.Fatalf("log in after the restart: %v", err)
	}
	c.Disconnect(0)
}

func TestMosquittoWithClientCertificates(t *testing.T) {
	t.Parallel()
	s := brokertest.Mosquitto(t, brokertest.WithClientCertificates())
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.CA.PEM)
	if _, err := connect(s.TLSURL, s.AdminUsername, string(s.AdminPassword), &tls.Config{RootCAs: pool}); err == nil {
		t.Error("a client without a certificate is let in")
	}
	pair := s.CA.Issue(t, brokertest.CertOptions{Subject: "operator"})
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}
	c, err := connect(s.TLSURL, s.AdminUsername, string(s.AdminPassword), config)
	if err != nil {
		t.Fatalf("log in with a certificate: %v", err)
	}
	c.Disconnect(0)
}
