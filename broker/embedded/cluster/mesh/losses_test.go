package mesh

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// buffer collects log output.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// take returns what was written since the last call.
func (b *buffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.b.Reset()
	return b.b.String()
}

// TestLossesAreLogged logs the first loss at once, and later ones as totals once a minute.
func TestLossesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		l := NewLosses(slog.New(slog.NewTextHandler(&out, nil)))
		lines := func() []string {
			<-time.After(time.Nanosecond) // so that a timer that is due fires
			synctest.Wait()
			text := strings.TrimSpace(out.take())
			if text == "" {
				return nil
			}
			return strings.Split(text, "\n")
		}
		l.Add(LostUnreachable, 3, 0)
		if got := lines(); got != nil {
			t.Errorf("logged without a loss: %q", got)
		}
		l.Add(LostUnreachable, 3, 20)
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "reason=node-unreachable node=3 messages=20 total=20") {
			t.Errorf("the first loss: %q", got)
		}
		for range 1000 {
			l.Add(LostUnreachable, 3, 1)
		}
		l.Add(LostSuperseded, 2, 5)
		if got := lines(); got != nil {
			t.Errorf("logged again within a minute: %q", got)
		}
		<-time.After(logInterval)
		got := strings.Join(lines(), "\n")
		for _, want := range []string{"reason=node-unreachable node=3 messages=1000 total=1020", "reason=session-superseded node=2 messages=5 total=5"} {
			if strings.Count(got, want) != 1 {
				t.Errorf("after a minute, %q was logged, without %q", got, want)
			}
		}
		l.Add(LostUnreachable, 3, 1)
		l.Report()
		if got := lines(); len(got) != 1 {
			t.Errorf("at the end: %q", got)
		}
		if n := l.Total(LostUnreachable); n != 1021 {
			t.Errorf("the total is %d", n)
		}
	})
}
