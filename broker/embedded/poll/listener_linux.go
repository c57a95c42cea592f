package poll

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Listener is a listening TCP socket that the runtime does not poll. Its connections are not
// polled either.
type Listener struct{ Socket *Conn }

// inherited are the options that package net sets for each connection. The kernel passes those of
// a listening socket on.
var inherited = []struct{ level, option, value int }{
	{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
	{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
	{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
	{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
	{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
}

// Listen returns a Listener of a listening TCP socket. The caller closes the original, which ends
// the runtime's polling of it.
func Listen(original syscall.RawConn) (*Listener, error) {
	c, err := Take(original)
	if err != nil {
		return nil, err
	}
	for _, o := range inherited {
		if err := unix.SetsockoptInt(c.fd, o.level, o.option, o.value); err != nil {
			c.Close()
			return nil, os.NewSyscallError("setsockopt", err)
		}
	}
	return &Listener{c}, nil
}

// Accept accepts a connection, and returns the address of the peer. It returns EAGAIN if there is
// none.
func (l *Listener) Accept() (*Conn, netip.AddrPort, error) {
	l.Socket.mu.RLock()
	defer l.Socket.mu.RUnlock()
	if l.Socket.closed {
		return nil, netip.AddrPort{}, net.ErrClosed
	}
	for {
		var peer unix.RawSockaddrInet6 // large enough for both versions
		size := uint32(unsafe.Sizeof(peer))
		fd, _, errno := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(l.Socket.fd), uintptr(unsafe.Pointer(&peer)), uintptr(unsafe.Pointer(&size)),
			unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		switch errno {
		case 0:
			return &Conn{fd: int(fd)}, addressOf(&peer), nil
		case syscall.EINTR, syscall.ECONNABORTED:
		case syscall.EAGAIN:
			return nil, netip.AddrPort{}, errno
		default:
			return nil, netip.AddrPort{}, os.NewSyscallError("accept4", errno)
		}
	}
}

// addressOf converts the address of a peer.
func addressOf(peer *unix.RawSockaddrInet6) netip.AddrPort {
	if peer.Family == unix.AF_INET {
		four := (*unix.RawSockaddrInet4)(unsafe.Pointer(peer))
		return netip.AddrPortFrom(netip.AddrFrom4(four.Addr), inOrder(four.Port))
	}
	address := netip.AddrFrom16(peer.Addr).Unmap()
	if peer.Scope_id != 0 { // the name of the interface would have to be looked up
		address = address.WithZone(strconv.FormatUint(uint64(peer.Scope_id), 10))
	}
	return netip.AddrPortFrom(address, inOrder(peer.Port))
}

// inOrder converts a port from the order of the network.
func inOrder(port uint16) uint16 {
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, port))
}
