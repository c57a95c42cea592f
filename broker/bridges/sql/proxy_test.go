package sql

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox/broker/bridges/peertest"
	"signalbox/scripts/suite"
)

// Faults of a proxy.
const (
	faultNone  = iota
	faultClose // drop the next response and close the connection
	faultDrop  // drop responses, keep the connection open
)

// faultProxy is a proxy in front of a database that can fail.
type faultProxy struct {
	address string // host:port
	target  string
	fault   atomic.Int32
	dropped chan struct{} // receives when a response was dropped
}

// newFaultProxy starts a proxy for a database. It ends with the test.
func newFaultProxy(t *testing.T, d *peertest.Database) *faultProxy {
	t.Helper()
	w := &faultProxy{target: d.Address(), dropped: make(chan struct{}, 100)}
	w.address = suite.Listen(t, w.serve)
	return w
}

func (w *faultProxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	var requests sync.WaitGroup
	requests.Go(func() {
		io.Copy(server, client) //nolint:errcheck // either end may close
		server.Close()
	})
	w.forwardResponses(client, server)
	requests.Wait()
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
func (w *faultProxy) port(t *testing.T) int { return portOf(t, w.address) }
