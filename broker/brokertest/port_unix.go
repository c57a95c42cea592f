//go:build unix

package brokertest

import "syscall"

// dontReuse takes back that a port may be had on which connections are still
// being forgotten: a WebSocket listener of Mosquitto's does not get it.
func dontReuse(_, _ string, c syscall.RawConn) error {
	var err error
	e := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0)
	})
	if e != nil {
		return e
	}
	return err
}
