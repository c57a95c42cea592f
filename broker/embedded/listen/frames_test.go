package listen

import (
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// masked returns a client's frame of a few bytes.
func masked(first byte, payload string) []byte {
	b := []byte{first, bitMask | byte(len(payload)), 1, 2, 3, 4}
	for i := range len(payload) {
		b = append(b, payload[i]^b[2+i%4])
	}
	return b
}

// TestPongDoesNotWaitForPeer: a peer that does not read does not block the reader, even if
// no deadline was set, or one that has long passed.
func TestPongDoesNotWaitForPeer(t *testing.T) {
	t.Parallel()
	for name, deadline := range map[string]func() time.Time{
		"none": func() time.Time { return time.Time{} },
		"old":  func() time.Time { return time.Now().Add(-time.Hour) },
		"far":  func() time.Time { return time.Now().Add(time.Hour) },
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			f := &frames{Conn: near}
			f.SetWriteDeadline(deadline())
			go far.Write(masked(bitFinal|opPing, "x"))
			if _, err := f.Read(make([]byte, 100)); !os.IsTimeout(err) {
				t.Errorf("deadline %s: %v", name, err)
			}
			if _, err := f.Read(make([]byte, 100)); !os.IsTimeout(err) {
				t.Errorf("deadline %s, read again: %v", name, err)
			}
			near.Close()
		})
	}
}

// TestPongKeepsTheCallersDeadline, while it is sent and afterwards.
func TestPongKeepsTheCallersDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		f := &frames{Conn: near}
		began := time.Now()
		f.SetDeadline(began.Add(answerTimeout / 2))
		go far.Write(masked(bitFinal|opPing, "x"))
		if _, err := f.Read(make([]byte, 100)); !os.IsTimeout(err) || time.Since(began) != answerTimeout/2 {
			t.Errorf("a hurried pong took %s: %v", time.Since(began), err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		f := &frames{Conn: near}
		began := time.Now()
		f.SetWriteDeadline(began.Add(time.Hour))
		go func() {
			far.Write(masked(bitFinal|opPing, "x"))
			io.ReadFull(far, make([]byte, 3))
			far.Write(masked(bitFinal|opBinary, "y"))
		}()
		if _, err := f.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("z")); !os.IsTimeout(err) || time.Since(began) != time.Hour {
			t.Errorf("a write after a pong took %s: %v", time.Since(began), err)
		}
	})
}

// TestNoFrameAfterAPartialOne: the peer could not distinguish them.
func TestNoFrameAfterAPartialOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		f := &frames{Conn: near}
		go io.ReadFull(far, make([]byte, 10))
		f.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := f.Write(make([]byte, 100))
		if n != 8 || !os.IsTimeout(err) {
			t.Fatalf("wrote %d bytes, %v", n, err)
		}
		f.SetWriteDeadline(time.Time{})
		if n, err := f.Write([]byte("x")); n != 0 || !os.IsTimeout(err) {
			t.Errorf("wrote %d bytes more, %v", n, err)
		}
		f.Close() // writes nothing, or it would wait
	})
}
