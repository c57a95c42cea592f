package listen

import (
	"net"
	"path/filepath"
	"testing"
)

// TestStopWaitingEndsAWrite that is under way, and makes later ones return at once.
func TestStopWaitingEndsAWrite(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	s := &socket{descriptor: accepted.(descriptor), counters: &Counters{}}
	done := make(chan error)
	go func() {
		for {
			if _, err := s.Write(make([]byte, 1<<20)); err != nil {
				done <- err
				return
			}
		}
	}()
	peer.Read(make([]byte, 1)) // the write has started; the peer reads nothing more
	s.stopWaiting()
	if err := <-done; err == nil {
		t.Error("the write went on")
	}
	if n, err := s.Write(make([]byte, 1<<20)); n == 1<<20 || err == nil {
		t.Errorf("%d bytes were taken, %v", n, err)
	}
}
