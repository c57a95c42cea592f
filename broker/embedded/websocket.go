package embedded

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/websocket"
)

// maxHeaderBytes bounds the HTTP request that asks for a WebSocket.
const maxHeaderBytes = 16 << 10

var errTextFrame = errors.New("MQTT over WebSocket takes binary frames only")

// webSocketServer answers requests for a WebSocket, whatever their path, and
// makes the connection an MQTT one [MQTT-6.0.0].
func (b *Broker) webSocketServer(l *listener) *http.Server {
	upgrader := &websocket.Upgrader{
		HandshakeTimeout: b.config.ConnectTimeout,
		Subprotocols:     []string{"mqtt", "mqttv3.1"},
		CheckOrigin:      l.originAllowed(),
	}
	return &http.Server{
		ReadHeaderTimeout: b.config.ConnectTimeout,
		IdleTimeout:       b.config.ConnectTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := upgrader.Upgrade(w, r, nil) // answers for itself on error
			if err != nil {
				b.log.Debug("no WebSocket", "remote", r.RemoteAddr, "error", err)
				return
			}
			b.welcome(l, ws)
		}),
	}
}

// welcome turns a WebSocket into a connection of the broker.
func (b *Broker) welcome(l *listener, ws *websocket.Conn) {
	ws.SetReadDeadline(time.Now().Add(b.config.ConnectTimeout)) //nolint:errcheck // its reader will see
	b.connect(newLink(l, &stream{Conn: ws.NetConn(), ws: ws}))
}

// originAllowed decides which web pages may connect: those of the listener's
// own host, and those configured. Clients that are no browser send no origin.
func (l *listener) originAllowed() func(*http.Request) bool {
	origins := l.config.Origins
	if len(origins) == 0 {
		return nil // the upgrader's rule: same host
	}
	return func(r *http.Request) bool {
		origin := r.Header.Get("Origin")
		return origin == "" || slices.Contains(origins, "*") || slices.Contains(origins, origin)
	}
}

// stream is a WebSocket as a stream of bytes: packets need not end where frames
// do [MQTT-6.0.0-2].
type stream struct {
	net.Conn // the connection beneath, for addresses and deadlines
	ws       *websocket.Conn
	frame    io.Reader // what is left of the frame being read; nil between frames
}

// Read reads from the frame under way or the next one.
func (s *stream) Read(p []byte) (int, error) {
	for {
		if s.frame == nil {
			if err := s.nextFrame(); err != nil {
				return 0, err
			}
		}
		n, err := s.frame.Read(p)
		if errors.Is(err, io.EOF) {
			s.frame, err = nil, nil
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

func (s *stream) nextFrame() error {
	kind, frame, err := s.ws.NextReader()
	if err != nil {
		return err
	}
	if kind != websocket.BinaryMessage {
		return errTextFrame // [MQTT-6.0.0-1]
	}
	s.frame = frame
	return nil
}

// Write sends p as one frame. It must not be called concurrently.
func (s *stream) Write(p []byte) (int, error) {
	if err := s.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
