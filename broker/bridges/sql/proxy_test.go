package sql

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox/broker/bridges/peertest"
)

// Faults of a proxy.
const (
	faultNone  = iota
	faultClose // drop the next response and close the connection
	faultDrop  // drop responses, keep the connection open
)

// faultProxy is a proxy in front of a database that can fail.
type faultProxy struct {
	listener net.Listener
	target   string
	fault    atomic.Int32
	dropped  chan struct{} // receives when a response was dropped
	work     sync.WaitGroup
}

// newFaultProxy starts a proxy for a database. It ends with the test.
func newFaultProxy(t *testing.T, d *peertest.Database) *faultProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &faultProxy{listener: l, target: d.Address(), dropped: make(chan struct{}, 100)}
	w.work.Go(w.accept)
	t.Cleanup(func() {
		l.Close()
		w.work.Wait()
	})
	return w
}

func (w *faultProxy) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.target)
		if err != nil {
			client.Close()
			continue
		}
		w.work.Go(func() {
			io.Copy(server, client) //nolint:errcheck // either end may close
			server.Close()
		})
		w.work.Go(func() { w.forwardResponses(client, server) })
	}
}

// forwardResponses forwards responses.
func (w *faultProxy) forwardResponses(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := server.Read(b)
		if err != nil {
			return
		}
		switch w.fault.Load() {
		case faultClose:
			w.dropped <- struct{}{}
			return
		case faultDrop:
			w.dropped <- struct{}{}
			continue
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}

// port returns the port that the proxy listens on.
func (w *faultProxy) port(t *testing.T) int { return portOf(t, w.listener.Addr().String()) }
