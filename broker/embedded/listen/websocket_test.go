package listen_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"signalbox/broker/embedded/listen"
	"signalbox/scripts/suite"
)

func TestWebSocket(t *testing.T) {
	t.Parallel()
	ca, certs := newAuthority(t)
	r := serve(t, options{},
		listen.Config{Protocol: "ws"}, listen.Config{Protocol: "wss", CertFile: certs.cert, KeyFile: certs.key})
	for n, peer := range r.dialAll(ca) {
		web := peer.(*webPeer)
		if got := web.ws.Subprotocol(); got != "mqtt" {
			t.Errorf("listener %d: subprotocol %q", n, got)
		}
		for _, size := range []int{1, 125, 126, 127, 8000, 1 << 16, 1<<16 + 1, 1 << 20} {
			wantEcho(t, peer, strings.Repeat("0123456789", size/10+1)[:size])
		}
		pongs := make(chan string, 1)
		web.ws.SetPongHandler(func(data string) error { pongs <- data; return nil })
		if err := web.ws.WriteControl(websocket.PingMessage, []byte("there?"), time.Now().Add(suite.HangLimit)); err != nil {
			t.Fatal(err)
		}
		wantEcho(t, peer, "x") // the pong comes before
		if got := <-pongs; got != "there?" {
			t.Errorf("listener %d: pong %q", n, got)
		}
		c := r.next()
		if !c.WebSocket() || c.Raw() != nil {
			t.Errorf("listener %d: web socket %v, raw %v", n, c.WebSocket(), c.Raw())
		}
		bye := websocket.FormatCloseMessage(websocket.CloseGoingAway, "")
		if err := web.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(suite.HangLimit)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := web.ws.NextReader(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
			t.Errorf("listener %d: answered by %v", n, err)
		}
	}
}

// TestCloseSendsCloseMessages of WebSocket and of TLS, so that the client does not take the
// end for an error.
func TestCloseSendsCloseMessages(t *testing.T) {
	t.Parallel()
	ca, certs := newAuthority(t)
	r := serve(t, options{handle: func(*listen.Conn) {}}, allProtocols(t, certs)...)
	for n, peer := range r.dialAll(ca) {
		c := r.next()
		done := make(chan error)
		go func() { // reads as the owner does meanwhile
			_, err := c.Read(make([]byte, 10))
			done <- err
		}()
		c.Close()
		if err := <-done; err == nil {
			t.Errorf("listener %d: reads on", n)
		}
		_, err := peer.Read(make([]byte, 10))
		if _, web := peer.(*webPeer); web && !websocket.IsCloseError(err, websocket.CloseNormalClosure) || !web && !errors.Is(err, io.EOF) {
			t.Errorf("listener %d: %v", n, err)
		}
	}
}

// frame returns a client's frame: the first byte, a valid length and mask, and the payload.
func frame(first byte, payload string) string {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	mask := [4]byte{0xA1, 0x02, 0x73, 0x44}
	b = append(b, mask[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i%4])
	}
	return string(b)
}

// request returns a valid request of a web client, with changes.
func request(change ...string) string {
	return strings.NewReplacer(change...).Replace("GET /mqtt HTTP/1.1\r\nHost: broker.test\r\nConnection: keep-alive, Upgrade\r\n" +
		"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
		"Sec-WebSocket-Protocol: chat, mqttv3.1\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n")
}

// upgraded returns a connection with an open WebSocket, as raw bytes.
func (r *rig) upgraded(n int) net.Conn {
	r.t.Helper()
	peer := r.dial(n)
	io.WriteString(peer, request())
	wantHear(r.t, peer, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n")
	return peer
}

// TestPacketsNeedNotAlignWithFrames sends messages in parts and frames in pieces, with
// control frames in between.
func TestPacketsNeedNotAlignWithFrames(t *testing.T) {
	t.Parallel()
	heard := make(chan string, 100)
	collect := func(c *listen.Conn) {
		defer c.Close()
		all, err := io.ReadAll(c)
		if err != nil {
			t.Error(err)
		}
		heard <- string(all)
	}
	r := serve(t, options{handle: collect}, listen.Config{Protocol: "ws"})
	long := strings.Repeat("long", 40) + strings.Repeat("longer", 12_000)
	sent := frame(0x82, "one") + frame(0x02, "t") + frame(0x89, "ping 1") + frame(0x00, "") + frame(0x00, "w") +
		frame(0x8A, "") + frame(0x80, "o") + frame(0x82, "") + frame(0x89, "ping 2") + frame(0x82, long[:160]) + frame(0x82, long[160:]) +
		frame(0x88, "\x03\xe8bye")
	for _, size := range []int{1, 2, 3, 5, 7, 1000, len(sent)} {
		peer := r.upgraded(0)
		go bit(peer, sent, size)
		if got := <-heard; got != "onetwo"+long {
			t.Errorf("in pieces of %d: heard %d bytes, want %d", size, len(got), 6+len(long))
		}
		answers, err := io.ReadAll(peer)
		if err != nil {
			t.Fatal(err)
		}
		// Pings that arrive in one read may be answered once.
		end := "\x8a\x06ping 2\x88\x02\x03\xe8"
		if got := string(answers); got != end && got != "\x8a\x06ping 1"+end {
			t.Errorf("in pieces of %d: answered %q", size, got)
		}
	}
}

func TestBadFramesEndTheConnection(t *testing.T) {
	t.Parallel()
	r := serve(t, options{}, listen.Config{Protocol: "ws"})
	const protocolError, unsupported = 1002, 1003
	for name, c := range map[string]struct {
		sent string
		code uint16
	}{
		"text":                     {frame(0x81, "x"), unsupported},
		"not masked":               {"\x82\x01x", protocolError},
		"not masked and empty":     {"\x82\x00", protocolError},
		"reserved bit":             {frame(0xC2, "x"), protocolError},
		"opcode of data":           {frame(0x83, "x"), protocolError},
		"opcode of control":        {frame(0x8B, "x"), protocolError},
		"part of nothing":          {frame(0x80, "x"), protocolError},
		"message within a message": {frame(0x02, "") + frame(0x82, "x"), protocolError},
		"length too long":          {"\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00\x01\x02\x03\x04", protocolError},
		"ping in parts":            {frame(0x09, "x"), protocolError},
		"ping too long":            {frame(0x89, strings.Repeat("x", 126)), protocolError},
		"close of one byte":        {frame(0x88, "x"), protocolError},
		"close with no UTF-8":      {frame(0x88, "\x03\xe8\xff"), protocolError},
		"close code 999":           {frame(0x88, "\x03\xe7"), protocolError},
		"close code 1005":          {frame(0x88, "\x03\xed"), protocolError},
		"close code 2999":          {frame(0x88, "\x0b\xb7"), protocolError},
		"close code 5000":          {frame(0x88, "\x13\x88"), protocolError},
		"close code 4999":          {frame(0x88, "\x13\x87"), 4999},
		"close without code":       {frame(0x88, ""), 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := r.upgraded(0)
			io.WriteString(peer, frame(0x82, "hello"))
			wantHear(t, peer, "\x82\x05hello")
			io.WriteString(peer, c.sent)
			wantHear(t, peer, string(binary.BigEndian.AppendUint16([]byte{0x88, 2}, c.code)))
			wantClosed(t, peer)
		})
	}
}

// TestDataBeforeABadFrameIsRead, and only then the end.
func TestDataBeforeABadFrameIsRead(t *testing.T) {
	t.Parallel()
	r := serve(t, options{handle: func(*listen.Conn) {}}, listen.Config{Protocol: "ws"})
	peer := r.upgraded(0)
	io.WriteString(peer, frame(0x82, "last words")+frame(0x81, "x"))
	c := r.next()
	got, err := io.ReadAll(c)
	if string(got) != "last words" || err == nil {
		t.Errorf("read %q, %v", got, err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("there is an error to read: %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("written after a close frame: %v", err)
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	r := serve(t, options{}, listen.Config{Protocol: "ws", Path: "/mqtt"})
	lost := int64(0)
	for _, c := range []struct {
		sent string
		want int
	}{
		{request("/mqtt", "/other"), http.StatusNotFound},
		{request("GET", "POST"), http.StatusMethodNotAllowed},
		{request("HTTP/1.1", "HTTP/1.0"), http.StatusUpgradeRequired},
		{request("keep-alive, Upgrade", "close"), http.StatusUpgradeRequired},
		{request("websocket", "h2c"), http.StatusUpgradeRequired},
		{request("13", "8"), http.StatusUpgradeRequired},
		{request("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ="), http.StatusBadRequest},
		{request("dGhlIHNhbXBsZSBub25jZQ==", "?"), http.StatusBadRequest},
		{request() + frame(0x82, "early"), http.StatusBadRequest},
		{request("Host", "X: "+strings.Repeat("x", 20<<10)+"\r\nHost"), http.StatusRequestHeaderFieldsTooLarge},
		{request("broker.test", "broker.test\r\nOrigin: https://evil.test"), http.StatusForbidden},
	} {
		peer := r.dial(0)
		io.WriteString(peer, c.sent)
		answer, err := http.ReadResponse(bufio.NewReader(peer), nil)
		if err != nil {
			t.Errorf("%q: %v", c.sent[:20], err)
			continue
		}
		if answer.StatusCode != c.want || !answer.Close {
			t.Errorf("%q: %s", c.sent[:20], answer.Status)
		}
		io.Copy(io.Discard, answer.Body)
		wantClosed(t, peer)
		lost++
		r.wantLost("WebSocket", lost)
	}
	peer := r.dial(0)
	io.WriteString(peer, "\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00\r\n\r\n")
	wantClosed(t, peer)
}

func TestSubprotocols(t *testing.T) {
	t.Parallel()
	r := serve(t, options{}, listen.Config{Protocol: "ws"})
	for offered, want := range map[string][]string{
		"mqtt": {"mqtt"}, "mqttv3.1": {"mqttv3.1"}, "mqttv3.1, mqtt": {"mqtt"}, "chat": nil, "": nil,
	} {
		peer := r.dial(0)
		io.WriteString(peer, request("Sec-WebSocket-Protocol: chat, mqttv3.1\r\nSec-WebSocket-Protocol: mqtt\r\n",
			"Sec-WebSocket-Protocol: "+offered+"\r\n"))
		answer, err := http.ReadResponse(bufio.NewReader(peer), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := answer.Header.Values("Sec-WebSocket-Protocol"); answer.StatusCode != 101 || !slices.Equal(got, want) {
			t.Errorf("offered %q: %s, %q", offered, answer.Status, got)
		}
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	r := serve(t, options{},
		listen.Config{Protocol: "ws"},
		listen.Config{Protocol: "ws", Origins: []string{"https://panel.test"}},
		listen.Config{Protocol: "ws", Origins: []string{"*"}},
	)
	for _, c := range []struct {
		listener int
		origin   string
		want     int
	}{
		{0, "https://evil.test", 403}, {0, "http://Broker.Test", 101}, {0, "https://broker.test:8080", 403}, {0, "null", 403},
		{1, "https://evil.test", 403}, {1, "https://panel.test", 101}, {1, "https://broker.test", 403},
		{2, "https://evil.test", 101},
	} {
		peer := r.dial(c.listener)
		io.WriteString(peer, request("broker.test\r\n", "broker.test\r\nOrigin: "+c.origin+"\r\n"))
		answer, err := http.ReadResponse(bufio.NewReader(peer), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("listener %d, origin %q: %s", c.listener, c.origin, answer.Status)
		}
	}
}
