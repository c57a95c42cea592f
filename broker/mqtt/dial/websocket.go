package dial

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// webSocket carries MQTT in the binary messages of a WebSocket [MQTT-6.0.0-1]. Packets need
// not be aligned with messages [MQTT-6.0.0-2].
type webSocket struct {
	*websocket.Conn
	message io.Reader  // rest of the message being read
	writing sync.Mutex // guards writing
}

// upgradeError means that an HTTP server does not offer MQTT over WebSockets at the path.
type upgradeError struct {
	status int // of the HTTP response
}

func (e *upgradeError) Error() string {
	return fmt.Sprintf("the WebSocket handshake was answered with status %d", e.status)
}

// dialWebSocket performs the HTTP handshake over an existing connection, without a proxy.
func dialWebSocket(ctx context.Context, conn net.Conn, url string) (net.Conn, error) {
	reuse := func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	d := websocket.Dialer{NetDialContext: reuse, NetDialTLSContext: reuse, Subprotocols: []string{"mqtt"}}
	ws, resp, err := d.DialContext(ctx, url, nil)
	if err != nil && resp != nil {
		return nil, &upgradeError{status: resp.StatusCode}
	}
	if err != nil {
		return nil, err
	}
	return &webSocket{Conn: ws}, nil
}

// Read reads across message boundaries.
func (w *webSocket) Read(p []byte) (int, error) {
	for {
		if w.message == nil {
			kind, r, err := w.NextReader()
			if err != nil {
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, &ProtocolError{Connected: true}
			}
			w.message = r
		}
		n, err := w.message.Read(p)
		if err == io.EOF {
			w.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write sends p as one message.
func (w *webSocket) Write(p []byte) (int, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	if err := w.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// SetDeadline sets the deadlines for reading and writing.
func (w *webSocket) SetDeadline(t time.Time) error {
	if err := w.SetReadDeadline(t); err != nil {
		return err
	}
	return w.SetWriteDeadline(t)
}
