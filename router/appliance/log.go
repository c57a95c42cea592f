package appliance

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"signalbox/handlers"
)

// Log is the destination of the service's log. It is closed after the service has
// ended.
type Log struct {
	Logger *slog.Logger
	Level  *handlers.LogLevel
	file   *logFile // nil for standard error
}

// OpenLog opens the log of a valid configuration: its file, or else stderr.
func OpenLog(c LogConfig, stderr io.Writer) (*Log, error) {
	if c.File == "" {
		return c.logger(stderr), nil
	}
	f := &logFile{path: c.File, maxSize: c.MaxSize, maxFiles: c.MaxFiles}
	if err := f.reopen(); err != nil {
		return nil, fmt.Errorf("log.file: %w; make its folder writable, or configure another file", err)
	}
	l := c.logger(f)
	l.file = f
	return l, nil
}

// Reopen opens the file again, as after it was renamed. If that fails, the previous
// file stays in use.
func (l *Log) Reopen() error {
	if l.file == nil {
		return nil
	}
	return l.file.reopen()
}

// Close closes the file.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	l.file.mu.Lock()
	defer l.file.mu.Unlock()
	return l.file.open.Close()
}

// logFile is a file that can be reopened while it is written to, and that is renamed to path.1, and
// so on, when it has become too large.
type logFile struct {
	path     string
	maxSize  int64 // bytes; 0 for any size
	maxFiles int   // with older parts

	mu    sync.Mutex // protects the fields below
	open  *os.File
	size  int64
	retry int64 // size from which a rotation that failed is tried again
}

// Write appends to the file. A line that would make it too large begins a new one; if that
// fails, as in a folder that became read-only, the file grows on.
func (f *logFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if limit := max(f.maxSize, f.retry); f.maxSize > 0 && f.size > 0 && f.size+int64(len(p)) > limit {
		if err := f.rotate(); err != nil {
			f.retry = f.size + f.maxSize/16
		}
	}
	n, err := f.open.Write(p)
	f.size += int64(n)
	return n, err
}

// rotate renames the file and its older parts, of which the last one is replaced, and opens a
// new file.
func (f *logFile) rotate() error {
	name := func(n int) string { return fmt.Sprintf("%s.%d", f.path, n) }
	for n := f.maxFiles - 2; n > 0; n-- {
		if err := os.Rename(name(n), name(n+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var err error
	if f.maxFiles > 1 {
		err = os.Rename(f.path, name(1))
	} else {
		err = os.Remove(f.path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.swap()
}

func (f *logFile) reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.swap()
}

// swap opens the file, and closes the one before. f.mu is held.
func (f *logFile) swap() error {
	next, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := next.Stat()
	if err != nil {
		return errors.Join(err, next.Close())
	}
	last := f.open
	f.open, f.size, f.retry = next, info.Size(), 0
	if !info.Mode().IsRegular() { // such as a pipe, which is not renamed
		f.size, f.maxSize = 0, 0
	}
	if last == nil {
		return nil
	}
	return last.Close()
}
