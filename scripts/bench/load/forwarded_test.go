//go:build linux

package load

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// TestForwarded counts messages with a second subscriber, in place of a bridge.
func TestForwarded(t *testing.T) {
	t.Parallel()
	target := startProduct(t)
	for _, c := range []struct {
		name string
		qos  byte
		most int
		rate int
	}{
		{"QoS 0", 0, 100, 0}, {"QoS 1", 1, 100, 0}, {"QoS 0 with a rate", 0, 0, 2_000}, {"QoS 1 with a rate", 1, 0, 2_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			const publishers, messages = 4, 400
			var done atomic.Int64
			f := Flow{Publishers: publishers, Topics: publishers, Name: "forwarded", QoS: c.qos, Window: 10, Rate: c.rate, Acked: true, Pings: c.qos == 0}
			s, err := Forwarded{Flow: f, Most: c.most, Done: func(context.Context) (int64, error) { return done.Add(50), nil }}.Open(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				pass, err := s.Play(t.Context(), messages)
				if err != nil || pass.Delivered != messages {
					t.Fatalf("got %d messages and %v, want %d", pass.Delivered, err, messages)
				}
				timed := 0
				if c.rate > 0 {
					timed = messages
				}
				if len(pass.Latencies) != timed || !slices.IsSorted(pass.Latencies) || timed > 0 && (pass.Latencies[0] <= 0 || pass.Latencies[timed-1] > time.Minute) {
					t.Errorf("got %d latencies, want %d that are sorted and likely", len(pass.Latencies), timed)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestForwarded_reports_errors_of_Done makes Done fail, at once and later.
func TestForwarded_reports_errors_of_Done(t *testing.T) {
	t.Parallel()
	target := startProduct(t)
	errUnavailable := errors.New("unavailable")
	for after := range int64(2) {
		var asked atomic.Int64
		f := Flow{Publishers: 1, Topics: 1, Name: "mute", QoS: 1, Window: 10}
		s, err := Forwarded{Flow: f, Most: 50, Done: func(context.Context) (int64, error) {
			if asked.Add(1) > after {
				return 0, errUnavailable
			}
			return 0, nil
		}}.Open(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Play(t.Context(), 100); !errors.Is(err, errUnavailable) {
			t.Errorf("got %v after %d answers, want %v", err, after, errUnavailable)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
