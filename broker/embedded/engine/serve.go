package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/panics"
)

// incomingState is the state of the goroutine that reads a connection. It handles the packets
// of one read, and then submits and flushes for all of them together.
type incomingState struct {
	reader     reader
	publish    packet.Publish
	aliases    map[uint16]string
	known      map[string]*route // cached routes, by topic
	knownBytes int               // size of known
	touched    []*Conn           // connections to be flushed
	forwarded  bool              // messages were forwarded to other nodes
	answers    bool              // something may have to be written: not only PUBLISH of QoS 0 was handled
	controls   bool              // an alias stands for the topic of a control API
	owed       *Changes          // acknowledgements to be submitted to the store
	turn       uint64            // of the loop, when it last handled a message with recipients
	heard      time.Time         // time of the last bytes
	idle       time.Duration     // keep alive timeout; 0 for none
}

// errDisconnected ends a connection after the client's DISCONNECT.
var errDisconnected = errors.New("client disconnected")

// Serve serves a connection. It returns when the connection has ended, or is read by a loop. With
// Polled it does not wait.
func (e *Engine) Serve(s *Socket) {
	c := newConn(e, s)
	c.in.reader.socket, c.in.reader.received = s, &e.meters.bytesReceived
	switch {
	case !e.addConn(c): // the broker is closing
		s.close()
	case s.Polled == nil:
		c.attend(c.greet)
	case !c.parkNew():
		go c.attend(c.greet)
	}
}

// attend does the first step and then reads the connection, on the calling goroutine, until the
// connection has ended or is parked.
func (c *Conn) attend(first func() error) {
	parked := false
	defer func() {
		if !parked {
			c.finish()
			c.engine.removeConn(c)
		}
	}()
	defer c.recoverPanic()
	err := first()
	if err == nil {
		err = c.run()
	}
	if parked = errors.Is(err, errParked); !parked {
		c.fail(err)
	}
}

// recoverPanic, deferred, makes a panic end only its connection.
func (c *Conn) recoverPanic() {
	if p := recover(); p != nil {
		c.panicked(p)
	}
}

// panicked logs a panic and closes the connection.
func (c *Conn) panicked(p any) {
	panics.Log(context.Background(), c.engine.config.Log, "a connection was ended because its packet could not be handled",
		fmt.Sprint(p), slog.String("remote", fmt.Sprint(c.socket.Address)))
	c.close(packet.ReasonImplementationSpecific)
}

// onOwnGoroutine runs a function that needs a deep stack on another goroutine and waits for
// it, so that the stack of the connection's goroutine, which may run for years, stays small.
func (c *Conn) onOwnGoroutine(do func() error) (err error) {
	done := make(chan error, 1)
	go func() {
		outcome := errBroken
		defer func() { done <- outcome }()
		defer c.recoverPanic()
		outcome = do()
	}()
	return <-done
}

// errBroken is the outcome of a function that panicked.
var errBroken = errors.New("the packet could not be handled")

// fail ends the connection according to the outcome of reading it.
func (c *Conn) fail(err error) {
	var broken *packet.Error
	switch {
	case c.withholdsAnswer(err):
		c.end(packet.ReasonUseAnotherServer, false)
		c.await()
	case errors.As(err, &broken):
		c.engine.config.Log.Debug("a connection broke the protocol", "remote", c.socket.Address, "reason", broken.Text)
		c.end(broken.Reason, false)
		c.await()
	default:
		c.close(reasonOf(err))
	}
}

// reasonOf returns why a connection ends of which nothing more is to be written.
func reasonOf(err error) byte {
	if err == nil || errors.Is(err, errDisconnected) {
		return packet.ReasonSuccess
	}
	return packet.ReasonUnspecified
}

// await waits until the client closes the connection, at most for the grace period, so that
// it can read what is still to be written.
func (c *Conn) await() {
	if c.isClosed() {
		return
	}
	source, err := c.socket.waitingLast()
	if err != nil {
		return
	}
	c.watch(c.engine.config.Grace)
	buf := make([]byte, 512)
	for {
		if _, err := source.Read(buf); err != nil {
			return
		}
	}
}

// run handles packets until the connection ends or is parked.
func (c *Conn) run() error {
	for {
		if err := c.handleBuffered(); err != nil {
			return err
		}
		c.awaitTaken()
		if c.in.forwarded {
			c.in.forwarded = false
			c.engine.awaitPeerCapacity()
		}
		if c.socket.Polled == nil && !c.lingers() && c.park() {
			return errParked
		}
		if err := c.waitForBytes(); err != nil {
			return err
		}
	}
}

// handleBuffered handles the complete packets in the buffer, and then submits and flushes.
func (c *Conn) handleBuffered() error {
	defer c.complete()
	_, err := c.handlePackets(func([]byte) bool { return false })
	return err
}

// handlePackets handles the complete packets in the buffer, up to one that is to be left.
func (c *Conn) handlePackets(leave func(packet []byte) bool) (left bool, err error) {
	r := &c.in.reader
	handled := 0
	for err == nil {
		var size int
		size, err = c.sizeOf(r.buf[handled:r.n])
		if err != nil || size == 0 {
			break
		}
		if left = leave(r.buf[handled : handled+size]); left {
			break
		}
		c.in.answers = c.in.answers || r.buf[handled] != packet.TypePublish<<4
		err = c.handle(r.buf[handled : handled+size])
		handled += size
		c.engine.meters.packetsReceived.Add(1)
	}
	r.take(handled)
	return left, err
}

// sizeOf returns the length of the packet at the beginning of buf, 0 if it is not complete.
func (c *Conn) sizeOf(buf []byte) (int, error) {
	size, err := packet.Size(buf)
	if err != nil {
		return 0, err
	}
	limit := c.engine.config.MaxPacketSize
	if !c.established.Load() {
		limit = min(limit, maxConnectSize)
	}
	if size > limit {
		return 0, &packet.Error{Reason: packet.ReasonPacketTooLarge, Text: "packet too large"}
	}
	if size > len(buf) {
		return 0, nil
	}
	return size, nil
}

// complete submits acknowledgements and flushes connections that the handled packets
// touched. It must be called before the goroutine waits for anything.
func (c *Conn) complete() {
	c.submitOwed()
	for i, other := range c.in.touched {
		c.in.touched[i] = nil
		other.flush()
	}
	c.in.touched = c.in.touched[:0]
	c.flush()
}

// submitOwed submits the acknowledgements of the handled packets.
func (c *Conn) submitOwed() {
	if owed := c.in.owed; owed != nil && len(owed.Dequeued) > 0 {
		c.in.owed = nil
		c.session.generation.submit(owed)
	}
}

// waitForBytes waits for the client's next bytes, at most for its keep alive timeout
// [MQTT-3.1.2-22].
func (c *Conn) waitForBytes() error {
	for {
		err := c.read()
		if err == nil {
			c.in.heard = time.Now()
			c.active.Store(c.engine.now())
			if c.in.reader.n >= readSize/2 {
				runtime.Gosched() // a client that sends without pause lets others run
			}
			c.engine.store.WaitForCapacity()
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err := c.endSilence(time.Since(c.in.heard)); err != nil {
			return err
		}
	}
}

// endSilence ends a connection whose client is silent for too long, or parks it, or lets it wait.
func (c *Conn) endSilence(silent time.Duration) error {
	if c.in.idle > 0 && silent >= c.in.idle {
		return &packet.Error{Reason: packet.ReasonKeepAliveTimeout, Text: "keep alive timeout"}
	}
	patience := c.patience()
	if c.lingers() && silent >= lingerTime {
		if c.park() {
			return errParked
		}
		patience = c.in.idle
	}
	c.watchSilence(patience, silent)
	return nil
}

// watchSilence sets the read deadline of a client that is silent for some time already. A patience
// of 0 is one without end.
func (c *Conn) watchSilence(patience, silent time.Duration) {
	if patience > 0 {
		c.watch(patience - silent)
		return
	}
	c.socket.setReadDeadline(time.Time{}) //nolint:errcheck // reading fails as well
}

// read waits for bytes, or parks the connection if it can be parked.
func (c *Conn) read() error {
	if c.socket.Polled != nil {
		return c.readAgain()
	}
	return c.in.reader.read()
}

// handle handles one packet.
func (c *Conn) handle(p []byte) error {
	if c.untold {
		c.untold = false
		c.session.noteTold()
	}
	switch p[0] >> 4 {
	case packet.TypePublish:
		return c.onPublish(p)
	case packet.TypePuback, packet.TypePubrec, packet.TypePubrel, packet.TypePubcomp:
		a, err := packet.DecodeAck(p, c.version)
		if err != nil {
			return err
		}
		return c.onAck(a)
	case packet.TypeSubscribe:
		return c.onOwnGoroutine(func() error { return c.onSubscribe(p) })
	case packet.TypeUnsubscribe:
		return c.onOwnGoroutine(func() error { return c.onUnsubscribe(p) })
	case packet.TypePingreq:
		if err := packet.DecodePingreq(p); err != nil {
			return err
		}
		c.pong()
		return nil
	case packet.TypeDisconnect:
		return c.onDisconnect(p)
	}
	return &packet.Error{Reason: packet.ReasonProtocolError, Text: "unexpected packet"} // [MQTT-3.1.0-2]
}

// onDisconnect handles the client's DISCONNECT.
func (c *Conn) onDisconnect(p []byte) error {
	d, err := packet.DecodeDisconnect(p, c.version)
	if err != nil {
		return err
	}
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return errDisconnected
	}
	if d.HasSessionExpiry {
		if s.expiry == 0 && d.SessionExpiry != 0 { // [MQTT-3.1.2.11.2]
			return &packet.Error{Reason: packet.ReasonProtocolError, Text: "a session that ends with its connection cannot get an expiry interval"}
		}
		s.expiry = min(d.SessionExpiry, c.engine.config.MaxSessionExpiry)
	}
	if d.Reason == packet.ReasonSuccess { // [MQTT-3.14.4-3]
		s.dropWill()
	}
	return errDisconnected
}

// onAck handles an acknowledgement of a message to or from the client.
func (c *Conn) onAck(a packet.Ack) error {
	switch {
	case a.Type == packet.TypePubrel:
		c.onPubrel(a.PacketID)
	case a.Type == packet.TypePubrec && a.Reason < packet.ReasonUnspecified:
		return c.onPubrec(a.PacketID)
	default:
		return c.session.acknowledge(c, a, c.changes())
	}
	return nil
}

// changes returns the Changes that complete submits.
func (c *Conn) changes() *Changes {
	if c.in.owed == nil {
		c.in.owed = &Changes{Owed: true}
	}
	return c.in.owed
}

// onPubrec handles PUBREC. PUBREL is sent when that is stored, because after PUBREL the
// message must not be sent again [MQTT-4.3.3-6].
func (c *Conn) onPubrec(id uint16) error {
	state, record := c.session.release(c, id)
	switch state {
	case wrong:
		return errWrongAck
	case unknown:
		c.acknowledge(packet.TypePubrel, id, packet.ReasonPacketIDNotFound)
	case repeated:
		c.acknowledge(packet.TypePubrel, id, packet.ReasonSuccess)
	case noted:
		w := &pendingAck{conn: c, kind: packet.TypePubrel, number: c.reserveAck(packet.TypePubrel, id, packet.ReasonSuccess), session: c.session}
		w.Changes = Changes{Owed: true, Done: w, Released: []QueueRecord{record}}
		c.session.generation.submit(&w.Changes)
	}
	return nil
}

// onPubrel handles PUBREL. PUBCOMP is sent when that is stored, because the client may use the
// packet identifier for another message then.
func (c *Conn) onPubrel(id uint16) {
	known, stored := c.session.unreceive(id)
	switch {
	case !known:
		c.acknowledge(packet.TypePubcomp, id, packet.ReasonPacketIDNotFound)
	case !stored:
		c.acknowledge(packet.TypePubcomp, id, packet.ReasonSuccess)
	default:
		w := &pendingAck{conn: c, kind: packet.TypePubcomp, number: c.reserveAck(packet.TypePubcomp, id, packet.ReasonSuccess), session: c.session}
		w.Changes = Changes{Owed: true, Done: w, Forgotten: []IncomingRecord{{SessionID: c.session.id, PacketID: id}}}
		c.session.generation.submit(&w.Changes)
	}
}
