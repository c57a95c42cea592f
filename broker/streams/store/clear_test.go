package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"signalbox/broker/streams"
)

// TestClearIncludesPendingMessages checks that Clear deletes messages that are
// not stored yet, and none that are appended after it.
func TestClearIncludesPendingMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		l := stream(t, s, "s", 0)
		must(t, s.file.Lock(t.Context()))
		for at := range int64(10) {
			appendAsync(t, l, messages(at, 1)...)
		}
		cleared := make(chan error, 1)
		go func() { cleared <- l.Clear(t.Context(), streams.Range{From: 2, To: 100}) }()
		synctest.Wait()
		appendAsync(t, l, messages(50, 2)...)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Clear(ctx, streams.Range{From: 51, To: 51}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		s.file.Unlock()
		must(t, <-cleared, <-appendAsync(t, l))
		synctest.Wait()
		wantTimes(t, l, 0, 1, 50) // the caller's context has ended, but the deletion still happens
		checkFile(t, s)
	})
}

// TestClearMuch takes several transactions, and stores messages in between.
func TestClearMuch(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	l := stream(t, s, "s", 0)
	for at := range int64(3 * listLimit) {
		appendAndWait(t, l, messages(2*at, 1)...)
	}
	big := messages(3000, 20)
	for i := range big {
		big[i].Payload = make([]byte, 2<<20)
	}
	appendAndWait(t, l, big...)
	must(t, l.Clear(t.Context(), streams.Range{From: 3, To: 3018}))
	wantTimes(t, l, 0, 2, 3019)
	checkFile(t, s)
}

// TestDamage has blocks that cannot be read. They are logged, counted as
// evicted and deleted; the others can be read.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, meets := range map[string]func(t *testing.T, l *Log){
		"read":  func(t *testing.T, l *Log) { read(t, l, allTimes, false) },
		"count": func(t *testing.T, l *Log) { must(t, errorOf(l.Count(t.Context(), streams.Range{From: 2, To: 8}))) },
		"clear": func(t *testing.T, l *Log) { must(t, l.Clear(t.Context(), streams.Range{From: 2, To: 2})) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				said := &strings.Builder{}
				s := fresh(t, Options{Log: textLogger(said)})
				l := stream(t, s, "s", 0)
				for at := int64(1); at < 9; at += 3 {
					appendAndWait(t, l, messages(at, 3)...)
				}
				execOnWriter(t, s, `UPDATE block SET messages = substr(messages, 1, length(messages) - 1) WHERE first_at = 1`)
				meets(t, l)
				synctest.Wait()
				wantTimes(t, l, 4, 5, 6, 7, 8, 9)
				if u := l.Usage(); u.Evicted != 3 {
					t.Errorf("counted %d messages as evicted, want 3", u.Evicted)
				}
				if got := said.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "damaged") || strings.Contains(got, "payload") {
					t.Errorf("logged %s", got)
				}
				checkFile(t, s)
			})
		})
	}
}
