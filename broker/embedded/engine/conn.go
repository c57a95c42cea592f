package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/mqtt/packet"
)

// maxRounds is how many batches another goroutine writes for a connection before the
// connection gets a goroutine of its own.
const maxRounds = 4

// Conn is one connection. Its packets are read and handled on one goroutine; others queue
// packets for it and call flush.
type Conn struct {
	engine *Engine
	socket *Socket
	done   chan struct{} // closed when the connection has ended and left its session

	// Set before other goroutines know the connection.
	session    *Session
	hello      *packet.Connect
	rights     Rights
	timestamp  uint64      // of its CONNECT; later connections have greater ones
	generation *generation // at the time of its CONNECT
	version    byte
	bridge     bool   // opened by a bridge of Mosquitto
	asked      uint16 // keep alive of CONNECT
	maxPacket  uint32 // of the client; 0 for no limit
	untold     bool   // see Session.isUntold; of the reading goroutine

	clientID  string
	username  string // of CONNECT, and after the log-in of the Admission
	anonymous bool

	established atomic.Bool  // CONNACK with success is queued
	evicted     atomic.Bool  // disconnected by DisconnectUser: no Will is published
	active      atomic.Int64 // epoch milliseconds of the last bytes read
	pending     atomic.Bool  // a goroutine is going to flush

	in incomingState // of the reading goroutine only

	loop     *loop         // reads it while it is parked; nil if it never was
	turn     atomic.Uint64 // of the loop that last wrote to it, see loop.turn
	writer   atomic.Uint64 // timestamp of the connection whose message that was
	parkedAt atomic.Int64  // epoch milliseconds; 0 while a goroutine of its own reads it

	silence    due   // when silent looks at it next; guarded by silent.mu
	maxSilence int64 // in milliseconds, 0 for no bound; guarded by silent.mu

	mu         sync.Mutex    // guards what follows; the innermost of all locks
	writing    bool          // a goroutine is writing
	writerDone chan struct{} // closed when no goroutine is writing; nil if no caller waits
	again      bool          // the writing goroutine must collect once more
	before     answers       // written before queued messages
	after      answers       // acknowledgements, written after the messages that can be sent
	taken      chan struct{} // closed when answers were taken; nil if no caller waits
	pongs      int           // PINGRESPs, written after all messages that can be sent
	answers    acks          // PUBACK and PUBREC
	endings    acks          // PUBREL and PUBCOMP
	last       []byte        // DISCONNECT, written after everything else; nil for none
	ending     bool          // nothing more is queued
	drained    bool          // queued messages are still written although ending
	closed     bool
	reason     byte        // why the connection ended, a reason code of MQTT 5
	graceTimer *time.Timer // closes a connection that is being ended
	quota      int         // unacknowledged QoS 1 and 2 messages from the client
}

func newConn(e *Engine, s *Socket) *Conn {
	return &Conn{engine: e, socket: s, done: make(chan struct{})}
}

// watch sets the read deadline.
func (c *Conn) watch(d time.Duration) {
	c.socket.setReadDeadline(time.Now().Add(d)) //nolint:errcheck // reading fails as well
}

// send queues an encoded packet.
func (c *Conn) send(p []byte) {
	c.mu.Lock()
	c.add(p)
	c.mu.Unlock()
}

// pong responds to PINGREQ. PINGRESP is sent after the messages that can be sent: a client
// that has it has those.
func (c *Conn) pong() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ending {
		c.pongs++
	}
}

// answerPings adds PINGRESPs to a batch or, if more messages are to come, leaves them for
// a later one.
func (c *Conn) answerPings(b *batch, n int, more bool) {
	if n > 0 && (more || b.full()) {
		c.mu.Lock()
		c.pongs += n
		c.mu.Unlock()
		return
	}
	for range n {
		b.buf = packet.AppendPingresp(b.buf)
	}
	b.packets += n
}

// add queues a packet. mu is held.
func (c *Conn) add(p []byte) {
	if !c.ending {
		c.before.buf = append(c.before.buf, p...)
		c.before.packets++
	}
}

// flush writes what is queued, or leaves that to the goroutine that is writing already. It
// does not wait for the client.
func (c *Conn) flush() {
	c.pending.Store(false)
	c.mu.Lock()
	if c.writing || c.closed {
		c.again = true
		c.mu.Unlock()
		return
	}
	c.writing = true
	c.mu.Unlock()
	c.write(batches.Get().(*batch), false)
}

// write writes until the queues are empty. If the socket does not accept everything at
// once, a goroutine of its own continues, which waits.
func (c *Conn) write(b *batch, waiting bool) {
	for round := 1; c.collect(b); round++ {
		c.engine.meters.wrote(b)
		if !waiting && round > maxRounds {
			c.engine.tasks.Go(func() { c.resume(b, b.segments) })
			return
		}
		if waiting {
			c.writeWaiting(b.segments)
			continue
		}
		left, n, err := c.socket.write(b.segments)
		c.engine.meters.bytesSent.Add(int64(n))
		if err != nil {
			c.close(packet.ReasonUnspecified)
		} else if len(left) > 0 {
			c.engine.tasks.Go(func() { c.resume(b, left) })
			return
		}
	}
	b.reset()
	batches.Put(b)
}

// resume continues with what the socket did not accept at once.
func (c *Conn) resume(b *batch, left [][]byte) {
	c.writeWaiting(left)
	c.write(b, true)
}

// writeWaiting writes everything, or closes the connection.
func (c *Conn) writeWaiting(segments [][]byte) {
	n, err := c.socket.writeWaiting(segments, c.engine.config.WriteTimeout)
	if c.socket.Polled != nil { // others are counted beneath
		c.engine.meters.bytesSent.Add(int64(n))
	}
	if err != nil {
		c.close(packet.ReasonUnspecified)
	}
}

// collect fills a batch. If there is nothing to write, it returns false and the caller is
// no longer the writer.
func (c *Conn) collect(b *batch) bool {
	for {
		b.reset()
		c.mu.Lock()
		if c.closed {
			c.stopWriting()
			c.mu.Unlock()
			return false
		}
		c.again = false
		pongs := c.pongs
		c.pongs = 0
		messages := c.established.Load() && (!c.ending || c.drained)
		c.mu.Unlock()
		loading := messages && c.session.fill(c, b)
		c.takeBefore(b)
		c.takeAfter(b)
		c.answerPings(b, pongs, loading)
		b.cutSegment()
		if len(b.segments) > 0 {
			return true
		}
		if c.idle(b, loading) {
			return len(b.segments) > 0
		}
	}
}

// answers are encoded packets.
type answers struct {
	buf     []byte
	packets int
}

// moveTo empties the answers into a batch.
func (a *answers) moveTo(b *batch) {
	b.control(a.buf, a.packets)
	if cap(a.buf) > 1<<10 {
		a.buf = nil
	}
	*a = answers{buf: a.buf[:0]}
}

// takeBefore moves the packets that precede messages to a batch.
func (c *Conn) takeBefore(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before.moveTo(b)
	c.wakeReader()
}

// takeAfter moves the acknowledgements to a batch. A client that publishes to itself gets
// the message before the acknowledgement, as from Mosquitto.
func (c *Conn) takeAfter(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after.moveTo(b)
	c.wakeReader()
}

// maxControl and maxAcks bound the unsent responses of a client: bytes of answers, and
// acknowledgements that wait for the store. The client is not read while there are more.
const (
	maxControl = 64 << 10
	maxAcks    = 16 << 10
)

// awaitTaken waits while the client has too many unsent responses.
func (c *Conn) awaitTaken() {
	for {
		c.mu.Lock()
		if c.closed || c.hasSpace() {
			c.mu.Unlock()
			return
		}
		if c.taken == nil {
			c.taken = make(chan struct{})
		}
		taken := c.taken
		c.mu.Unlock()
		<-taken
	}
}

// hasSpace reports whether there are few unsent responses. mu is held.
func (c *Conn) hasSpace() bool {
	return len(c.before.buf)+len(c.after.buf) < maxControl && c.answers.queue.len()+c.endings.queue.len() < maxAcks && c.pongs < maxControl
}

// wakeReader makes awaitTaken check again. mu is held.
func (c *Conn) wakeReader() {
	if c.taken != nil {
		close(c.taken)
		c.taken = nil
	}
}

// idle ends writing, unless something was queued meanwhile. Of a connection that is being
// ended it first adds the last packet. While messages are being read from the store, the
// last packet and PINGRESP wait for them.
func (c *Conn) idle(b *batch, loading bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
	case c.again || len(c.before.buf) > 0 || len(c.after.buf) > 0 || c.pongs > 0 && !loading:
		return false
	case loading:
	case c.last != nil:
		b.control(c.last, 1)
		b.cutSegment()
		c.last, c.drained = nil, false
		return true
	case c.ending:
		c.shut()
	}
	c.stopWriting()
	return true
}

// stopWriting ends the writing of the current goroutine. mu is held.
func (c *Conn) stopWriting() {
	c.writing = false
	if c.writerDone != nil {
		close(c.writerDone)
		c.writerDone = nil
	}
}

// awaitWriter waits until no goroutine writes to the connection, which must be closed. The
// writing goroutine notices that at its next step, unless it panicked; so the wait is
// bounded.
func (c *Conn) awaitWriter() {
	c.mu.Lock()
	if !c.writing {
		c.mu.Unlock()
		return
	}
	writerDone := make(chan struct{})
	c.writerDone = writerDone
	c.mu.Unlock()
	select {
	case <-writerDone:
	case <-time.After(c.engine.config.Grace):
	}
}

// shut closes the socket. mu is held.
func (c *Conn) shut() {
	if !c.closed {
		c.closed = true
		c.wakeReader()
		if c.lingers() && c.parkedAt.Load() > 0 {
			c.socket.shared.ShutdownRead() // a loop notices, and finish closes it
			return
		}
		if c.socket.Polled != nil {
			c.socket.Polled.Shutdown() // finish closes it
		}
		c.socket.Close() //nolint:errcheck // nothing left to do with it
	}
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// close closes the connection at once.
func (c *Conn) close(reason byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finishReason(reason)
	c.ending = true
	c.shut()
}

// finishReason keeps the first reason. mu is held.
func (c *Conn) finishReason(reason byte) {
	if c.reason == 0 && !c.ending {
		c.reason = reason
	}
}
