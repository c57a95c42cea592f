package monitor

import (
	"context"
	"fmt"
	"time"

	"signalbox/broker"
)

// Read returns the history of a broker from the interval that contains from to the one that
// contains to, as far as the step is kept. Intervals without samples are unknown.
func (h *History) Read(ctx context.Context, brokerID string, step Step, from, to time.Time) (broker.MetricHistory, error) {
	now := h.now()
	if to.After(now) {
		to = now
	}
	if oldest := now.Add(-step.Kept); from.Before(oldest) {
		from = oldest
	}
	first := step.begin(from.Unix())
	end := max(step.begin(to.Unix())+step.seconds(), first)
	c := newChart(step, first, end)
	if step == finest { // before the file is read: meanwhile they may be written
		h.addPending(brokerID, c)
	}
	err := h.file.access(ctx, func(s *store) error { return s.read(ctx, brokerID, step, first, end, c.set) })
	if err != nil {
		return broker.MetricHistory{}, fmt.Errorf("read the metric history of broker %s: %w", brokerID, err)
	}
	return c.history(), nil
}

// addPending adds the samples that are not written yet.
func (h *History) addPending(brokerID string, c *chart) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sources[brokerID]; s != nil {
		for _, r := range s.pending {
			c.set(storedInterval{at: r.at, mean: r.values, max: unknown()})
		}
	}
}

// chart is a history while it is read.
type chart struct {
	step       Step
	first, end int64 // epoch seconds
	mean, max  [metricCount][]*float64
}

func newChart(step Step, first, end int64) *chart {
	c := &chart{step: step, first: first, end: end}
	n := (end - first) / step.seconds()
	for i := range metricCount {
		c.mean[i] = make([]*float64, n)
		if step != finest {
			c.max[i] = make([]*float64, n)
		}
	}
	return c
}

// set sets the values of an interval, if it is in the range.
func (c *chart) set(i storedInterval) {
	if i.at < c.first || i.at >= c.end {
		return
	}
	n := (i.at - c.first) / c.step.seconds()
	for m := range metricCount {
		c.mean[m][n] = known(i.mean[m])
		if c.max[m] != nil {
			c.max[m][n] = known(i.max[m])
		}
	}
}

// known returns nil for an unknown value.
func known(v float64) *float64 {
	if !isKnown(v) {
		return nil
	}
	return &v
}

func (c *chart) history() broker.MetricHistory {
	series := func(i int) broker.MetricSeries { return broker.MetricSeries{Mean: c.mean[i], Max: c.max[i]} }
	return broker.MetricHistory{
		From: c.first * 1000, To: c.end * 1000, Step: int(c.step.seconds()),
		Series: broker.MetricSets{
			Connected: series(connected), Subscriptions: series(subscriptions), Retained: series(retained),
			MessagesIn: series(messagesIn), MessagesOut: series(messagesOut),
			BytesIn: series(bytesIn), BytesOut: series(bytesOut), Dropped: series(dropped),
		},
	}
}
