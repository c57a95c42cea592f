package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/mqtt/packet"
)

// maxRounds is how often somebody else's goroutine writes for a connection in
// turn before that gets one of its own.
const maxRounds = 4

// Conn is one connection. Its packets are read and handled on one goroutine;
// others queue what they have for it and calls flush.
type Conn struct {
	engine *Engine
	socket *Socket
	done   chan struct{} // closed when nothing of the connection is left

	// Set before the connection is known to anybody else.
	session    *Session
	hello      *packet.Connect
	rights     Rights
	timestamp  uint64      // its place among all, in the order of their CONNECTs
	generation *generation // in which its CONNECT came
	version    byte
	bridge     bool   // opened by a bridge of Mosquitto's
	asked      uint16 // keep alive as CONNECT said
	maxPacket  uint32 // that the client takes; 0 for no limit

	clientID  string
	username  string // as CONNECT says, and later as the authority does
	anonymous bool

	established atomic.Bool  // CONNACK with 0 is on its way
	evicted     atomic.Bool  // thrown out: no Will
	active      atomic.Int64 // epoch milliseconds of the last bytes read
	pending     atomic.Bool  // a goroutine is going to flush

	in incomingState // of the reading goroutine alone

	mu         sync.Mutex    // guards what follows; the innermost of all locks
	writing    bool          // somebody writes
	writerDone chan struct{} // closed when no goroutine writes any more; nil where no caller waits
	again      bool          // who writes must look again when done
	before     answers       // to be written before any message that is not sent yet
	after      answers       // acknowledgements, to be written after the messages that can be
	taken      chan struct{} // closed when something was taken; nil where no caller waits
	pongs      int           // PINGRESPs, to be written after all messages that can be
	answers    acks          // PUBACK and PUBREC
	endings    acks          // PUBREL and PUBCOMP
	last       []byte        // DISCONNECT, to be written when all else is; nil for none
	ending     bool          // nothing is added any more
	drained    bool          // messages are still written although ending
	closed     bool
	reason     byte        // why it ended, as a reason code of MQTT 5
	graceTimer *time.Timer // closes what is being ended
	quota      int         // QoS 1 and 2 messages from the client that are not acknowledged
}

func newConn(e *Engine, s *Socket) *Conn {
	return &Conn{engine: e, socket: s, done: make(chan struct{})}
}

// send queues a packet that is encoded already.
func (c *Conn) send(p []byte) {
	c.mu.Lock()
	c.add(p)
	c.mu.Unlock()
}

// pong answers PINGREQ. The answer comes after the messages that can be sent:
// who has it has those.
func (c *Conn) pong() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ending {
		c.pongs++
	}
}

// answerPings adds PINGRESPs to a batch or, where more messages are to come,
// leaves them for the next one.
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
// does not wait for the peer.
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

// write empties the queues. Where the peer does not take everything at once, a
// goroutine of its own goes on, which waits.
func (c *Conn) write(b *batch, waiting bool) {
	for round := 1; c.collect(b); round++ {
		c.engine.meters.wrote(b)
		if !waiting && round > maxRounds {
			c.engine.tasks.Go(func() { c.resume(b, b.segments) })
			return
		}
		if waiting {
			if err := c.socket.writeWaiting(b.segments, c.engine.config.WriteTimeout); err != nil {
				c.close(packet.ReasonUnspecified)
			}
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

// resume goes on with what the peer did not take at once.
func (c *Conn) resume(b *batch, left [][]byte) {
	if err := c.socket.writeWaiting(left, c.engine.config.WriteTimeout); err != nil {
		c.close(packet.ReasonUnspecified)
	}
	c.write(b, true)
}

// collect fills a batch. It returns false, and gives up writing, when there
// is nothing left.
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

// answers are packets that are encoded already.
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

// takeBefore moves what comes before messages to a batch.
func (c *Conn) takeBefore(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before.moveTo(b)
	c.wakeReader()
}

// takeAfter moves the acknowledgements to a batch: a client that publishes to
// itself has the message before the acknowledgement, as from Mosquitto.
func (c *Conn) takeAfter(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after.moveTo(b)
	c.wakeReader()
}

// maxControl and maxAcks bound what a client is owed: bytes of answers, and
// acknowledgements that wait for the store. The client's own packets are not
// read while it is more.
const (
	maxControl = 64 << 10
	maxAcks    = 16 << 10
)

// awaitTaken waits while the client is owed too much.
func (c *Conn) awaitTaken() {
	for {
		c.mu.Lock()
		if c.closed || len(c.before.buf)+len(c.after.buf) < maxControl && c.answers.queue.len()+c.endings.queue.len() < maxAcks && c.pongs < maxControl {
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

// wakeReader lets the reading goroutine look again whether it may go on. mu is
// held.
func (c *Conn) wakeReader() {
	if c.taken != nil {
		close(c.taken)
		c.taken = nil
	}
}

// idle gives up writing unless something came in meanwhile. The last packet
// of a connection that is being ended goes out then. While messages are being read
// from the store, that and PINGRESP come after them.
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

// stopWriting gives up writing. mu is held.
func (c *Conn) stopWriting() {
	c.writing = false
	if c.writerDone != nil {
		close(c.writerDone)
		c.writerDone = nil
	}
}

// awaitWriter waits until nobody writes to the connection, which is closed, any
// more: whoever does finds that out at the next step, unless it panicked.
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
		c.socket.Close() //nolint:errcheck // nothing left to do with it
	}
}

// close ends the connection at once.
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

// end takes leave of the client: MQTT 5 is told why. With drain it is sent
// first what waits for it.
func (c *Conn) end(reason byte, drain bool) {
	if c.beginEnd(reason, drain) {
		c.flush()
	}
}

// endUncertain is end for a client to which an acknowledgement is owed that
// will never be: it asks again, whoever serves it then. It does not wait.
func (c *Conn) endUncertain() {
	if c.beginEnd(packet.ReasonUseAnotherServer, false) {
		c.engine.flushDeferred(c)
	}
}

// endUnacknowledged is end for a client of a version before MQTT 5 whose message
// cannot be stored: no acknowledgement could say so, and an error of the server
// ends the connection [MQTT-4.8.0-2 of 3.1.1]. It does not wait.
func (c *Conn) endUnacknowledged() {
	if c.beginEnd(packet.ReasonQuotaExceeded, false) {
		c.engine.flushDeferred(c)
	}
}

// beginEnd prepares the connection's end. It reports whether the caller is to flush
// the connection for it.
func (c *Conn) beginEnd(reason byte, drain bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return false
	}
	c.finishReason(reason)
	if c.established.Load() && c.version >= 5 {
		c.last = packet.AppendDisconnect(nil, reason, "")
	}
	c.ending, c.drained = true, drain
	c.graceTimer = time.AfterFunc(c.engine.config.Grace, func() { c.close(reason) })
	return true
}

// endAsync is end for callers that hold a lock.
func (c *Conn) endAsync(reason byte) {
	c.engine.tasks.Go(func() { c.end(reason, false) })
}
