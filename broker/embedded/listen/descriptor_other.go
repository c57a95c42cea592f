//go:build !unix

package listen

import (
	"errors"
	"net"
	"os"
)

// Wait returns at once: this system cannot wait without a buffer.
func (s *socket) Wait() error { return nil }

// awaitEnd always fails: this system cannot detect the end without reading.
func (s *socket) awaitEnd() error { return errors.ErrUnsupported }

// writeAtOnce writes nothing: this system cannot write without blocking.
func (s *socket) writeAtOnce([]byte) (int, error) { return 0, net.ErrClosed }

// ours is always true: this system does not report a file's owner.
func ours(os.FileInfo) bool { return true }
