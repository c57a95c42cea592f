package appliance

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker/embedded"
	"signalbox/broker/monitor"
	"signalbox/broker/remote"
	"signalbox/db"
	"signalbox/handlers"
)

// Bounds of the brokers with series of their own, the oldest connections first: with all
// series, and with signalbox_remote_up only. The metrics stay below 2,000 series by that.
const (
	maxDetailed = 50
	maxRemotes  = 250
)

// remoteMetrics exports the connections to brokers outside of this process.
type remoteMetrics struct {
	api     *handlers.API
	history *monitor.History
}

// remoteLabels are the id and the name of a broker connection: bridges and streams have only
// the id, and names are unique only within a project.
var remoteLabels = []string{"broker", "name"}

var (
	remoteUp = prometheus.NewDesc("signalbox_remote_up",
		"Whether a broker outside of this process is reached.", remoteLabels, nil)
	remoteOmitted = prometheus.NewDesc("signalbox_remote_omitted",
		"Brokers outside of this process that have no metrics of their own, as there are too many.", nil, nil)
	remoteCommands = prometheus.NewDesc("signalbox_remote_command_seconds",
		"Time from a command to a broker until its response.", remoteLabels, nil)
	remoteFailed = prometheus.NewDesc("signalbox_remote_command_failures_total",
		"Commands to a broker that failed, by how.", append(remoteLabels, "kind"), nil)

	remoteFigures = figureMetrics[remote.Figures]{
		counterOf("signalbox_remote_reconnects", "Connections to a broker after the first.", remoteLabels, func(f remote.Figures) int64 { return f.Reconnects }),
		counterOf("signalbox_remote_connect_failures", "Attempts to connect to a broker that failed.", remoteLabels, func(f remote.Figures) int64 { return f.ConnectFailures }),
	}
	// remoteLoad is read from the broker's $SYS topics.
	remoteLoad = figureMetrics[monitor.Load]{
		loadOf("signalbox_remote_clients_connected", "Connected clients, as the broker reports.", func(l monitor.Load) float64 { return l.Connected }),
		loadOf("signalbox_remote_subscriptions", "Subscriptions, as the broker reports.", func(l monitor.Load) float64 { return l.Subscriptions }),
		loadOf("signalbox_remote_messages_retained", "Retained messages, as the broker reports.", func(l monitor.Load) float64 { return l.Retained }),
		loadOf("signalbox_remote_messages_received_per_second", "Messages that clients published, per second.", func(l monitor.Load) float64 { return l.MessagesIn }),
		loadOf("signalbox_remote_messages_sent_per_second", "Messages sent to clients, per second.", func(l monitor.Load) float64 { return l.MessagesOut }),
		loadOf("signalbox_remote_received_bytes_per_second", "Bytes that the broker received, per second.", func(l monitor.Load) float64 { return l.BytesIn }),
		loadOf("signalbox_remote_sent_bytes_per_second", "Bytes that the broker sent, per second.", func(l monitor.Load) float64 { return l.BytesOut }),
		loadOf("signalbox_remote_messages_dropped_per_second", "Messages that did not reach a client, per second.", func(l monitor.Load) float64 { return l.Dropped }),
	}
)

func loadOf(name, help string, of func(monitor.Load) float64) figureMetric[monitor.Load] {
	return gaugeOf(name, help, remoteLabels, of)
}

// Describe implements [prometheus.Collector].
func (remoteMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{remoteUp, remoteOmitted, remoteCommands, remoteFailed} {
		to <- d
	}
	remoteFigures.describe(to)
	remoteLoad.describe(to)
}

// remoteScrapeTime bounds the database query of a scrape.
const remoteScrapeTime = 5 * time.Second

// Collect implements [prometheus.Collector].
func (m remoteMetrics) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), remoteScrapeTime)
	defer cancel()
	rows, err := m.api.DB.AllBrokers(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(remoteOmitted, err)
		return
	}
	remotes := 0
	for _, row := range rows {
		live := m.api.Brokers.Live(row.ID, row.Rev)
		if _, own := live.(*embedded.Broker); own || !row.MetricsEnabled {
			continue
		}
		b, _ := live.(*remote.Broker) // nil if it was not used yet
		if remotes++; remotes <= maxRemotes {
			m.collect(to, row, b, remotes <= maxDetailed)
		}
	}
	to <- prometheus.MustNewConstMetric(remoteOmitted, prometheus.GaugeValue, float64(max(remotes-maxRemotes, 0)))
}

// collect collects the metrics of one broker; b is nil if there is no connection to it.
func (m remoteMetrics) collect(to chan<- prometheus.Metric, row db.Broker, b *remote.Broker, detailed bool) {
	labels := []string{row.ID, row.Name}
	to <- prometheus.MustNewConstMetric(remoteUp, prometheus.GaugeValue, oneIf(b != nil && b.Status().Connected), labels...)
	if b == nil || !detailed {
		return
	}
	f := b.Figures()
	remoteFigures.collect(to, f, labels...)
	to <- prometheus.MustNewConstHistogram(remoteCommands, f.Commands.Count, f.Commands.Sum, f.Commands.Buckets, labels...)
	for kind, n := range f.Failed {
		to <- prometheus.MustNewConstMetric(remoteFailed, prometheus.CounterValue, float64(n), row.ID, row.Name, remote.FailureKind(kind).String())
	}
	if load, known := m.history.Load(row.ID); known {
		collectLoad(to, load, labels)
	}
}

// collectLoad collects what the broker has reported.
func collectLoad(to chan<- prometheus.Metric, l monitor.Load, labels []string) {
	for _, metric := range remoteLoad {
		if v := metric.of(l); !math.IsNaN(v) {
			to <- prometheus.MustNewConstMetric(metric.desc, metric.kind, v, labels...)
		}
	}
}
