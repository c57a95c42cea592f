package handlers

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// logLevelTime is how long a changed level of the log applies.
const logLevelTime = 10 * time.Minute

// LogLevel is the least level that is logged. A change of it ends by itself, and with the process.
type LogLevel struct {
	configured slog.Level
	current    slog.LevelVar

	mu    sync.Mutex // guards the fields below
	until time.Time  // zero: the level is the configured one
	end   *time.Timer
}

// NewLogLevel returns a level.
func NewLogLevel(configured slog.Level) *LogLevel {
	l := &LogLevel{configured: configured}
	l.current.Set(configured)
	return l
}

// Level implements slog.Leveler.
func (l *LogLevel) Level() slog.Level { return l.current.Level() }

// set changes the level until a time has passed.
func (l *LogLevel) set(to slog.Level, during time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end.Stop()
	}
	l.current.Set(to)
	l.until = time.Time{}
	if to == l.configured {
		return
	}
	until := time.Now().Add(during)
	l.until, l.end = until, time.AfterFunc(during, func() { l.reset(until) })
}

// reset ends the change that was to end at a time, unless there was another one since.
func (l *LogLevel) reset(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until.Equal(until) {
		l.current.Set(l.configured)
		l.until = time.Time{}
	}
}

// GetLogLevelRequest is empty.
type GetLogLevelRequest struct{}

// LogLevelRecord is the level of the log.
type LogLevelRecord struct {
	Level      string     `json:"level" enum:"debug|info|warn|error" doc:"Least level that is logged now." example:"debug"`
	Configured string     `json:"configured" enum:"debug|info|warn|error" doc:"Level of the configuration, log.level." example:"info"`
	Until      *time.Time `json:"until" nullable:"true" doc:"When the configured level applies again; null while it does." example:"2026-01-01T12:10:00Z"`
}

// GetLogLevel returns the level of the log.
func (a *API) GetLogLevel(context.Context, *GetLogLevelRequest) (LogLevelRecord, error) {
	l := a.LogLevel
	l.mu.Lock()
	defer l.mu.Unlock()
	r := LogLevelRecord{Level: strings.ToLower(l.Level().String()), Configured: strings.ToLower(l.configured.String())}
	if !l.until.IsZero() {
		until := l.until.UTC()
		r.Until = &until
	}
	return r, nil
}

// SetLogLevelRequest has another level.
type SetLogLevelRequest struct {
	Body struct {
		Level string `json:"level" required:"true" enum:"debug|info|warn|error" doc:"Least level that is logged." example:"debug"`
	}
}

var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// SetLogLevel changes the level of the log for ten minutes.
func (a *API) SetLogLevel(_ context.Context, r *SetLogLevelRequest) error {
	a.LogLevel.set(logLevels[r.Body.Level], logLevelTime)
	return nil
}
