package listen_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"io"
	"iter"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorilla/websocket"

	"signalbox/broker/brokertest"
	"signalbox/broker/embedded/listen"
)

// newAuthority creates an authority and a listener's certificate files signed by it.
func newAuthority(t *testing.T) (*brokertest.CA, files) {
	t.Helper()
	ca := brokertest.NewCA(t)
	return ca, newFiles(t, ca)
}

// fingerprint returns the SHA-256 of the certificate.
func (f files) fingerprint(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(f.cert)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:])
}

// allProtocols returns a listener of each protocol.
func allProtocols(t *testing.T, f files) []listen.Config {
	t.Helper()
	return []listen.Config{
		{Protocol: "mqtt"},
		{Protocol: "unix", Address: filepath.Join(t.TempDir(), "socket")},
		{Protocol: "mqtts", CertFile: f.cert, KeyFile: f.key},
		{Protocol: "ws"},
		{Protocol: "wss", CertFile: f.cert, KeyFile: f.key},
	}
}

// dialAll connects to the listener of each protocol, one after the other.
func (r *rig) dialAll(ca *brokertest.CA) iter.Seq2[int, net.Conn] {
	return func(yield func(int, net.Conn) bool) {
		for n, l := range r.Listeners() {
			if !yield(n, r.open(r.dial(n), l.Config().Protocol, ca)) {
				return
			}
		}
	}
}

// open does a protocol's handshakes on a connection.
func (r *rig) open(c net.Conn, protocol string, ca *brokertest.CA) net.Conn {
	r.t.Helper()
	if protocol == "mqtts" || protocol == "wss" {
		secured := tls.Client(c, trusting(ca))
		if err := secured.HandshakeContext(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
		c = secured
	}
	if protocol == "ws" || protocol == "wss" {
		return r.webSocket(c)
	}
	return c
}

// webSocket opens a WebSocket.
func (r *rig) webSocket(c net.Conn) *webPeer {
	r.t.Helper()
	dialer := websocket.Dialer{
		Subprotocols: []string{"mqtt"},
		NetDial:      func(string, string) (net.Conn, error) { return c, nil },
	}
	ws, answer, err := dialer.Dial("ws://broker.test/mqtt", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	answer.Body.Close()
	return &webPeer{Conn: c, ws: ws}
}

// webPeer is the client side of a WebSocket, by another implementation, as a stream.
type webPeer struct {
	net.Conn
	ws    *websocket.Conn
	frame io.Reader
}

func (p *webPeer) Write(b []byte) (int, error) {
	return len(b), p.ws.WriteMessage(websocket.BinaryMessage, b)
}

func (p *webPeer) Read(b []byte) (n int, err error) {
	for {
		if p.frame == nil {
			if _, p.frame, err = p.ws.NextReader(); err != nil {
				p.frame = nil
				return 0, err
			}
		}
		n, err = p.frame.Read(b)
		if err == io.EOF {
			p.frame, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}
