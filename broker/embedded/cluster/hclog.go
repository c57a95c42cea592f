package cluster

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLog makes a log for raft that ends in ours. What raft calls an error is
// mostly that another node is away, which it says again each time it tries; so it
// is a warning here, and told once a minute. Its routine is for debugging.
func raftLog(to *slog.Logger, now func() time.Time) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Off, Output: io.Discard})
	l.RegisterSink(&sink{to: to.With("of", "raft"), now: now, told: map[string]time.Time{}})
	return l
}

// sink takes what raft logs.
type sink struct {
	to  *slog.Logger
	now func() time.Time

	mu   sync.Mutex // guards told
	told map[string]time.Time
}

const (
	tellAgain = time.Minute
	maxTold   = 64 // messages that are remembered; the oldest memories lose
)

// Accept logs one message of raft's.
func (s *sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	switch {
	case level < hclog.Info:
	case level < hclog.Warn:
		s.to.Debug(msg, plain(args)...) //nolint:sloglint // the constant is raft's
	case s.anew(msg):
		s.to.Warn(msg, plain(args)...) //nolint:sloglint // the constant is raft's
	}
}

// anew tells whether a message was not told for a while.
func (s *sink) anew(msg string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if at, ok := s.told[msg]; ok && now.Sub(at) < tellAgain && !now.Before(at) {
		return false
	}
	if len(s.told) >= maxTold {
		clear(s.told)
	}
	s.told[msg] = now
	return true
}

// plain makes values of raft's own formatting readable to slog.
func plain(args []any) []any {
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = f[0]
		}
	}
	return args
}
