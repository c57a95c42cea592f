package cluster

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLog returns a logger for raft that writes to slog. Most of raft's errors mean that another
// node is away, and repeat with each attempt; so they are logged as warnings, each at most once a
// minute. Its other messages are logged for debugging.
func raftLog(to *slog.Logger, now func() time.Time) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Off, Output: io.Discard})
	l.RegisterSink(&raftLogAdapter{to: to.With("of", "raft"), now: now, logged: map[string]time.Time{}})
	return l
}

// raftLogAdapter writes raft's log messages to slog.
type raftLogAdapter struct {
	to  *slog.Logger
	now func() time.Time

	mu     sync.Mutex // guards logged
	logged map[string]time.Time
}

const (
	repeatInterval = time.Minute
	maxLogged      = 64 // messages whose time is remembered
)

// Accept logs a message of raft.
func (s *raftLogAdapter) Accept(_ string, level hclog.Level, msg string, args ...any) {
	switch {
	case level < hclog.Info:
	case level < hclog.Warn:
		s.to.Debug(msg, plain(args)...) //nolint:sloglint // the constant is raft's
	case s.isDue(msg):
		s.to.Warn(msg, plain(args)...) //nolint:sloglint // the constant is raft's
	}
}

// isDue reports whether a message was not logged for repeatInterval.
func (s *raftLogAdapter) isDue(msg string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if at, ok := s.logged[msg]; ok && now.Sub(at) < repeatInterval && !now.Before(at) {
		return false
	}
	if len(s.logged) >= maxLogged {
		clear(s.logged)
	}
	s.logged[msg] = now
	return true
}

// plain converts values with hclog's formatting for slog.
func plain(args []any) []any {
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = f[0]
		}
	}
	return args
}
