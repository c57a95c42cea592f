//go:build !unix

// Package poll waits for many connections at once, without a goroutine or a buffer for each.
package poll

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Conn does not exist on this system.
type Conn struct{}

// Take returns an error.
func Take(syscall.RawConn) (*Conn, error) { return nil, errors.ErrUnsupported }

// Share returns an error.
func Share(syscall.RawConn) (*Conn, error) { return nil, errors.ErrUnsupported }

// Read is never called.
func (*Conn) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Write is never called.
func (*Conn) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Waiting is never called.
func (*Conn) Waiting() (*os.File, error) { return nil, errors.ErrUnsupported }

// StopWaiting is never called.
func (*Conn) StopWaiting() {}

// WaitingLast is never called.
func (*Conn) WaitingLast() (*os.File, error) { return nil, errors.ErrUnsupported }

// SetReadDeadline is never called.
func (*Conn) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// Shutdown is never called.
func (*Conn) Shutdown() {}

// ShutdownRead is never called.
func (*Conn) ShutdownRead() {}

// Close is never called.
func (*Conn) Close() {}
