package embedded

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"

	"signalbox/broker/embedded/listen"
)

// certificates are a self-signed certificate that is server, client and authority at once.
type certificates struct {
	cert, key, fingerprint string
	pair                   tls.Certificate
	pool                   *x509.CertPool
}

func newCertificates(t *testing.T) certificates {
	t.Helper()
	return newCertificatesUntil(t, time.Now().Add(time.Hour))
}

func newCertificatesUntil(t *testing.T, end time.Time) certificates {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(der)
	c := certificates{
		cert: writePEM(t, "cert.pem", "CERTIFICATE", der), key: writePEM(t, "key.pem", "PRIVATE KEY", pkcs8),
		fingerprint: hex.EncodeToString(sum[:]), pool: x509.NewCertPool(),
	}
	if c.pair, err = tls.LoadX509KeyPair(c.cert, c.key); err != nil {
		t.Fatal(err)
	}
	c.pool.AddCert(c.pair.Leaf)
	return c
}

func writePEM(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestListenersWithTLS(t *testing.T) {
	t.Parallel()
	files := newCertificates(t)
	b := start(t, func(c *Config) {
		c.Listeners = []listen.Config{
			{Protocol: "mqtts", Address: "127.0.0.1:0", CertFile: files.cert, KeyFile: files.key},
			{
				Protocol: "mqtts", Address: "127.0.0.1:0", CertFile: files.cert, KeyFile: files.key,
				CAFile: files.cert, RequireCertificate: true,
			},
		}
	})
	trusting := &tls.Config{RootCAs: files.pool}
	identified := &tls.Config{RootCAs: files.pool, Certificates: []tls.Certificate{files.pair}}
	for i, c := range []*tls.Config{trusting, identified} {
		d := dialTLS(t, b.Addrs()[i+1], c, 5)
		if got := d.SendConnect(as(adminName, adminPassword)).Reason; got != 0 {
			t.Errorf("listener %d: CONNACK code %d", i, got)
		}
		if got := d.Publish("x", "", 1); got != 16 {
			t.Errorf("listener %d: PUBACK code %d", i, got)
		}
	}
	stranger, err := tls.Dial("tcp", b.Addrs()[2], trusting)
	if err != nil {
		t.Fatal(err) // TLS 1.3 refuses with the first read
	}
	defer stranger.Close()
	if _, err := io.ReadAll(stranger); err == nil {
		t.Error("a client without certificate was admitted")
	}
	old := &tls.Config{RootCAs: files.pool, MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11}
	if conn, err := tls.Dial("tcp", b.Addrs()[1], old); err == nil {
		conn.Close()
		t.Error("TLS 1.1 was taken")
	}
}

func TestListListeners(t *testing.T) {
	t.Parallel()
	files := newCertificates(t)
	b := start(t, func(c *Config) {
		c.Listeners = []listen.Config{{
			Protocol: "wss", Address: "127.0.0.1:0", CertFile: files.cert, KeyFile: files.key,
			CAFile: files.cert, RequireCertificate: true,
		}}
	})
	dial(t, b, 5).Connect(as(adminName, adminPassword))
	got, err := b.ListListeners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ports []int
	for i, l := range got {
		if l.Port == 0 {
			t.Errorf("listener %d has no port", i)
		}
		ports = append(ports, l.Port)
	}
	want := []broker.Listener{
		{ID: 1, Port: ports[0], BindAddress: "127.0.0.1", Protocol: "mqtt", Certs: []broker.ListenerCert{}, Connections: new(1)},
		{
			ID: 2, Port: ports[1], BindAddress: "127.0.0.1", Protocol: "mqtt+websockets", TLS: true, RequireCertificate: true,
			Certs:       []broker.ListenerCert{{CertificateID: files.fingerprint, Name: "broker.test", Filename: "cert.pem", NotAfter: files.pair.Leaf.NotAfter.UnixMilli()}},
			Connections: new(0),
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// webDevice opens a WebSocket and sends nothing.
func webDevice(t *testing.T, url string, c *tls.Config, version byte) *device {
	t.Helper()
	return &device{mqtttest.Dial(t, url, c, version)}
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	files := newCertificates(t)
	b := start(t, func(c *Config) {
		c.Listen = ""
		c.Listeners = []listen.Config{
			{Protocol: "ws", Address: "127.0.0.1:0"},
			{Protocol: "wss", Address: "127.0.0.1:0", CertFile: files.cert, KeyFile: files.key},
		}
	})
	for i, url := range []string{"ws://" + b.Addrs()[0], "wss://" + b.Addrs()[1] + "/mqtt"} {
		d := webDevice(t, url, &tls.Config{RootCAs: files.pool}, byte(4+i))
		if got := d.SendConnect(as(adminName, adminPassword), withID(url)).Reason; got != 0 {
			t.Fatalf("%s: CONNACK code %d", url, got)
		}
		d.Subscribe(1, "big")
		payload := string(bytes.Repeat([]byte("x"), 100_000)) // more than one frame's buffer
		d.Send(d.Message("big", payload, 0, false))
		if got := d.Want(packet.Publish); string(got.Payload) != payload {
			t.Errorf("%s: %d bytes returned", url, len(got.Payload))
		}
		d.Subscribe(1, "a", "b")
	}
	if got := b.engine.Addresses(adminName); len(got) != 2 || got[0] != "127.0.0.1" {
		t.Errorf("addresses %q", got)
	}
}

func TestWebSocketPacketsNeedNotEndWithFrames(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) {
		c.Listeners = []listen.Config{{Protocol: "ws", Address: "127.0.0.1:0"}}
	})
	d := webDevice(t, "ws://"+b.Addrs()[1], nil, 4)
	for _, c := range connectBytes(4, as(adminName, adminPassword)) {
		d.SendBytes(c)
	}
	if got := d.Want(packet.Connack).Reason; got != 0 {
		t.Errorf("CONNACK code %d", got)
	}
	text := webDevice(t, "ws://"+b.Addrs()[1], nil, 4)
	if err := text.Conn.(*mqtttest.WebSocket).Socket.WriteMessage(websocket.TextMessage, []byte("x")); err != nil {
		t.Fatal(err)
	}
	text.wantCrash()
}

func TestWebSocketOrigins(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) {
		c.Listeners = []listen.Config{
			{Protocol: "ws", Address: "127.0.0.1:0"},
			{Protocol: "ws", Address: "127.0.0.1:0", Origins: []string{"https://panel.test"}},
			{Protocol: "ws", Address: "127.0.0.1:0", Origins: []string{"*"}},
		}
	})
	for _, c := range []struct {
		listener int
		origin   string
		allowed  bool
	}{
		{1, "", true}, {1, "https://evil.test", false}, {1, "http://" + b.Addrs()[1], true},
		{2, "", true}, {2, "https://evil.test", false}, {2, "https://panel.test", true},
		{3, "https://evil.test", true},
	} {
		header := http.Header{}
		if c.origin != "" {
			header.Set("Origin", c.origin)
		}
		ws, answer, err := websocket.DefaultDialer.Dial("ws://"+b.Addrs()[c.listener], header)
		if answer != nil {
			answer.Body.Close()
		}
		if (err == nil) != c.allowed {
			t.Errorf("listener %d, origin %q: error %v", c.listener, c.origin, err)
		}
		if err == nil {
			ws.Close()
		}
	}
}
