package cluster

import (
	"context"
	"syscall"
)

// optTCPUserTimeout is TCP_USER_TIMEOUT of tcp(7), in milliseconds.
const optTCPUserTimeout = 18

// setTCPUserTimeout bounds how long sent data may stay unacknowledged (RFC 5482).
// Connections that are accepted inherit it from the listening socket.
func setTCPUserTimeout(_ context.Context, _, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, optTCPUserTimeout, int(tcpTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
