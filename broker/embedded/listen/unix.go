package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// dialTimeout bounds the check whether an existing socket is being served.
const dialTimeout = time.Second

var (
	errNoSocket      = errors.New("the file is not a socket")
	errForeignSocket = errors.New("the socket belongs to another user")
)

// socketFile is the file of a Unix socket that this process has bound.
type socketFile struct {
	path string
	info os.FileInfo
}

// bindPath opens a Unix socket with its mode. A socket that a process of this user has left
// behind is replaced; nothing else is ever removed.
func bindPath(ctx context.Context, c Config) (net.Listener, *socketFile, error) {
	if err := clearPath(ctx, c.Address); err != nil {
		return nil, nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", c.Address)
	if err != nil {
		return nil, nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) //nolint:forcetypeassert // it is one
	mode, _ := c.socketMode()                     // validated
	file := &socketFile{path: c.Address}
	err = os.Chmod(c.Address, fs.FileMode(mode))
	if err == nil {
		file.info, err = os.Lstat(c.Address)
	}
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, file, nil
}

// clearPath removes a socket that is not being served.
func clearPath(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case info.Mode().Type() != fs.ModeSocket:
		return errNoSocket
	case !ours(info):
		return errForeignSocket
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(syscall.EADDRINUSE, conn.Close())
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w", syscall.EADDRINUSE, err) // perhaps; leave it
	}
	return os.Remove(path)
}

// remove removes the file if it is still the one that was bound.
func (f *socketFile) remove() {
	info, err := os.Lstat(f.path)
	if err == nil && os.SameFile(info, f.info) {
		os.Remove(f.path) //nolint:errcheck // the next start finds that it is not being served
	}
}
