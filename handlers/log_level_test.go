package handlers

import (
	"log/slog"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestLogLevelEnds lets a change of the level end, but not a later one.
func TestLogLevelEnds(t *testing.T) {
	t.Parallel()
	l := NewLogLevel(slog.LevelInfo)
	l.set(slog.LevelDebug, time.Millisecond)
	suite.WaitFor(t, "the configured level applies again", func() bool { return l.Level() == slog.LevelInfo })
	l.set(slog.LevelDebug, time.Hour)
	first := l.until
	l.set(slog.LevelError, 2*time.Hour)
	l.reset(first) // as a timer that has ended at the same moment
	if got := l.Level(); got != slog.LevelError {
		t.Errorf("the first change has ended the second one: %v", got)
	}
	l.set(slog.LevelInfo, time.Hour)
	if !l.until.IsZero() {
		t.Errorf("the configured level is to end at %v", l.until)
	}
}
