package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"signalbox/broker/mqtt/packet"
)

const (
	// maxPacket bounds a packet from the broker, in bytes. An MQTT 5 broker is told so; a
	// longer message of an older one is acknowledged and discarded.
	maxPacket = 64 << 20

	// maxPublishHeader is the maximum size of a PUBLISH before its payload in MQTT 3.1.1.
	maxPublishHeader = 2 + 65535 + 2

	// receiveMaximum is the number of unacknowledged messages above QoS 0 that an MQTT 5
	// broker may send.
	receiveMaximum = 2048

	// closeTimeout is how long a broker may take to close the connection after DISCONNECT.
	closeTimeout = 2 * time.Second

	// defaultSessionExpiry is in seconds. In MQTT 3.1.1 sessions do not expire.
	defaultSessionExpiry = 3600
)

// errReadTimeout means that the broker sends nothing, although pinged.
var errReadTimeout = errors.New("the broker has sent nothing for too long")

// conn is a connection, from CONNACK to its end. Only the goroutine of serve reads; out is
// safe for concurrent use.
type conn struct {
	net.Conn
	serving context.Context // ends before others use the session
	version byte
	connack connack
	out     *sendQueue
	in      *bufio.Reader
	body    []byte // of the latest packet
	timing  Timing

	lastPackets func(dst []byte) []byte // appended by serve at the end
}

// connectParams are the parameters of a connection that differ by session.
type connectParams struct {
	serving      context.Context // of the connection; nil if it does not end with one
	clientID     string
	clean        bool // discard the existing session
	keep         bool // keep the session after the connection
	cleanIfV311  bool // discard it if it would never expire
	publishState bool // publish the connection state, by the Will
}

// dial connects with MQTT 5, or with 3.1.1 if the broker does not support 5.
func (f *Client) dial(ctx context.Context, p connectParams) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timing.Connect)
	defer cancel()
	if v := f.options.Session.Version; v != 0 {
		return f.connectVersion(ctx, v, p)
	}
	c, err := f.connectVersion(ctx, packet.V5, p)
	if f.negotiation.useV311(err) {
		return f.connectVersion(ctx, packet.V311, p)
	}
	return c, err
}

// versionNegotiation records which versions a broker supports.
type versionNegotiation struct {
	spokeV5     atomic.Bool  // the broker has accepted MQTT 5
	closedEarly atomic.Int32 // consecutive MQTT 5 attempts in which it closed the connection
}

// useV311 reports whether an MQTT 5 attempt failed because the broker does not support it: by
// its CONNACK, or by closing the connection twice in a row without ever having accepted MQTT
// 5. Closing once may have another cause.
func (k *versionNegotiation) useV311(err error) bool {
	refusal, refused := errors.AsType[*ConnackError](err)
	switch {
	case err == nil:
		k.spokeV5.Store(true)
	case refused:
		return refusal.Code == 1 || refusal.Code == packet.ReasonUnsupportedVersion
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return k.closedEarly.Add(1) > 1 && !k.spokeV5.Load()
	}
	k.closedEarly.Store(0)
	return false
}

// undecided reports whether the broker closed the latest MQTT 5 attempt, which is not enough to
// conclude that it does not support MQTT 5.
func (k *versionNegotiation) undecided() bool {
	return k.closedEarly.Load() == 1 && !k.spokeV5.Load()
}

// connectVersion opens a connection and exchanges CONNECT and CONNACK.
func (f *Client) connectVersion(ctx context.Context, version byte, p connectParams) (*conn, error) {
	raw, err := f.options.Open(ctx)
	if err != nil {
		return nil, err
	}
	if p.serving != nil {
		if raw, err = bind(p.serving, raw); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	c := &conn{Conn: raw, serving: p.serving, version: version, out: newSendQueue(), timing: f.timing, lastPackets: appendGoodbye}
	c.in = bufio.NewReaderSize(deadlineConn{raw, f.timing.ReadTimeout}, 64<<10)
	err = c.handshake(f.options.connectPacket(version, p))
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	f.peer.Store(&Peer{Version: version, Identity: c.connack.peer})
	return c, nil
}

// connectPacket returns the CONNECT packet [MQTT 3.1].
func (o *Options) connectPacket(version byte, p connectParams) *packet.Connect {
	c := &packet.Connect{
		Version: version, CleanStart: p.clean || p.cleanIfV311 && version == packet.V311, KeepAlive: uint16(o.Timing.ReadTimeout / time.Second), ClientID: p.clientID,
		HasUsername: o.Username != "", Username: o.Username, HasPassword: o.Password != "", Password: []byte(o.Password),
		ReceiveMaximum: receiveMaximum, MaximumPacketSize: maxPacket, RequestProblemInfo: true,
	}
	o.Session.applyTo(c, p)
	return c
}

func (c *conn) handshake(connect *packet.Connect) error {
	if err := writeAll(c.Conn, packet.AppendConnect(nil, connect), c.timing.Write); err != nil {
		return err
	}
	first, body, _, err := c.next()
	if err != nil {
		return err
	}
	if first>>4 != packet.TypeConnack {
		return errMalformed
	}
	if c.connack, err = decodeConnack(body, c.version); err != nil {
		return err
	}
	if c.connack.code != 0 {
		return &ConnackError{Version: c.version, Code: c.connack.code}
	}
	return nil
}

// boundConn is a connection that closes with a context.
type boundConn struct {
	net.Conn
	stop func() bool
}

// bind binds a connection. If the context has ended, that is the error.
func bind(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		conn.Close()
		return nil, err
	}
	return &boundConn{conn, context.AfterFunc(ctx, func() { conn.Close() })}, nil
}

// Close closes the connection.
func (b *boundConn) Close() error {
	b.stop()
	return b.Conn.Close()
}

// deadlineConn is a connection with a timeout for each read.
type deadlineConn struct {
	net.Conn
	timeout time.Duration
}

func (p deadlineConn) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(p.timeout)); err != nil {
		return 0, err
	}
	n, err := p.Conn.Read(b)
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		err = errReadTimeout
	}
	return n, err
}

// next reads a packet: the first byte and the body, which is valid until the next call. Of a
// message that is too long it returns the beginning only.
func (c *conn) next() (first byte, body []byte, truncated bool, err error) {
	if first, err = c.in.ReadByte(); err != nil {
		return 0, nil, false, err
	}
	length, err := c.length()
	if err != nil {
		return 0, nil, false, err
	}
	n := length
	if length > maxPacket {
		n, truncated = maxPublishHeader, true
	}
	if cap(c.body) < n || cap(c.body) > maxKeptBuffer {
		c.body = make([]byte, max(n, 4<<10))
	}
	if _, err = io.ReadFull(c.in, c.body[:n]); err == nil && truncated {
		_, err = io.CopyN(io.Discard, c.in, int64(length-n))
	}
	return first, c.body[:n], truncated, err
}

// length reads the remaining length [MQTT-2.1.4].
func (c *conn) length() (n int, err error) {
	for shift := 0; shift < 28; shift += 7 {
		b, err := c.in.ReadByte()
		if err != nil {
			return 0, err
		}
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			return n, nil
		}
	}
	return 0, errMalformed
}

// serve passes every packet to handle, until the connection ends or handle fails. When ctx
// ends it sends lastPackets. All its goroutines have ended when it returns.
func (c *conn) serve(ctx context.Context, handle func(first byte, body []byte, cut bool) error) error {
	closed := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { c.write(closed) })
	wg.Go(func() { c.ping(closed) })
	stop := context.AfterFunc(ctx, func() { c.out.addLast(c.lastPackets) })
	defer stop()
	err := c.read(handle)
	close(closed)
	c.Close()
	wg.Wait()
	return err
}

// write sends queued packets. After the last one the broker closes the connection: closing it
// here with unread data could make the kernel discard what was written last.
func (c *conn) write(closed <-chan struct{}) {
	defer c.Close()
	if c.out.write(c.Conn, c.timing.Write, closed) != nil {
		return
	}
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	select {
	case <-timeout.C:
	case <-closed:
	}
}

func (c *conn) read(handle func(first byte, body []byte, truncated bool) error) error {
	for {
		first, body, truncated, err := c.next()
		if err != nil {
			return err
		}
		switch first >> 4 {
		case packet.TypePingresp:
		case packet.TypeDisconnect:
			e := &DisconnectError{}
			if len(body) > 0 {
				e.Code = body[0]
			}
			return e
		default:
			err = handle(first, body, truncated)
		}
		if err != nil {
			return err
		}
	}
}

// ping keeps the connection alive [MQTT-3.1.2-20].
func (c *conn) ping(closed <-chan struct{}) {
	interval := c.timing.Ping
	if s := c.connack.keepAlive; s > 0 {
		interval = min(interval, time.Duration(s)*time.Second/2)
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.out.add(packet.AppendPingreq)
		case <-closed:
			return
		}
	}
}
