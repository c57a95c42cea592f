//go:build linux

package poll_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"signalbox/broker/embedded/poll"
)

// TestAccept returns connections and the addresses of their peers, as long as the socket is open.
func TestAccept(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // there may be no IPv6
			continue
		}
		raw, err := l.(*net.TCPListener).SyscallConn()
		check(t, err)
		socket, err := poll.Listen(raw)
		check(t, err)
		check(t, l.Close())
		s := newSet(t)
		check(t, s.Add(socket.Socket, "listener"))
		if _, _, err := socket.Accept(); !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("accepting nothing: %v", err)
		}
		far, err := net.Dial("tcp", l.Addr().String())
		check(t, err)
		want(t, s, "listener")
		near, peer, err := socket.Accept()
		check(t, err)
		if peer.String() != far.LocalAddr().String() {
			t.Errorf("%s: the peer is %s, want %s", address, peer, far.LocalAddr())
		}
		check(t, s.Add(near, "connection"))
		write(t, far, "x")
		want(t, s, "connection")
		read(t, near, "x")
		s.CloseMember(near)
		if _, err := far.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is open")
		}
		far.Close()
		socket.Socket.Close()
		if _, _, err := socket.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accepting on a closed socket: %v", err)
		}
	}
}

// TestCloseMember removes a connection, and one of which there is another descriptor. Others that
// get their numbers are returned under their own owners.
func TestCloseMember(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	for range 5 {
		plain, _ := pair(t)
		waiting, far := pair(t)
		_, err := waiting.Waiting()
		check(t, err)
		check(t, s.Add(plain, "plain"))
		check(t, s.Add(waiting, "waiting"))
		write(t, far, "x")
		want(t, s, "waiting")
		s.CloseMember(plain)
		s.CloseMember(waiting)
		s.CloseMember(waiting) // no effect
		next, other := pair(t)
		check(t, s.Add(next, "next"))
		write(t, other, "x")
		want(t, s, "next")
		s.Remove(next)
	}
}
