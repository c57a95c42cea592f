package appliance

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// Log is the destination of the service's log. It is closed after the service has
// ended.
type Log struct {
	Logger *slog.Logger
	file   *logFile // nil for standard error
}

// OpenLog opens the log of a valid configuration: its file, or else stderr.
func OpenLog(c LogConfig, stderr io.Writer) (*Log, error) {
	if c.File == "" {
		return &Log{Logger: c.logger(stderr)}, nil
	}
	f := &logFile{path: c.File}
	if err := f.reopen(); err != nil {
		return nil, fmt.Errorf("log.file: %w; make its folder writable, or configure another file", err)
	}
	return &Log{Logger: c.logger(f), file: f}, nil
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

// logFile is a file that can be reopened while it is written to.
type logFile struct {
	path string
	mu   sync.Mutex // protects open
	open *os.File
}

// Write appends to the file.
func (f *logFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open.Write(p)
}

func (f *logFile) reopen() error {
	next, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	f.mu.Lock()
	last := f.open
	f.open = next
	f.mu.Unlock()
	if last == nil {
		return nil
	}
	return last.Close()
}
