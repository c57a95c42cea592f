package handlers

import (
	"testing"
	"time"
)

// TestMetricHistoryRange chooses the start, and the shortest step that is kept since then.
func TestMetricHistoryRange(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000)
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixMilli() }
	const day = 24 * time.Hour
	for _, c := range []struct {
		name  string
		r     MetricHistoryRequest
		to    time.Duration // before now
		start time.Duration // before now
		step  time.Duration
	}{
		{"nothing given", MetricHistoryRequest{}, 0, time.Hour, 10 * time.Second},
		{"an end only", MetricHistoryRequest{}, day, 25 * time.Hour, 5 * time.Minute},
		{"a range", MetricHistoryRequest{Range: "3d"}, 0, 3 * day, 5 * time.Minute},
		{"an earlier range", MetricHistoryRequest{Range: "1h"}, day - time.Hour, day, time.Minute},
		{"a step", MetricHistoryRequest{Step: 60}, 0, day, time.Minute},
		{"a step and a start", MetricHistoryRequest{Step: 600, From: ago(time.Minute)}, 0, time.Minute, 10 * time.Minute},
		{"an hour", MetricHistoryRequest{From: ago(time.Hour)}, 0, time.Hour, 10 * time.Second},
		{"more than an hour", MetricHistoryRequest{From: ago(time.Hour + time.Second)}, 0, time.Hour + time.Second, time.Minute},
		{"more than is kept", MetricHistoryRequest{From: ago(100 * day)}, 0, 100 * day, 10 * time.Minute},
		{"the future", MetricHistoryRequest{From: ago(-time.Hour)}, -2 * time.Hour, -time.Hour, 10 * time.Second},
	} {
		start := c.r.start(now.Add(-c.to))
		if got := now.Sub(start); got != c.start {
			t.Errorf("%s: starts %v before now, want %v", c.name, got, c.start)
		}
		if got := c.r.step(now.Sub(start)).Length; got != c.step {
			t.Errorf("%s: step %v, want %v", c.name, got, c.step)
		}
	}
}
