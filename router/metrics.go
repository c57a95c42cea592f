package router

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"signalbox/broker/panics"
	"signalbox/handlers"
)

// metrics counts the router's responses, in a registry of its own. Operations are the
// only label whose values grow with the table; none grow with callers.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	unknown  atomic.Int64 // requests through proxies that are not trusted
}

// newMetrics returns a registry with the given collectors as well.
func newMetrics(version string, more ...prometheus.Collector) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signalbox_http_requests_total",
			Help: "Requests answered, by operation and status; status 0 is a connection broken off.",
		}, []string{"operation", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "signalbox_http_request_duration_seconds",
			Help:    "Time from a request's header to the end of its response, or to the beginning of a stream of events, by operation.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"operation"}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "signalbox_info", Help: "The version that runs, as a label; the value is always 1.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "signalbox_build_info", Help: "How the program was built, as labels; the value is always 1.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version(), "goos": runtime.GOOS, "goarch": runtime.GOARCH},
	})
	build.Set(1)
	survived := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "signalbox_panics_total", Help: "Panics survived, each a fault of the program; the log has the stack.",
	}, func() float64 { return float64(panics.Count()) })
	unknown := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "signalbox_http_untrusted_proxy_requests_total", Help: "Requests that came through a proxy which is not among http.trusted_proxies.",
	}, func() float64 { return float64(m.unknown.Load()) })
	m.registry.MustRegister(m.requests, m.duration, info, build, survived, unknown,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(more...)
	return m
}

// brokerGauge counts the brokers at each scrape.
type brokerGauge struct {
	desc *prometheus.Desc
	api  *handlers.API
}

func newBrokerGauge(api *handlers.API) *brokerGauge {
	return &brokerGauge{api: api, desc: prometheus.NewDesc("signalbox_brokers",
		"Broker connections, by whether the broker is reached.", []string{"connected"}, nil)}
}

// Describe names the metric.
func (g *brokerGauge) Describe(out chan<- *prometheus.Desc) { out <- g.desc }

// scrapeTimeout bounds the database query of a scrape.
const scrapeTimeout = 5 * time.Second

// Collect counts the brokers. One that was never used counts as not reached.
func (g *brokerGauge) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	rows, err := g.api.DB.AllBrokers(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(g.desc, err)
		return
	}
	var count [2]int // not reached, reached
	for _, row := range rows {
		if b := g.api.Brokers.Live(row.ID, row.Rev); b != nil && b.Status().Connected {
			count[1]++
			continue
		}
		count[0]++
	}
	out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(count[0]), "false")
	out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(count[1]), "true")
}

// noOperation is the label of requests that no row matched.
const noOperation = "none"

func (m *metrics) observe(op string, status int, took time.Duration) {
	if op == "" {
		op = noOperation
	}
	m.requests.WithLabelValues(op, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(op).Observe(took.Seconds())
}

// write writes the metrics in the same format.
func (m *metrics) write(w io.Writer) error {
	all, err := m.registry.Gather() // with an error, what could be collected
	for _, family := range all {
		if _, failed := expfmt.MetricFamilyToText(w, family); failed != nil {
			return failed
		}
	}
	return err
}

// handler serves the metrics in Prometheus' text format.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
