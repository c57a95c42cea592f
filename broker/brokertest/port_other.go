//go:build !unix

package brokertest

import "syscall"

// dontReuse has nothing to take back here.
func dontReuse(string, string, syscall.RawConn) error { return nil }
