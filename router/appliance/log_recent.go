package appliance

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	"signalbox/handlers"
)

// The bounds of the lines that are kept, in bytes where nothing else is said.
const (
	maxRecentLines = 1000 // lines
	maxRecentLine  = 4 << 10
	maxRecent      = 512 << 10
)

// recentLog keeps the last lines of the log in memory, wherever else they go: the log of a service is
// often where only the system's administrator can read it. Warnings and errors are kept apart, so
// that the many lines of requests do not displace them.
type recentLog struct {
	mu       sync.Mutex // protects the fields below
	all      lastLines
	problems lastLines // warnings and errors
}

// Write adds a line.
func (r *recentLog) Write(line []byte) (int, error) {
	text := bytes.TrimSuffix(line, []byte("\n"))
	if len(text) > maxRecentLine {
		text = append(bytes.ToValidUTF8(text[:maxRecentLine:maxRecentLine], nil), "…"...)
	}
	kept := string(text)
	level := levelOf(kept)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.add(kept)
	if level >= slog.LevelWarn {
		r.problems.add(kept)
	}
	return len(line), nil
}

// last returns the last lines that have at least a level, the oldest first.
func (r *recentLog) last(count int, least slog.Level) []handlers.LogLine {
	r.mu.Lock()
	from := &r.all
	if least >= slog.LevelWarn {
		from = &r.problems
	}
	lines := slices.Clone(from.lines)
	r.mu.Unlock()
	found := []handlers.LogLine{}
	for _, line := range slices.Backward(lines) {
		if len(found) == count {
			break
		}
		if levelOf(line) >= least {
			found = append(found, parseLine(line))
		}
	}
	slices.Reverse(found)
	return found
}

// text returns all lines as a file has them.
func (r *recentLog) text() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return []byte(strings.Join(r.all.lines, "\n") + "\n")
}

// lastLines are lines without their ends, the oldest first.
type lastLines struct {
	lines []string
	size  int // bytes of the lines
}

// add adds a line, and removes the first ones that exceed the bounds.
func (l *lastLines) add(line string) {
	l.lines = append(l.lines, line)
	l.size += len(line)
	for len(l.lines) > maxRecentLines || l.size > maxRecent {
		l.size -= len(l.lines[0])
		l.lines[0] = ""
		l.lines = l.lines[1:]
	}
}

// levelOf returns the level of a line of [slog.TextHandler].
func levelOf(line string) (level slog.Level) {
	_, rest, _ := strings.Cut(line, " level=")
	text, _, _ := strings.Cut(rest, " ")
	_ = level.UnmarshalText([]byte(text)) // that of the package
	return level
}

// parseLine splits such a line.
func parseLine(line string) (l handlers.LogLine) {
	l.Time, _ = timeOf(line)
	l.Level = strings.ToLower(levelOf(line).String())
	_, rest, _ := strings.Cut(line, " msg=")
	if quoted, err := strconv.QuotedPrefix(rest); err == nil {
		l.Message, _ = strconv.Unquote(quoted) // it is one
		l.Attributes = strings.TrimPrefix(rest[len(quoted):], " ")
		return l
	}
	l.Message, l.Attributes, _ = strings.Cut(rest, " ")
	return l
}

// with returns a logger that logs to another one, and here.
func (r *recentLog) with(log *slog.Logger) *slog.Logger {
	if log.Handler() == slog.DiscardHandler {
		return log
	}
	text := slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug})
	return slog.New(slog.NewMultiHandler(log.Handler(), enabledWith{text, log.Handler()}))
}

// enabledWith is a handler that handles the levels of another one.
type enabledWith struct {
	slog.Handler
	other slog.Handler
}

// Enabled implements [slog.Handler].
func (h enabledWith) Enabled(ctx context.Context, level slog.Level) bool {
	return h.other.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h enabledWith) WithAttrs(attrs []slog.Attr) slog.Handler {
	return enabledWith{h.Handler.WithAttrs(attrs), h.other}
}

// WithGroup implements [slog.Handler].
func (h enabledWith) WithGroup(name string) slog.Handler {
	return enabledWith{h.Handler.WithGroup(name), h.other}
}
