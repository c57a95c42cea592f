package bridges_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
)

// logLines counts log lines.
type logLines struct {
	mu  sync.Mutex // guards all
	all []string
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

// count returns how many lines contain a text.
func (l *logLines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// startLogged opens a fake bridge with a recorded log, on a store in memory.
func startLogged(t *testing.T) (*bridges.Engine, *bridgestest.Broker, *bridgestest.Kind, *logLines) {
	t.Helper()
	out, k, b := &logLines{}, &bridgestest.Kind{}, &bridgestest.Broker{}
	h := bridges.NewHost(&bridgestest.Store{}, []bridges.Kind{k}, slog.New(slog.NewTextHandler(out, nil)))
	e := h.Open("b", "here", b)
	must(t, e.Ready(t.Context()))
	t.Cleanup(func() { must(t, e.Close(context.Background())) })
	return e, b, k, out
}

// TestLogOfADay has each kind of problem last for a day: the log has its beginning and its end,
// and unstable connections now and then.
func TestLogOfADay(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(target *bridgestest.Target) (over func()){
		"it is away": func(target *bridgestest.Target) func() {
			target.SetUnavailable(errors.New("away"))
			return func() { target.SetUnavailable(nil) }
		},
		"it is reached and takes nothing": func(target *bridgestest.Target) func() {
			target.HandleBatches(func(context.Context, []*bridges.Entry, []bridges.Result) error { return errors.New("busy") })
			return func() { target.HandleBatches(nil) }
		},
		"it is reached and hangs up": func(target *bridgestest.Target) func() {
			target.HandleBatches(func(context.Context, []*bridges.Entry, []bridges.Result) error {
				return &bridges.Lost{Err: errors.New("it hung up")}
			})
			return func() { target.HandleBatches(nil) }
		},
		"it says something else each time": func(target *bridgestest.Target) func() {
			n := 0
			target.HandleBatches(func(context.Context, []*bridges.Entry, []bridges.Result) error {
				n++
				return fmt.Errorf("request %d failed", n)
			})
			return func() { target.HandleBatches(nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, b, k, out := startLogged(t)
				must(t, e.SetBridgeConfig(t.Context(), fake, []byte(doc(conn("c")))))
				synctest.Wait()
				over := trouble(k.Target("t"))
				publishTexts(b, "a/b", "1")
				elapse(24 * time.Hour)
				if n := out.count("connection of a bridge fails"); n != 1 {
					t.Errorf("the log has %d lines about trouble, want one", n)
				}
				works := out.count("bridge works")
				over()
				elapse(time.Minute)
				if n := out.count("bridge works"); n != works+1 {
					t.Errorf("the log says %d times that it works, want %d", n, works+1)
				}
			})
		})
	}
}

// TestLogOfAnUnstableTarget has a target become unavailable and available each minute of a day.
func TestLogOfAnUnstableTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _, k, out := startLogged(t)
		must(t, e.SetBridgeConfig(t.Context(), fake, []byte(doc(conn("c")))))
		synctest.Wait()
		for range 24 * 60 {
			k.Target("t").SetUnavailable(errors.New("away"))
			elapse(30 * time.Second)
			k.Target("t").SetUnavailable(nil)
			elapse(30 * time.Second)
		}
		if n := out.count(""); n < 100 || n > 300 {
			t.Errorf("the log has %d lines", n)
		}
		k.Target("t").SetUnavailable(errors.New("away"))
		elapse(time.Hour)
		if failures, works := out.count("connection of a bridge fails"), out.count("bridge works"); failures != works {
			t.Errorf("the log says %d times that there is a failure, which lasts, and %d times that it works", failures, works)
		}
	})
}

// TestDisabledHasNoProblem checks that the problem of a connection is cleared when it is disabled.
func TestDisabledHasNoProblem(t *testing.T) {
	t.Parallel()
	s := &bridgestest.Store{}
	must(t, s.PutConfig(t.Context(), "b", fake, []byte(doc(strings.Replace(conn("c"), `"x"`, `"NO"`, 1))), []string{"c"}))
	r := bridgestest.Start(t, &bridgestest.Kind{}, s)
	if r.Status("c").Error == "" {
		t.Fatal("a stored configuration that cannot be used is no trouble")
	}
	r.Set(doc(strings.Replace(conn("c"), `{"name"`, `{"enabled":false,"name"`, 1)))
	if got := r.Status("c").Error; got != "" {
		t.Errorf("the error of a connection that is switched off is %q", got)
	}
}
