package conformance

import (
	"io"
	"net"
	"time"

	"github.com/gorilla/websocket"

	"signalbox/scripts/suite"
)

// stream is a connection as MQTT uses it: bytes in order.
type stream interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
}

// dialStream opens a TCP connection, with a WebSocket if ws is set.
func dialStream(addr string, ws bool) (stream, error) {
	if !ws {
		return net.DialTimeout("tcp", addr, suite.HangLimit)
	}
	dialer := websocket.Dialer{Subprotocols: []string{"mqtt"}, HandshakeTimeout: suite.HangLimit}
	conn, _, err := dialer.Dial("ws://"+addr+"/mqtt", nil)
	if err != nil {
		return nil, err
	}
	return &webSocket{Conn: conn}, nil
}

// webSocket is a stream of binary frames, whose boundaries have no meaning [MQTT-6.0.0-2].
type webSocket struct {
	*websocket.Conn
	frame io.Reader // the rest of the frame being read
}

// Read reads from one frame at a time.
func (w *webSocket) Read(p []byte) (int, error) {
	for {
		if w.frame == nil {
			_, r, err := w.NextReader()
			if err != nil {
				return 0, err
			}
			w.frame = r
		}
		n, err := w.frame.Read(p)
		if err == io.EOF {
			w.frame, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write sends one frame.
func (w *webSocket) Write(p []byte) (int, error) {
	if err := w.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// SetDeadline bounds reading and writing.
func (w *webSocket) SetDeadline(at time.Time) error {
	if err := w.SetReadDeadline(at); err != nil {
		return err
	}
	return w.SetWriteDeadline(at)
}
