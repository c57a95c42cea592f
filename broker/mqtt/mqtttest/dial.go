package mqtttest

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"testing"

	"github.com/gorilla/websocket"

	"signalbox/scripts/suite"
)

// Dial connects to a listener and sends nothing yet. The URL has the scheme mqtt, mqtts,
// unix, ws or wss; config is for those with TLS.
func Dial(t testing.TB, listener string, config *tls.Config, version byte) *Client {
	t.Helper()
	conn, err := open(t, listener, config)
	if err != nil {
		t.Fatalf("connect to %s: %v", listener, err)
	}
	return New(t, conn, version)
}

func open(t testing.TB, listener string, config *tls.Config) (net.Conn, error) {
	t.Helper()
	u, err := url.Parse(listener)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "mqtts":
		return tls.Dial("tcp", u.Host, config)
	case "unix":
		return net.Dial("unix", u.Path)
	case "ws", "wss":
		return openWebSocket(t, listener, config)
	}
	return net.Dial("tcp", u.Host)
}

func openWebSocket(t testing.TB, listener string, config *tls.Config) (net.Conn, error) {
	t.Helper()
	dialer := websocket.Dialer{TLSClientConfig: config, Subprotocols: []string{"mqtt"}, HandshakeTimeout: suite.HangLimit}
	ws, response, err := dialer.DialContext(t.Context(), listener, nil)
	if err != nil {
		return nil, err
	}
	response.Body.Close()
	if got := ws.Subprotocol(); got != "mqtt" {
		return nil, errors.Join(errors.New("the broker chose the subprotocol "+got), ws.Close())
	}
	return &WebSocket{Conn: ws.NetConn(), Socket: ws}, nil
}

// WebSocket is a connection whose bytes are in binary messages of a WebSocket.
type WebSocket struct {
	net.Conn // the underlying connection, for addresses and deadlines
	Socket   *websocket.Conn
	message  io.Reader // the rest of the message that is being read; nil between messages
}

func (w *WebSocket) Read(p []byte) (int, error) {
	for {
		if w.message == nil {
			var err error
			if _, w.message, err = w.Socket.NextReader(); err != nil {
				return 0, err
			}
		}
		n, err := w.message.Read(p)
		if errors.Is(err, io.EOF) {
			w.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (w *WebSocket) Write(p []byte) (int, error) {
	return len(p), w.Socket.WriteMessage(websocket.BinaryMessage, p)
}
