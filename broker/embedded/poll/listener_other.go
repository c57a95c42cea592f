//go:build !linux

package poll

import (
	"errors"
	"net/netip"
	"syscall"
)

// Listener does not exist on this system.
type Listener struct{ Socket *Conn }

// Listen returns an error.
func Listen(syscall.RawConn) (*Listener, error) { return nil, errors.ErrUnsupported }

// Accept is never called.
func (*Listener) Accept() (*Conn, netip.AddrPort, error) {
	return nil, netip.AddrPort{}, errors.ErrUnsupported
}
