package appliance

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/monitor"
)

// startHistory starts to sample the metrics of all brokers, after it has deleted those of
// brokers that no longer exist.
func (a *Appliance) startHistory(ctx context.Context) error {
	rows, err := a.API.DB.AllBrokers(ctx)
	if err != nil {
		return err
	}
	ids := make([]string, 0, len(rows))
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	if err := a.history.Retain(ctx, ids); err != nil { // which the service can do without
		a.log.Warn("the metric history keeps brokers that no longer exist", "error", err)
	}
	a.history.Start(a.API.Brokers)
	return nil
}

// openEvents returns the streams of events, which end with the requests that opened them.
func (a *Appliance) openEvents(pool *broker.Pool) *monitor.Events {
	events := monitor.NewEvents(pool, a.log)
	a.undo.addBounded(events.Close)
	return events
}
