//go:build !unix

package listen

import (
	"errors"
	"net"
	"os"
)

// Wait does not wait: this system has no way to do so without a buffer.
func (s *socket) Wait() error { return nil }

// awaitEnd cannot tell: this system has no way to find out without reading.
func (s *socket) awaitEnd() error { return errors.ErrUnsupported }

// writeAtOnce writes nothing: this system has no way to do so without waiting.
func (s *socket) writeAtOnce([]byte) (int, error) { return 0, net.ErrClosed }

// ours is true: this system knows of no other user here.
func ours(os.FileInfo) bool { return true }
