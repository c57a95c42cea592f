package appliance

import (
	"iter"

	"github.com/prometheus/client_golang/prometheus"
)

// figureMetric is one metric of a type of figures.
type figureMetric[F any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(f F) float64
}

func gaugeOf[F any, N int | int64 | float64](name, help string, labels []string, of func(f F) N) figureMetric[F] {
	return figureMetric[F]{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue, func(f F) float64 { return float64(of(f)) }}
}

func counterOf[F any](name, help string, labels []string, of func(f F) int64) figureMetric[F] {
	return figureMetric[F]{prometheus.NewDesc(name+"_total", help, labels, nil), prometheus.CounterValue, func(f F) float64 { return float64(of(f)) }}
}

// figureMetrics are the metrics of one type of figures.
type figureMetrics[F any] []figureMetric[F]

func (all figureMetrics[F]) describe(to chan<- *prometheus.Desc) {
	for _, m := range all {
		to <- m.desc
	}
}

func (all figureMetrics[F]) collect(to chan<- prometheus.Metric, f F, labels ...string) {
	for _, m := range all {
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(f), labels...)
	}
}

// byBroker returns engines by their brokers, one of each: while that of an embedded broker is replaced there may be two.
func byBroker[E any](engines iter.Seq2[string, E]) iter.Seq2[string, E] {
	return func(yield func(string, E) bool) {
		last := ""
		for id, engine := range engines {
			if id = brokerOf(id); id == last {
				continue
			}
			last = id
			if !yield(id, engine) {
				return
			}
		}
	}
}
