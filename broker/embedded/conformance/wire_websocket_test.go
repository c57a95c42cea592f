package conformance

import (
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// overWebSocket runs a test once for each broker, in MQTT 5, with a WebSocket that it opens
// by itself.
func overWebSocket(t *testing.T, test func(s *scene), opts ...option) {
	t.Helper()
	play(t, onlyFive, func(s *scene) {
		if s.ws == (s.subject.kind == kindEmbedded) {
			test(s)
		}
	}, append(opts, func(o *options) { o.mosquitto = append(o.mosquitto, brokertest.WithWebSockets()) })...)
}

func (s *scene) upgrade(header http.Header, protocols ...string) (*websocket.Conn, *http.Response, error) {
	s.Helper()
	dialer := websocket.Dialer{Subprotocols: protocols, HandshakeTimeout: suite.HangLimit}
	conn, answer, err := dialer.Dial("ws://"+s.subject.ws+"/mqtt", header)
	if err != nil {
		return nil, answer, err
	}
	conn.SetReadDeadline(time.Now().Add(suite.HangLimit)) //nolint:errcheck // using a closed connection shows it
	s.Cleanup(func() { conn.Close() })
	return conn, answer, nil
}

func (s *scene) mustUpgrade(protocols ...string) *websocket.Conn {
	s.Helper()
	conn, _, err := s.upgrade(nil, protocols...)
	if err != nil {
		s.Fatalf("upgrade: %v", err)
	}
	return conn
}

// TestWebSocketSubprotocol shows [MQTT-6.0.0-4]: the response names the subprotocol "mqtt".
func TestWebSocketSubprotocol(t *testing.T) {
	overWebSocket(t, func(s *scene) {
		for _, offered := range [][]string{{"mqtt"}, {"other", "mqtt"}, {"mqtt", "mqttv3.1"}} {
			if got := s.mustUpgrade(offered...).Subprotocol(); got != "mqtt" {
				s.Errorf("offered %q, got %q", offered, got)
			}
		}
		if got := s.mustUpgrade("mqttv3.1").Subprotocol(); got != "mqttv3.1" && !s.on(kindMosquitto) {
			s.Errorf("offered mqttv3.1, got %q", got)
		}
	})
}

// TestWebSocketTextFrame shows [MQTT-6.0.0-1]: MQTT uses binary frames, and any other frame
// ends the connection.
func TestWebSocketTextFrame(t *testing.T) {
	overWebSocket(t, func(s *scene) {
		conn := s.mustUpgrade("mqtt")
		if err := conn.WriteMessage(websocket.TextMessage, connect{version: v5, clientID: s.id("a")}.bytes()); err != nil {
			s.Fatal(err)
		}
		if kind, p, err := conn.ReadMessage(); err == nil {
			s.Errorf("got a frame of type %d: % x", kind, p)
		} else if stillOpen(err) {
			s.Error("the connection is open still")
		}
	}, notOn(kindMosquitto, "2.0.11 does not look at the type of a frame"))
}

// TestWebSocketBinaryFrames shows [MQTT-6.0.0-1] from the other side: the server sends
// binary frames.
func TestWebSocketBinaryFrames(t *testing.T) {
	overWebSocket(t, func(s *scene) {
		conn := s.mustUpgrade("mqtt")
		if err := conn.WriteMessage(websocket.BinaryMessage, connect{version: v5, clientID: s.id("a")}.bytes()); err != nil {
			s.Fatal(err)
		}
		if kind, p, err := conn.ReadMessage(); err != nil || kind != websocket.BinaryMessage || p[0] != typeConnack {
			s.Errorf("got a frame of type %d: % x, %v", kind, p, err)
		}
	})
}

// TestWebSocketFragments shows [MQTT-6.0.0-2]: a message of several frames, with a ping in
// between and with empty ones, is a part of the stream like any other.
func TestWebSocketFragments(t *testing.T) {
	overWebSocket(t, func(s *scene) {
		conn := s.mustUpgrade("mqtt")
		w, err := conn.NextWriter(websocket.BinaryMessage)
		if err != nil {
			s.Fatal(err)
		}
		packets := cat(connect{version: v5, clientID: s.id("a")}.bytes(), pingreq())
		for i := range packets {
			if _, err := w.Write(packets[i : i+1]); err != nil {
				s.Fatal(err)
			}
		}
		if err := conn.WriteControl(websocket.PingMessage, []byte("still there?"), time.Now().Add(suite.HangLimit)); err != nil {
			s.Fatal(err)
		}
		if err := w.Close(); err != nil {
			s.Fatal(err)
		}
		if err := conn.WriteMessage(websocket.BinaryMessage, nil); err != nil {
			s.Fatal(err)
		}
		c := &client{scene: s, conn: &webSocket{Conn: conn}}
		c.startReading()
		if p := c.next(); p.kind() != typeConnack || p.reason() != success {
			s.Fatalf("got %v, want CONNACK", p)
		}
		c.expect(pingresp())
		c.expectPong()
	})
}

// TestWebSocketPaths shows that a client may ask for the path it is used to.
func TestWebSocketPaths(t *testing.T) {
	overWebSocket(t, func(s *scene) {
		for _, path := range []string{"/mqtt", "/"} {
			conn, _, err := (&websocket.Dialer{Subprotocols: []string{"mqtt"}}).Dial("ws://"+s.subject.ws+path, nil)
			if err != nil {
				s.Errorf("%s: %v", path, err)
				continue
			}
			conn.Close()
		}
	})
}
