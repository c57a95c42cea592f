package engine

import (
	"bytes"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"signalbox/broker/embedded/poll"
	"signalbox/broker/mqtt/packet"
)

// loop is a goroutine that accepts connections and reads silent ones. It handles what does not wait; for anything
// else a connection gets a goroutine of its own until it is silent again.
//
// A turn reads every connection that has bytes, and then writes: so the messages of many
// publishers are one write to their subscriber. If publishers that send seldom write to the same
// subscribers in turn after turn, the loop pauses between turns so that more of them gather.
type loop struct {
	engine  *Engine
	set     *poll.Set[member]
	touched []*Conn // connections to be flushed at the end of the turn

	turn       uint64        // counts turns; the lowest byte is the number of the loop
	last       time.Time     // when the last turn began, or the pause after it ended
	messages   int           // of this turn, that have recipients
	waiting    bool          // a publisher of this turn may be waiting for an answer
	recipients int           // of these messages
	shared     int           // recipients for which a pause before this turn would have saved a write
	gain       int           // how many turns a pause would have been worth it rather than not, within maxGain
	pause      time.Duration // how long a pause is
	paused     bool          // a pause came before this turn
}

// fullPause is how long a loop waits for the store before it looks for new connections again.
const fullPause = 900 * time.Microsecond

// nextTurn is what is added to the count of turns.
const nextTurn = 1 << 8

// A loop pauses between turns once gain has reached enoughGain, for so long that enoughMessages gather,
// within shortPause and longPause. A turn that began later than gatherWithin after the last one is not one in
// which more can gather. A publisher whose last message came less than seldom ago, in turns, may be waiting for
// an answer.
const (
	shortPause     = 150 * time.Microsecond
	longPause      = 900 * time.Microsecond
	enoughMessages = 8
	gatherWithin   = 250 * time.Microsecond
	seldom         = 64 * nextTurn
	fewTurns       = 4 * nextTurn
	enoughGain     = 16
	maxGain        = 32
)

// loops are the loops of an engine. They start with the first connection that they can read.
type loops struct {
	start  sync.Once
	all    []*loop // none where each connection has a goroutine
	chosen atomic.Uint32
}

// next returns the loop for another connection, nil if there is none.
func (l *loops) next(e *Engine) *loop {
	l.start.Do(func() {
		e.workers.Go(e.silent.run)
		for range max(1, runtime.GOMAXPROCS(0)/2) {
			l.add(e)
		}
	})
	if len(l.all) == 0 {
		return nil
	}
	return l.all[l.chosen.Add(1)%uint32(len(l.all))]
}

func (l *loops) add(e *Engine) {
	set, err := poll.NewSet[member]()
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if err != nil {
		e.config.Log.Warn("each client takes more memory, as its connection has a goroutine", "error", err)
		return
	}
	one := &loop{engine: e, set: set, turn: uint64(len(l.all)), pause: shortPause}
	l.all = append(l.all, one)
	e.workers.Go(one.run)
}

// close ends the loops, which have no connection any more.
func (l *loops) close() {
	for _, one := range l.all {
		one.set.Close()
	}
}

// run serves connections until the engine closes.
func (l *loop) run() {
	err := l.turns()
	select {
	case <-l.engine.stopped:
	default:
		l.engine.config.Log.Error("many clients are no longer served: restart the broker", "error", err)
	}
}

// turns serves connections until waiting for them fails.
func (l *loop) turns() error {
	var ready []member
	var connected []*Conn
	for {
		var err error
		if ready, err = l.set.Wait(ready[:0]); err != nil {
			return err
		}
		if connected = l.connectAll(ready, connected[:0]); len(connected) == 0 {
			continue
		}
		if l.engine.store.Full() { // connected clients have to wait, others are let in
			clear(connected)
			if err := l.set.Sleep(fullPause); err != nil {
				return err
			}
			continue
		}
		now := l.begin()
		for i, c := range connected {
			connected[i] = nil
			l.serve(c, now)
		}
		if l.flush() {
			if err := l.set.Sleep(l.pause); err != nil {
				return err
			}
			l.resume()
		}
	}
}

// connectAll accepts connections and handles CONNECTs, and appends the connections whose clients
// are connected already to a list. CONNACKs do not wait for what these cause.
func (l *loop) connectAll(ready []member, connected []*Conn) []*Conn {
	for i, m := range ready {
		ready[i] = nil
		if c := m.begin(l); c != nil {
			connected = append(connected, c)
		}
	}
	l.flushTouched()
	return connected
}

// begin begins a turn and returns the time in epoch milliseconds.
func (l *loop) begin() int64 {
	l.turn += nextTurn
	l.messages, l.recipients, l.shared, l.waiting = 0, 0, 0, false
	return l.engine.now()
}

// flush ends a turn: what all connections that were read have caused is written. It reports
// whether the loop should pause.
func (l *loop) flush() bool {
	began := time.Now()
	quick := began.Sub(l.last) < gatherWithin
	l.last = began
	l.adapt()
	switch {
	case quick && l.recipients == 0: // of acknowledgements, say, which tell nothing
	case quick && 2*l.shared > l.recipients:
		l.gain = min(l.gain+1, maxGain)
	default:
		l.gain = max(l.gain-1, 0)
	}
	l.flushTouched()
	return l.gain >= enoughGain && !l.waiting
}

// adapt makes the next pause longer if few messages have gathered in the last one, or shorter if many have.
func (l *loop) adapt() {
	switch {
	case !l.paused:
	case l.messages < enoughMessages:
		l.pause = min(l.pause*5/4, longPause)
	case l.messages > 2*enoughMessages:
		l.pause = max(l.pause*4/5, shortPause)
	}
	l.paused = false
}

// resume is called after a pause.
func (l *loop) resume() {
	l.last, l.paused = time.Now(), true
}

func (l *loop) flushTouched() {
	for i, c := range l.touched {
		l.touched[i] = nil
		c.flushAlone()
	}
	l.touched = l.touched[:0]
}

// flushAlone is flush, in which a panic ends only this connection.
func (c *Conn) flushAlone() {
	defer c.recoverPanic()
	c.flush()
}

// count counts the recipients of a connection's messages, and those of them for which one of the
// last few turns wrote messages of another publisher.
func (l *loop) count(recipients []*Conn, from *Conn) {
	if len(recipients) == 0 {
		return
	}
	l.messages++
	l.recipients += len(recipients)
	isSeldom := l.turn-from.in.turn >= seldom
	from.in.turn = l.turn
	l.waiting = l.waiting || !isSeldom
	for _, c := range recipients {
		turn, writer := c.turn.Swap(l.turn), c.writer.Swap(from.timestamp)
		isNear := (l.turn-turn)%nextTurn == 0 && l.turn-turn <= fewTurns
		if isSeldom && isNear && writer != from.timestamp {
			l.shared++
		}
	}
}

// serve reads a connection once and handles the packets.
func (l *loop) serve(c *Conn, now int64) {
	if c.lingers() {
		l.leaveShared(c)
		return
	}
	if c.isClosed() {
		l.end(c, net.ErrClosed)
		return
	}
	n, err := c.in.reader.readNow()
	if errors.Is(err, syscall.EAGAIN) {
		return
	}
	if err != nil {
		l.end(c, err)
		return
	}
	c.active.Store(now)
	next, err := l.handle(c)
	switch {
	case err != nil:
		l.end(c, err)
	case next || n >= readSize/2 || !c.mayRead():
		l.leave(c, func() error { return nil })
	}
}

// handle handles the complete packets in the buffer, up to one that may wait.
func (l *loop) handle(c *Conn) (waits bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.panicked(p)
			err = errBroken
		}
	}()
	before := len(l.touched)
	c.in.touched = l.touched
	defer func() {
		c.submitOwed()
		l.touched, c.in.touched = c.in.touched, nil
		l.count(l.touched[before:], c)
		if c.in.answers && c.touch() {
			l.touched = append(l.touched, c)
		}
		c.in.answers = false
	}()
	return c.handlePackets(c.mayWait)
}

// mayWait reports whether handling a packet may wait for something.
func (c *Conn) mayWait(p []byte) bool {
	switch p[0] >> 4 {
	case packet.TypePublish:
		topic, err := packet.PublishTopic(p)
		return err == nil && (len(topic) == 0 && c.in.controls || bytes.HasPrefix(topic, []byte(controlPrefix)))
	case packet.TypePuback, packet.TypePubrec, packet.TypePubrel, packet.TypePubcomp, packet.TypePingreq, packet.TypeDisconnect:
		return false
	}
	return true
}

// mayRead reports whether the connection may be read without waiting for its client or for other
// nodes.
func (c *Conn) mayRead() bool {
	if c.in.forwarded && c.engine.isPeerBehind() {
		return false
	}
	c.in.forwarded = false
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed || c.hasSpace()
}
