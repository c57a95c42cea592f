package cluster

import (
	"net"
	"syscall"
	"testing"

	"signalbox/scripts/suite"
)

// TestTCPUserTimeout checks that both ends of a connection fail when the other end does not
// respond.
func TestTCPUserTimeout(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1)
	addr, err := f.nodes[1].node.Addr(t.Context())
	must(t, err)
	conn, err := dialer("127.0.0.1:0", nil)(within(t, suite.HangLimit), addr)
	must(t, err)
	defer conn.Close()
	ends := []net.Conn{conn}
	p := f.nodes[1].node.port
	eventually(t, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for g := range p.conns {
			if g.raw.RemoteAddr().String() == conn.LocalAddr().String() {
				ends = append(ends, g.raw)
				return nil
			}
		}
		return net.ErrClosed
	})
	for i, end := range ends {
		raw, err := end.(*net.TCPConn).SyscallConn()
		must(t, err)
		must(t, raw.Control(func(fd uintptr) {
			got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, optTCPUserTimeout)
			if err != nil || got != int(tcpTimeout.Milliseconds()) {
				t.Errorf("end %d is given up after %d ms (%v)", i, got, err)
			}
		}))
	}
}
