package handlers

import (
	"cmp"
	"context"
	"slices"
	"time"

	"signalbox/broker"
	"signalbox/broker/monitor"
)

// MetricHistoryRequest selects a part of the metric history.
type MetricHistoryRequest struct {
	BrokerPath
	From  int64  `query:"from" min:"0" max:"253402300799000" format:"epoch-ms" doc:"Start, in epoch milliseconds; by default the range or step determines it."`
	To    int64  `query:"to" min:"0" max:"253402300799000" format:"epoch-ms" doc:"End, in epoch milliseconds; default now."`
	Step  int    `query:"step" enum:"10|60|300|600" doc:"Length of an interval, in seconds: 10 (kept for one hour), 60 (one day), 300 (three days) or 600 (30 days). By default the shortest one that is kept since the start."`
	Range string `query:"range" enum:"1h|1d|3d|30d" doc:"Time before the end, instead of from and step; the default is 1h if neither is present."`
}

// ranges are the values of range.
var ranges = map[string]time.Duration{"1h": time.Hour, "1d": 24 * time.Hour, "3d": 3 * 24 * time.Hour, "30d": 30 * 24 * time.Hour}

// Validate checks the combination.
func (r *MetricHistoryRequest) Validate() (bad []FieldError) {
	if r.Range != "" && r.From != 0 {
		bad = append(bad, FieldError{"query.from", "cannot be combined with range"})
	}
	if r.Range != "" && r.Step != 0 {
		bad = append(bad, FieldError{"query.step", "cannot be combined with range"})
	}
	if r.From != 0 && r.To != 0 && r.From >= r.To {
		bad = append(bad, FieldError{"query.to", "must be later than from"})
	}
	return bad
}

// GetMetricHistory returns the load of a broker over time. The broker need not be
// connected.
func (a *API) GetMetricHistory(ctx context.Context, r *MetricHistoryRequest) (broker.MetricHistory, error) {
	now := a.Now()
	to := now
	if r.To != 0 {
		to = time.UnixMilli(r.To)
	}
	from := r.start(to)
	return a.History.Read(ctx, r.BrokerID, r.step(now.Sub(from)), from, to)
}

// start returns the start of the wanted part, which ends at to.
func (r *MetricHistoryRequest) start(to time.Time) time.Time {
	switch {
	case r.From != 0:
		return time.UnixMilli(r.From)
	case r.Step != 0:
		return to.Add(-r.step(0).Kept)
	}
	return to.Add(-ranges[cmp.Or(r.Range, "1h")])
}

// step returns the wanted step, by default the shortest that is kept for an age.
func (r *MetricHistoryRequest) step(age time.Duration) monitor.Step {
	steps := monitor.Steps()
	i := slices.IndexFunc(steps, func(s monitor.Step) bool {
		if r.Step != 0 {
			return s.Length == time.Duration(r.Step)*time.Second
		}
		return age <= s.Kept
	})
	if i < 0 {
		i = len(steps) - 1
	}
	return steps[i]
}
