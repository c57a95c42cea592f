package monitor

import (
	"math"
	"time"

	"signalbox/broker"
)

// Bounds of the time between two reports from which a rate is computed. An earlier report is
// ignored. A rate remains valid for the maximum: brokers report every 10 seconds, some every
// minute.
const (
	minSpan = 500 * time.Millisecond
	maxSpan = 2 * time.Minute
)

// meter computes the rates of a broker from consecutive samples. The zero value has seen
// none.
type meter struct {
	at       time.Time // of the last report
	uptime   float64
	counters values // of the last report
	rates    values // between the last two
}

// next returns the metrics of a sample. A rate is unknown if the counter before is, and if
// the broker has restarted since. Between two reports the last rates remain valid.
func (m *meter) next(s broker.SysTopics) values {
	if s.Reported.IsZero() {
		return unknown()
	}
	now := read(s.Topics)
	if span := s.Reported.Sub(m.at); m.at.IsZero() || span < 0 || span >= minSpan {
		m.report(s, now)
	}
	age := time.UnixMilli(s.Date).Sub(m.at)
	for i := firstRate; i < metricCount; i++ {
		now[i] = m.rates[i]
		if age > maxSpan {
			now[i] = math.NaN()
		}
	}
	return now
}

// report computes the rates since the report before.
func (m *meter) report(s broker.SysTopics, now values) {
	span, up := s.Reported.Sub(m.at), uptime(s.Topics)
	restarted := isKnown(up) && isKnown(m.uptime) && up < m.uptime
	usable := !m.at.IsZero() && !restarted && span > 0 && span <= maxSpan
	for i := firstRate; i < metricCount; i++ {
		m.rates[i] = math.NaN()
		if grown := now[i] - m.counters[i]; usable && grown >= 0 { // false for NaN
			m.rates[i] = grown / span.Seconds()
		}
	}
	m.at, m.uptime, m.counters = s.Reported, up, now
}
