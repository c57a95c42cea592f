package engine

import (
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/poll"
	"signalbox/broker/mqtt/packet"
)

// TestLoopPauses pauses between turns only for subscribers of many publishers that send seldom, in
// quick succession, and no longer than that lasts.
func TestLoopPauses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		publishers, subscribers int
		apart                   time.Duration
		pauses                  bool
	}{
		"a crowd":                        {200, 1, 100 * time.Microsecond, true},
		"a crowd with few subscribers":   {200, 2, 50 * time.Microsecond, true},
		"publishers that may be waiting": {10, 1, 100 * time.Microsecond, false},
		"pairs":                          {200, 200, 100 * time.Microsecond, false},
		"a slow crowd":                   {200, 1, time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, publishers, subscribers := newTestLoop(c.publishers, c.subscribers)
				pauses := 0
				for n := range 2000 {
					if l.play(publishers[n%c.publishers], subscribers[n%c.subscribers], c.apart) {
						pauses++
					}
				}
				if pauses > 0 != c.pauses {
					t.Errorf("%d pauses", pauses)
				}
				for range 2 * maxGain { // a client that waits for each answer
					l.play(publishers[0], subscribers[0], c.apart)
				}
				if l.play(publishers[0], subscribers[0], c.apart) {
					t.Error("it still pauses")
				}
			})
		})
	}
}

// TestLoopPauseAdapts makes pauses so long that a few messages gather, within bounds.
func TestLoopPauseAdapts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ apart, least, most time.Duration }{
		"many messages":    {5 * time.Microsecond, shortPause, shortPause},
		"a few messages":   {60 * time.Microsecond, (enoughMessages - 1) * 60 * time.Microsecond, 2 * enoughMessages * 60 * time.Microsecond},
		"too few messages": {200 * time.Microsecond, longPause, longPause},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, publishers, subscribers := newTestLoop(8000, 1)
				arrived, pauses := 0, 0
				for range 500 {
					<-time.After(c.apart)
					gathered := 1 + int(l.lastPause()/c.apart)
					l.begin()
					for range gathered {
						l.count(subscribers, publishers[arrived%len(publishers)])
						arrived++
					}
					if l.flush() {
						<-time.After(l.pause)
						l.resume()
						pauses++
					}
				}
				if l.pause < c.least || l.pause > c.most || pauses < 300 {
					t.Errorf("after %d pauses they are %v, want %v to %v", pauses, l.pause, c.least, c.most)
				}
			})
		})
	}
}

// TestLoopWaitsForNoCrowd does not pause after a message of a publisher that may be waiting for an
// answer, though a crowd is worth pauses.
func TestLoopWaitsForNoCrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, publishers, subscribers := newTestLoop(8000, 2)
		crowd, busy := publishers[1:], publishers[0]
		pauses := 0
		for n := range 1000 {
			if l.play(crowd[n%len(crowd)], subscribers[0], 100*time.Microsecond) {
				pauses++
			}
			if n%10 == 0 && l.play(busy, subscribers[1], 10*time.Microsecond) && n > 0 {
				t.Fatal("the loop pauses after a message of the publisher that sends often")
			}
		}
		if pauses < 500 {
			t.Errorf("%d pauses", pauses)
		}
	})
}

// lastPause returns how long the pause before this turn was, 0 if there was none.
func (l *loop) lastPause() time.Duration {
	if l.paused {
		return l.pause
	}
	return 0
}

func newTestLoop(publishers, subscribers int) (l *loop, from, to []*Conn) {
	e := New(DefaultConfig(), Parts{})
	for n := range publishers {
		from = append(from, &Conn{timestamp: uint64(n + 1)})
	}
	for range subscribers {
		to = append(to, &Conn{})
	}
	return &loop{engine: e, turn: seldom, pause: shortPause}, from, to
}

// play is a turn with one message, and one with its acknowledgement.
func (l *loop) play(from, to *Conn, apart time.Duration) (pauses bool) {
	<-time.After(apart)
	l.begin()
	l.count([]*Conn{to}, from)
	pauses = l.flush()
	l.begin()
	l.count(nil, to)
	l.flush()
	return pauses
}

// TestLoopSurvivesPanic panics while a turn writes to one connection: that one is closed, and the
// next one is written to.
func TestLoopSurvivesPanic(t *testing.T) {
	t.Parallel()
	l, _, _ := newTestLoop(0, 0)
	near, far := net.Pipe()
	defer far.Close() //nolint:errcheck // nothing depends on it
	broken := newConn(l.engine, &Socket{Conn: near, Raw: panicking{}})
	broken.send([]byte{1})
	other := newConn(l.engine, &Socket{})
	other.pending.Store(true)
	l.touched = []*Conn{broken, other}
	l.flush()
	if !broken.closed || other.pending.Load() {
		t.Errorf("the broken one is closed: %v; the other is still to be written: %v", broken.closed, other.pending.Load())
	}
}

// panicking is a descriptor that panics when it is written to.
type panicking struct{ syscall.RawConn }

func (panicking) Write(func(uintptr) bool) error { panic("deliberate") }

// TestLoopDoesNotReadClosed leaves alone what the client of a closed connection has sent.
func TestLoopDoesNotReadClosed(t *testing.T) {
	t.Parallel()
	l, _, _ := newTestLoop(0, 0)
	near, far := pair(t)
	polled, err := poll.Take(rawOf(t, near))
	if err != nil {
		t.Skip("this system has no loops:", err)
	}
	if l.set, err = poll.NewSet[member](); err != nil {
		t.Skip("this system has no loops:", err)
	}
	c := newConn(l.engine, &Socket{Conn: near, Raw: rawOf(t, near), Polled: polled})
	c.in.reader.socket, c.in.reader.received = c.socket, new(atomic.Int64)
	l.engine.addConn(c)
	if err := l.set.Add(polled, c); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Write([]byte{packet.TypePingreq << 4, 0}); err != nil {
		t.Fatal(err)
	}
	c.close(packet.ReasonAdministrativeAction)
	l.serve(c, 1)
	if n := c.in.reader.received.Load(); n > 0 {
		t.Fatalf("%d bytes were read", n)
	}
	<-c.done
	if err := l.engine.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
