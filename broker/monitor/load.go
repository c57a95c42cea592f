package monitor

import (
	"time"

	"signalbox/broker"
)

// loadAge is the age from which on the load of a broker is unknown: three samples are missing.
var loadAge = 3 * finest.Length

// Load is the load of a broker at its last sample. Rates are per second; NaN is unknown.
type Load struct {
	Connected, Subscriptions, Retained                  float64
	MessagesIn, MessagesOut, BytesIn, BytesOut, Dropped float64

	at time.Time
}

func newLoad(s broker.SysTopics, v values) *Load {
	return &Load{
		Connected: v[connected], Subscriptions: v[subscriptions], Retained: v[retained],
		MessagesIn: v[messagesIn], MessagesOut: v[messagesOut], BytesIn: v[bytesIn], BytesOut: v[bytesOut], Dropped: v[dropped],
		at: time.UnixMilli(s.Date),
	}
}

// Load returns the load of a broker, false if there is no recent sample. It never blocks.
func (h *History) Load(brokerID string) (Load, bool) {
	v, ok := h.loads.Load(brokerID)
	if !ok {
		return Load{}, false
	}
	l := v.(Load)
	return l, h.now().Sub(l.at) < loadAge
}
