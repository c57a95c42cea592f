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
	// maxPacket bounds a packet from the broker, in bytes. One of MQTT 5 is told
	// so; a longer message of an older one is acknowledged and passed over.
	maxPacket = 64 << 20

	// maxHead is the longest part of a PUBLISH before its payload in MQTT 3.1.1.
	maxHead = 2 + 65535 + 2

	// inbound is how many messages above QoS 0 a broker of MQTT 5 may send before
	// one is acknowledged.
	inbound = 2048

	// parting is how long a broker has to end a connection that it was told the
	// end of.
	parting = 2 * time.Second

	// keepFor is for how long a broker keeps a session without a connection, in
	// seconds. MQTT 3.1.1 knows no end of it.
	keepFor = 3600
)

// errSilent is a broker that sends nothing, though pinged.
var errSilent = errors.New("the broker has fallen silent")

// conn is one connection from its CONNACK to its end. Reading is for the
// goroutine of serve, out for everybody.
type conn struct {
	net.Conn
	version byte
	allowed connack
	out     *outbox
	in      *bufio.Reader
	body    []byte // of the packet read last
	timing  Timing

	farewell func(dst []byte) []byte // what serve says last
}

// login is who connects.
type login struct {
	clientID string
	clean    bool // the session, if there is one, is thrown away
	keep     bool // the session is kept after the connection
	brief    bool // it is not where the broker would keep it for ever
	tells    bool // of the state of the connection, by its Will
}

// dial connects with MQTT 5, or with 3.1.1 where the broker does not know that.
func (f *Feed) dial(ctx context.Context, as login) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timing.Connect)
	defer cancel()
	if v := f.options.Client.Version; v != 0 {
		return f.greet(ctx, v, as)
	}
	c, err := f.greet(ctx, packet.V5, as)
	if f.tongue.older(err) {
		return f.greet(ctx, packet.V311, as)
	}
	return c, err
}

// tongue is what is known of the versions that a broker speaks.
type tongue struct {
	five   atomic.Bool  // it has spoken MQTT 5
	hungUp atomic.Int32 // attempts in a row at that to which it has hung up
}

// older tells whether an attempt at MQTT 5 failed because the broker does not
// know it: it says so, or hangs up, as on anything else that it cannot read. A
// connection may be lost just then, so once is not enough; and after MQTT 5 has
// been spoken, it has another reason.
func (k *tongue) older(err error) bool {
	refusal, refused := errors.AsType[*Refusal](err)
	switch {
	case err == nil:
		k.five.Store(true)
	case refused:
		return refusal.Code == 1 || refusal.Code == packet.ReasonUnsupportedVersion
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return k.hungUp.Add(1) > 1 && !k.five.Load()
	}
	k.hungUp.Store(0)
	return false
}

// greet opens a connection and logs in.
func (f *Feed) greet(ctx context.Context, version byte, as login) (*conn, error) {
	raw, err := f.options.Open(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	c := &conn{Conn: raw, version: version, out: newOutbox(), timing: f.timing, farewell: appendGoodbye}
	c.in = bufio.NewReaderSize(patient{raw, f.timing.Silence}, 64<<10)
	err = c.logIn(f.options.connect(version, as))
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	f.peer.Store(&Peer{Version: version, Identity: c.allowed.peer})
	return c, nil
}

// connect makes the CONNECT of a login [MQTT 3.1].
func (o *Options) connect(version byte, as login) *packet.Connect {
	c := &packet.Connect{
		Version: version, CleanStart: as.clean || as.brief && version == packet.V311, KeepAlive: uint16(o.Timing.Silence / time.Second), ClientID: as.clientID,
		HasUsername: o.Username != "", Username: o.Username, HasPassword: o.Password != "", Password: []byte(o.Password),
		ReceiveMaximum: inbound, MaximumPacketSize: maxPacket, RequestProblemInfo: true,
	}
	o.Client.introduce(c, as)
	return c
}

func (c *conn) logIn(connect *packet.Connect) error {
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
	if c.allowed, err = decodeConnack(body, c.version); err != nil {
		return err
	}
	if c.allowed.code != 0 {
		return &Refusal{Version: c.version, Code: c.allowed.code}
	}
	return nil
}

// patient is a connection of which each read ends after some time.
type patient struct {
	net.Conn
	silence time.Duration
}

func (p patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(p.silence)); err != nil {
		return 0, err
	}
	n, err := p.Conn.Read(b)
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		err = errSilent
	}
	return n, err
}

// next reads a packet: the first byte, and what follows its length, which is
// good until the next call. Of a message that is too long there is only the
// beginning.
func (c *conn) next() (first byte, body []byte, cut bool, err error) {
	if first, err = c.in.ReadByte(); err != nil {
		return 0, nil, false, err
	}
	length, err := c.length()
	if err != nil {
		return 0, nil, false, err
	}
	n := length
	if length > maxPacket {
		n, cut = maxHead, true
	}
	if cap(c.body) < n || cap(c.body) > keptRoom {
		c.body = make([]byte, max(n, 4<<10))
	}
	if _, err = io.ReadFull(c.in, c.body[:n]); err == nil && cut {
		_, err = io.CopyN(io.Discard, c.in, int64(length-n))
	}
	return first, c.body[:n], cut, err
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

// serve hands over every packet that comes, until the connection ends or handle
// fails. When the context ends it says goodbye behind all that was added. It
// leaves nothing behind.
func (c *conn) serve(ctx context.Context, handle func(first byte, body []byte, cut bool) error) error {
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { c.write(over) })
	wg.Go(func() { c.ping(over) })
	stop := context.AfterFunc(ctx, func() { c.out.end(c.farewell) })
	defer stop()
	err := c.read(handle)
	close(over)
	c.Close()
	wg.Wait()
	return err
}

// write writes what is added. Behind the last of it the broker is left to end the
// connection: were there something of it unread when it is closed here, the broker
// might not get what was written before.
func (c *conn) write(over <-chan struct{}) {
	defer c.Close()
	if c.out.write(c.Conn, c.timing.Write, over) != nil {
		return
	}
	hurry := time.NewTimer(parting)
	defer hurry.Stop()
	select {
	case <-hurry.C:
	case <-over:
	}
}

func (c *conn) read(handle func(first byte, body []byte, cut bool) error) error {
	for {
		first, body, cut, err := c.next()
		if err != nil {
			return err
		}
		switch first >> 4 {
		case packet.TypePingresp:
		case packet.TypeDisconnect:
			e := &Ended{}
			if len(body) > 0 {
				e.Code = body[0]
			}
			return e
		default:
			err = handle(first, body, cut)
		}
		if err != nil {
			return err
		}
	}
}

// ping keeps the connection alive [MQTT-3.1.2-20].
func (c *conn) ping(over <-chan struct{}) {
	every := c.timing.Ping
	if s := c.allowed.keepAlive; s > 0 {
		every = min(every, time.Duration(s)*time.Second/2)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.out.add(packet.AppendPingreq)
		case <-over:
			return
		}
	}
}
