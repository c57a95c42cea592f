package engine

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// pair returns the two ends of a TCP connection.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return accepted.(*net.TCPConn), dialled.(*net.TCPConn)
}

func rawOf(t *testing.T, c *net.TCPConn) syscall.RawConn {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestReader reads with buffers that grow with what arrives, in parts of any length, and has no
// buffer when nothing is unhandled, with and without a descriptor.
func TestReader(t *testing.T) {
	t.Parallel()
	for _, raw := range []bool{true, false} {
		near, far := pair(t)
		s := &Socket{Conn: near}
		if raw {
			s.Raw = rawOf(t, near)
		}
		r := reader{socket: s, received: new(atomic.Int64)}
		want := make([]byte, 3<<20)
		dice := rand.New(rand.NewPCG(1, 11))
		for i := range want {
			want[i] = byte(dice.IntN(256))
		}
		go func() {
			far.Write(want) //nolint:errcheck // reading will tell
			far.CloseWrite()
		}()
		var got []byte
		need := 100 << 10 // a packet that is more than a buffer
		for {
			err := r.read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(r.buf) > 256<<10 { // the next power of two but one, for half a packet before it
				t.Fatalf("the buffer has %d bytes for packets of up to 100 KiB", len(r.buf))
			}
			if r.n >= need {
				got = append(got, r.buf[:need]...)
				r.take(need)
				need = 1 + dice.IntN(100<<10)
			}
		}
		got = append(got, r.buf[:r.n]...)
		r.take(r.n)
		if !bytes.Equal(got, want) {
			t.Errorf("raw %t: read %d bytes, other than the %d that were sent", raw, len(got), len(want))
		}
		if r.buf != nil || r.pooled != nil {
			t.Errorf("raw %t: a buffer is kept for nothing", raw)
		}
		if raw && r.received.Load() != int64(len(want)) {
			t.Errorf("counted %d bytes", r.received.Load())
		}
	}
}

// TestReaderReleasesBeforeWaiting shows that a silent connection has no buffer while it waits
// for bytes.
func TestReaderReleasesBeforeWaiting(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	waiting := make(chan bool, 1)
	r := reader{received: new(atomic.Int64)}
	r.socket = &Socket{Conn: near, Wait: func() error {
		waiting <- r.buf == nil
		return nil
	}}
	if _, err := far.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if err := r.read(); err != nil || r.n != 3 {
		t.Fatalf("read %d bytes, %v", r.n, err)
	}
	if !<-waiting {
		t.Error("a buffer was held while waiting")
	}
	r.take(2)
	if r.buf == nil || string(r.buf[:r.n]) != "c" {
		t.Error("what was not handled is lost")
	}
	r.take(1)
	if r.buf != nil {
		t.Error("a buffer is kept for nothing")
	}
}

// TestSocketWrite writes as much as possible at once, and the rest by waiting.
func TestSocketWrite(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	s := &Socket{Conn: near, Raw: rawOf(t, near)}
	want := bytes.Repeat([]byte("0123456789"), 2<<20)
	segments := [][]byte{want[:7], want[7 : 5<<20], want[5<<20:]}
	left, n, err := s.write(segments)
	if err != nil || len(left) == 0 {
		t.Fatalf("wrote %d bytes at once, %d segments are left, %v", n, len(left), err)
	}
	read := make(chan []byte, 1)
	go func() {
		got, _ := io.ReadAll(far)
		read <- got
	}()
	if _, err := s.writeWaiting(left, suite.HangLimit); err != nil {
		t.Fatal(err)
	}
	near.CloseWrite()
	if got := <-read; !bytes.Equal(got, want) {
		t.Errorf("%d bytes came, not the %d that were written", len(got), len(want))
	}
}

// trickle is a plain connection whose writes reach their deadlines after a given number of
// bytes.
type trickle struct {
	net.Conn
	takes []int
	calls int
}

func (c *trickle) SetWriteDeadline(time.Time) error { return nil }

func (c *trickle) Write(p []byte) (int, error) {
	n := len(p)
	if c.calls < len(c.takes) {
		n = c.takes[c.calls]
	}
	c.calls++
	if n < len(p) {
		return n, os.ErrDeadlineExceeded
	}
	return n, nil
}

// TestWriteSlowly fails if two deadlines pass without progress, but not if there is little
// progress. With TLS or WebSocket it fails at the first deadline.
func TestWriteSlowly(t *testing.T) {
	t.Parallel()
	near, _ := pair(t)
	raw := rawOf(t, near)
	for _, one := range []struct {
		raw   syscall.RawConn
		takes []int
		calls int
		ok    bool
	}{
		{raw, []int{0, 5, 0, 5, 0, 1}, 7, true},
		{raw, []int{5, 0, 0}, 3, false},
		{nil, []int{5}, 1, false},
		{nil, nil, 1, true},
	} {
		c := &trickle{takes: one.takes}
		_, err := (&Socket{Conn: c, Raw: one.raw}).writeWhole(c, make([]byte, 100), time.Second)
		if (err == nil) != one.ok || c.calls != one.calls {
			t.Errorf("taking %v: %v after %d writes", one.takes, err, c.calls)
		}
	}
}
