//go:build !linux

package cluster

import (
	"context"
	"syscall"
)

// setTCPUserTimeout does nothing: the system decides how long sent data may stay unacknowledged.
func setTCPUserTimeout(context.Context, string, string, syscall.RawConn) error { return nil }
