package appliance

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
)

// TestRecentLog keeps the last lines within their bounds, with all that a line can have, and warnings
// and errors longer than other lines.
func TestRecentLog(t *testing.T) {
	t.Parallel()
	var level slog.LevelVar
	var r recentLog
	log := r.with(slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: &level})))
	log.Debug("not enabled")
	level.Set(slog.LevelDebug)
	log.With("part", "broker").WithGroup("g").Warn("a \"quoted\" one\nin two", "n", 1)
	got := r.last(10, slog.LevelDebug)
	if len(got) != 1 || got[0].Level != "warn" || got[0].Message != "a \"quoted\" one\nin two" || got[0].Attributes != "part=broker g.n=1" || got[0].Time.IsZero() {
		t.Fatalf("got %+v", got)
	}
	for i := range 3 * maxRecentLines {
		log.Debug("one", "n", i)
	}
	got = r.last(2*maxRecentLines, slog.LevelDebug)
	if last := got[len(got)-1]; len(got) != maxRecentLines || last.Message != "one" || last.Attributes != fmt.Sprint("n=", 3*maxRecentLines-1) {
		t.Errorf("%d lines, the last %+v", len(got), last)
	}
	if got := r.last(10, slog.LevelWarn); len(got) != 1 || got[0].Attributes != "part=broker g.n=1" {
		t.Errorf("the warning is gone: %+v", got)
	}
	if got := r.last(10, slog.LevelError); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	for range maxRecentLines {
		log.Error(strings.Repeat("ä", maxRecentLine))
	}
	for _, lines := range []lastLines{r.all, r.problems} {
		if lines.size > maxRecent || len(lines.lines) < maxRecent/maxRecentLine-2 {
			t.Errorf("%d lines of %d bytes", len(lines.lines), lines.size)
		}
	}
	got = r.last(1, slog.LevelError)
	if text := got[0].Message; len(text) > maxRecentLine || !strings.HasSuffix(text, "ä…") {
		t.Errorf("a long line ends with %q", text[len(text)-8:])
	}
}
