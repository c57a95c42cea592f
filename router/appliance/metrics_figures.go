package appliance

import "github.com/prometheus/client_golang/prometheus"

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
