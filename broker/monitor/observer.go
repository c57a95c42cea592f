package monitor

import (
	"context"
	"time"

	"signalbox/broker"
)

// maxDenials bounds the denials of an event.
const maxDenials = 50

// observer finds what has changed at a broker.
type observer struct {
	broker   broker.Broker
	known    [typeCount]bool // the fields of the type are up to date
	meter    meter
	reported time.Time // of the last metrics
	state    broker.ConnectionState
	denial   int64 // number of the last one
}

// observe returns an event for each wanted type that has one; nil otherwise. A connection
// that was replaced, since its record was changed, is observed anew; so is a type that was
// not wanted before.
func (o *observer) observe(ctx context.Context, b broker.Broker, wanted [typeCount]bool) (events [typeCount]any) {
	if o.broker != b {
		*o = observer{broker: b}
		for _, s := range b.SysHistory(0) { // so that rates are known at once
			o.meter.next(s)
		}
	}
	for t, wants := range wanted {
		o.known[t] = o.known[t] && wants
	}
	if wanted[metricsEvent] {
		events[metricsEvent] = o.metrics()
	}
	if wanted[stateEvent] {
		events[stateEvent] = o.newState()
	}
	if wanted[denialsEvent] {
		events[denialsEvent] = o.denials(ctx)
	}
	return events
}

// metrics returns the load if the broker has reported it since the last event.
func (o *observer) metrics() any {
	if !o.broker.Status().Connected {
		o.known[metricsEvent] = false
		return nil
	}
	if !o.known[metricsEvent] {
		o.reported = time.Time{}
	}
	s, ok := o.broker.SysUpdate(o.reported)
	if !ok {
		return nil
	}
	o.reported, o.known[metricsEvent] = s.Reported, true
	v := o.meter.next(s)
	return broker.MetricSample{At: s.Date,
		Connected: known(v[connected]), Subscriptions: known(v[subscriptions]), Retained: known(v[retained]),
		MessagesIn: rateOf(v[messagesIn]), MessagesOut: rateOf(v[messagesOut]),
		BytesIn: rateOf(v[bytesIn]), BytesOut: rateOf(v[bytesOut]), Dropped: rateOf(v[dropped]),
	}
}

// rateOf returns a rate with the precision of the history.
func rateOf(v float64) *float64 { return known(fromThousandths(thousandths(v))) }

// newState returns the state of the connection if it has changed.
func (o *observer) newState() any {
	s := o.broker.Status()
	now := broker.ConnectionState{Connected: s.Connected, Since: s.Since.UnixMilli(), Error: s.Error}
	if o.known[stateEvent] && now == o.state {
		return nil
	}
	o.state, o.known[stateEvent] = now, true
	return now
}

// denials returns the denials since the last call, none when they were not observed before:
// those of before can be listed.
func (o *observer) denials(ctx context.Context) any {
	page, err := o.broker.ListDenials(ctx, 0, maxDenials)
	if err != nil || page.Items == nil {
		return nil
	}
	newest, first := o.denial, !o.known[denialsEvent]
	event := broker.DenialsEvent{More: true}
	for d, err := range page.Items {
		if err != nil {
			return nil // it is tried again
		}
		newest = max(newest, d.Number)
		if first || d.Number <= o.denial {
			event.More = false
			break
		}
		event.Denials = append(event.Denials, d)
	}
	o.denial, o.known[denialsEvent] = newest, true
	if len(event.Denials) == 0 {
		return nil
	}
	event.More = event.More && len(event.Denials) == maxDenials
	return event
}
