package flood

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// link is a connection to the broker, at whatever stage.
type link struct {
	net.Conn
	r  *packet.Reader
	id uint16 // the packet identifier used last
}

// dial connects from an address of this machine.
func dial(ctx context.Context, to, from string) (*link, error) {
	d := net.Dialer{Timeout: suite.HangLimit, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	return newLink(conn), nil
}

func newLink(conn net.Conn) *link {
	return &link{Conn: conn, r: packet.NewReader(conn, 16<<10)}
}

// dialSmallBuffer dials with a small receive buffer: a link that is not read stalls
// its writer soon.
func dialSmallBuffer(ctx context.Context, to, from string) (*link, error) {
	l, err := dial(ctx, to, from)
	if err != nil {
		return nil, err
	}
	return l, l.Conn.(*net.TCPConn).SetReadBuffer(4 << 10) //nolint:forcetypeassert // it was dialled so
}

// want reads packets until one of a kind comes, and returns its body.
func (l *link) want(kind byte) ([]byte, error) {
	for {
		first, body, err := l.r.Next()
		if err != nil {
			return nil, err
		}
		if packet.Kind(first) == packet.Kind(kind) {
			return body, nil
		}
	}
}

// logIn sends CONNECT and waits for a CONNACK that accepts it.
func (l *link) logIn(as packet.Login) error {
	if _, err := l.Write(packet.AppendConnect(nil, as)); err != nil {
		return err
	}
	ack, err := l.want(packet.Connack)
	if err != nil {
		return err
	}
	if len(ack) < 2 || ack[1] != 0 {
		return fmt.Errorf("refused: %x", ack)
	}
	return nil
}

// logInFive is logIn with MQTT 5, no clean start and a session expiry in seconds.
func (l *link) logInFive(as packet.Login, expiry uint32) error {
	if _, err := l.Write(connectFive(as, expiry)); err != nil {
		return err
	}
	ack, err := l.want(packet.Connack)
	if err != nil {
		return err
	}
	if len(ack) < 2 || ack[1] != 0 {
		return fmt.Errorf("refused: %x", ack)
	}
	return nil
}

func connectFive(as packet.Login, expiry uint32) []byte {
	body := append([]byte{0, 4, 'M', 'Q', 'T', 'T', 5, 0xc0, 0, 0, 5, 0x11}, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(body[12:], expiry)
	for _, text := range []string{as.ClientID, as.Username, as.Password} {
		body = append(binary.BigEndian.AppendUint16(body, uint16(len(text))), text...)
	}
	return append(binary.AppendUvarint([]byte{packet.Connect}, uint64(len(body))), body...)
}

// next returns the next packet identifier.
func (l *link) next() uint16 {
	if l.id++; l.id == 0 {
		l.id = 1
	}
	return l.id
}

// subscribe sends SUBSCRIBE and waits for its acknowledgement.
func (l *link) subscribe(filter string, qos byte) error {
	if _, err := l.Write(packet.AppendSubscribe(nil, l.next(), filter, qos)); err != nil {
		return err
	}
	ack, err := l.want(packet.Suback)
	if err != nil {
		return err
	}
	if len(ack) != 3 || ack[2] > 2 {
		return fmt.Errorf("not subscribed to %s: %x", filter, ack)
	}
	return nil
}

// drain reads until the broker ends the connection.
func (l *link) drain() error {
	_, err := io.Copy(io.Discard, l.Conn)
	return err
}

// writeSlowly writes byte by byte.
func (l *link) writeSlowly(ctx context.Context, b []byte, apart time.Duration) error {
	tick := time.NewTicker(apart)
	defer tick.Stop()
	for i := range b {
		if _, err := l.Write(b[i : i+1]); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// webSocket is a minimal client side of a WebSocket: each write is a frame, with a mask
// of zeroes.
type webSocket struct {
	net.Conn
	left int // of the frame that is being read
}

const upgradeRequest = "GET /mqtt HTTP/1.1\r\nHost: broker\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"

// upgrade opens a WebSocket over an unused link.
func upgrade(l *link, err error) (*link, error) {
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(l, upgradeRequest); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	var response []byte
	for one := make([]byte, 1); !bytes.HasSuffix(response, []byte("\r\n\r\n")); response = append(response, one...) {
		if _, err := io.ReadFull(l, one); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if !bytes.HasPrefix(response, []byte("HTTP/1.1 101 ")) {
		return nil, errors.Join(fmt.Errorf("no WebSocket: %s", response), l.Close())
	}
	return newLink(&webSocket{Conn: l.Conn}), nil
}

// Write sends a frame.
func (w *webSocket) Write(p []byte) (int, error) {
	if _, err := w.Conn.Write(append(frameHead(0x82, uint64(len(p))), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// frameHead returns the head of a client's frame [RFC 6455, 5.2].
func frameHead(first byte, length uint64) []byte {
	head := []byte{first, 0x80 | 127}
	head = binary.BigEndian.AppendUint64(head, length)
	return append(head, 0, 0, 0, 0)
}

// Read reads the payload of the broker's frames, of every kind.
func (w *webSocket) Read(p []byte) (int, error) {
	for w.left == 0 {
		var head [2]byte
		if _, err := io.ReadFull(w.Conn, head[:]); err != nil {
			return 0, err
		}
		w.left = int(head[1])
		more := map[byte]int{126: 2, 127: 8}[head[1]]
		if more == 0 {
			continue
		}
		var length [8]byte
		if _, err := io.ReadFull(w.Conn, length[8-more:]); err != nil {
			return 0, err
		}
		w.left = int(binary.BigEndian.Uint64(length[:]))
	}
	n, err := w.Conn.Read(p[:min(len(p), w.left)])
	w.left -= n
	return n, err
}
