//go:build linux

package poll_test

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"signalbox/broker/embedded/poll"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// TestWaitReturnsOwners returns the owners of connections that have bytes or have ended, until
// they are removed.
func TestWaitReturnsOwners(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	far, conns := map[string]net.Conn{}, map[string]*poll.Conn{}
	for _, name := range []string{"a", "b", "c"} {
		conns[name], far[name] = pair(t)
		check(t, s.Add(conns[name], name))
	}
	write(t, far["a"], "x")
	want(t, s, "a")
	want(t, s, "a") // until it is read
	read(t, conns["a"], "x")
	write(t, far["b"], "y")
	want(t, s, "b")
	s.Remove(conns["b"])
	check(t, far["c"].Close())
	want(t, s, "c")
	if _, err := conns["c"].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading the end: %v", err)
	}
	s.Remove(conns["c"])
	check(t, s.Add(conns["b"], "b again"))
	want(t, s, "b again")
}

// TestWaitAfterSleep returns what arrived while the goroutine slept, and what arrives
// afterwards.
func TestWaitAfterSleep(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	near, far := pair(t)
	check(t, s.Add(near, "a"))
	for range 3 {
		write(t, far, "x")
		check(t, s.Sleep(time.Microsecond))
		want(t, s, "a")
		read(t, near, "x")
		waited := make(chan []string)
		go func() {
			list, _ := s.Wait(nil)
			waited <- list
		}()
		write(t, far, "y")
		if list := <-waited; !slices.Equal(list, []string{"a"}) {
			t.Errorf("%q waited for, want a", list)
		}
		read(t, near, "y")
	}
}

// TestShutdownIsSomethingToRead makes a Set return a connection that this side has shut down.
func TestShutdownIsSomethingToRead(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	near, _ := pair(t)
	check(t, s.Add(near, "a"))
	near.Shutdown()
	want(t, s, "a")
	s.Remove(near)
	near.Close()
	if err := s.Add(near, "a"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("adding a closed connection: %v", err)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing to a closed connection: %v", err)
	}
	near.Shutdown()
	near.Close()
}

// TestCloseEndsWait ends a Wait under way.
func TestCloseEndsWait(t *testing.T) {
	t.Parallel()
	s, err := poll.NewSet[string]()
	check(t, err)
	ended := make(chan error)
	go func() {
		_, err := s.Wait(nil)
		ended <- err
	}()
	s.Close()
	if <-ended == nil {
		t.Error("no error")
	}
}

// TestReadAndWriteDoNotWait returns EAGAIN without bytes or space; Waiting waits, and ends at its
// deadline.
func TestReadAndWriteDoNotWait(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("reading nothing: %v", err)
	}
	var err error
	for part := make([]byte, 64<<10); err == nil; {
		_, err = near.Write(part)
	}
	if !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("writing without space: %v", err)
	}
	f, err := near.Waiting()
	check(t, err)
	check(t, f.SetWriteDeadline(time.Now().Add(time.Millisecond)))
	if _, err := f.Write(make([]byte, 16<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing until the deadline: %v", err)
	}
	check(t, near.SetReadDeadline(time.Now().Add(time.Millisecond)))
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading until the deadline: %v", err)
	}
	check(t, near.SetReadDeadline(time.Time{}))
	write(t, far, "x")
	if n, err := f.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("reading one byte: %d, %v", n, err)
	}
}

func newSet(t *testing.T) *poll.Set[string] {
	t.Helper()
	s, err := poll.NewSet[string]()
	check(t, err)
	t.Cleanup(func() {
		s.Close()
		s.Wait(nil) //nolint:errcheck // it releases the rest
	})
	return s
}

// pair returns both ends of a connection.
func pair(t *testing.T) (*poll.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close() //nolint:errcheck // nothing depends on it
	far, err := net.Dial("tcp", l.Addr().String())
	check(t, err)
	t.Cleanup(func() { far.Close() })
	accepted, err := l.Accept()
	check(t, err)
	raw, err := accepted.(*net.TCPConn).SyscallConn()
	check(t, err)
	near, err := poll.Take(raw)
	check(t, err)
	check(t, accepted.Close())
	t.Cleanup(near.Close)
	return near, far
}

func want(t *testing.T, s *poll.Set[string], owner string) {
	t.Helper()
	list, err := s.Wait(nil)
	if check(t, err); !slices.Equal(list, []string{owner}) {
		t.Fatalf("%q have something to read, want %q", list, owner)
	}
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := c.Write([]byte(text))
	check(t, err)
}

func read(t *testing.T, c *poll.Conn, text string) {
	t.Helper()
	p := make([]byte, 10)
	n, err := c.Read(p)
	if check(t, err); string(p[:n]) != text {
		t.Fatalf("got %q, want %q", p[:n], text)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
