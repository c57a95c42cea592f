package appliance

import (
	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker/clock"
)

// clockMetrics are what Prometheus reads of the clock by which sessions and messages
// expire.
type clockMetrics struct{ clock *clock.Clock }

var clockFigures = figureMetrics[*clock.Clock]{
	counterOf("signalbox_clock_jumps", "How often the machine's clock was set by more than two seconds while the service ran.", nil, (*clock.Clock).Jumps),
}

// Describe names the metrics.
func (clockMetrics) Describe(to chan<- *prometheus.Desc) { clockFigures.describe(to) }

// Collect reads them.
func (m clockMetrics) Collect(to chan<- prometheus.Metric) { clockFigures.collect(to, m.clock) }
