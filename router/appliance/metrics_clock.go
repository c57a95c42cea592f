package appliance

import (
	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker/clock"
)

// clockMetrics exports the clock that determines when sessions and messages expire.
type clockMetrics struct{ clock *clock.Clock }

var clockFigures = figureMetrics[*clock.Clock]{
	counterOf("signalbox_clock_jumps", "How often the machine's clock was set by more than two seconds while the service ran.", nil, (*clock.Clock).Jumps),
}

// Describe implements [prometheus.Collector].
func (clockMetrics) Describe(to chan<- *prometheus.Desc) { clockFigures.describe(to) }

// Collect implements [prometheus.Collector].
func (m clockMetrics) Collect(to chan<- prometheus.Metric) { clockFigures.collect(to, m.clock) }
