package sys

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker/embedded/engine"
)

// metricPrefix is the prefix of the broker's metric names.
const metricPrefix = "signalbox_broker_"

// metric is a metric without labels. The name of a counter ends in _total.
type metric struct {
	name, help string
	of         func(*Reading) int64
}

var counters = [...]metric{
	{"packets_received_total", "MQTT packets received.", func(r *Reading) int64 { return r.PacketsReceived }},
	{"packets_sent_total", "MQTT packets sent.", func(r *Reading) int64 { return r.PacketsSent }},
	{"messages_received_total", "Messages that clients published.", func(r *Reading) int64 { return r.PublishesReceived }},
	{"messages_sent_total", "Messages sent, counted for each client that got one.", func(r *Reading) int64 { return r.PublishesSent }},
	{"payload_received_bytes_total", "Payloads of messages that clients published.", func(r *Reading) int64 { return r.PayloadReceived }},
	{"payload_sent_bytes_total", "Payloads of messages sent.", func(r *Reading) int64 { return r.PayloadSent }},
	{"received_bytes_total", "Bytes received, with those of TLS and WebSocket.", func(r *Reading) int64 { return r.WireReceived }},
	{"sent_bytes_total", "Bytes sent, with those of TLS and WebSocket.", func(r *Reading) int64 { return r.WireSent }},
	{"connections_accepted_total", "Network connections accepted, whatever became of them.", func(r *Reading) int64 { return r.Accepted }},
	{"logins_total", "Clients let in.", func(r *Reading) int64 { return r.Connections }},
	{"logins_refused_total", "Clients that sent CONNECT and were not let in.", func(r *Reading) int64 { return r.Refused }},
	{"logins_left_total", "Clients that sent CONNECT and left before it was decided whether to let them in.", func(r *Reading) int64 { return r.Left }},
	{"sessions_expired_total", "Sessions that ended because their client stayed away.", func(r *Reading) int64 { return r.Expired }},
	{"topictree_messages_not_tracked_total", "Messages whose topics the topic tree had no room for.", func(r *Reading) int64 { return r.NotTracked }},
}

var gauges = [...]metric{
	{"connections", "Network connections.", func(r *Reading) int64 { return r.Open }},
	{"connections_half_open", "Network connections whose client has not sent CONNECT.", func(r *Reading) int64 { return r.HalfOpen }},
	{"login_bytes", "Bytes held for clients that have not logged in, beyond 2 KiB for each.", func(r *Reading) int64 { return r.LoginBytes }},
	{"clients_connected", "Clients connected.", func(r *Reading) int64 { return r.Connected }},
	{"clients_connected_max", "The most clients that were connected at a time since the start.", func(r *Reading) int64 { return r.Maximum }},
	{"sessions", "Sessions, those of connected clients included.", func(r *Reading) int64 { return r.Sessions }},
	{"subscriptions", "Subscriptions, shared ones included.", func(r *Reading) int64 { return r.Subscriptions }},
	{"subscriptions_shared", "Shared subscriptions.", func(r *Reading) int64 { return r.Shared }},
	{"messages_retained", "Messages retained.", func(r *Reading) int64 { return r.Retained }},
	{"messages_queued", "Messages that wait for clients, counted for each.", func(r *Reading) int64 { return r.Queued }},
	{"messages_queued_bytes", "Topics and payloads of messages that wait for clients, counted for each.", func(r *Reading) int64 { return r.QueuedBytes }},
	{"messages_stored", "Messages that are retained or wait, each counted once.", func(r *Reading) int64 { return r.Stored }},
	{"messages_stored_bytes", "Payloads of messages that are retained or wait, each counted once.", func(r *Reading) int64 { return r.StoredBytes }},
	{"store_writable", "Whether messages can be stored: 1 or 0.", func(r *Reading) int64 {
		if r.StoreFails {
			return 0
		}
		return 1
	}},
}

// collector exports the metrics to Prometheus. Their number is fixed: those in this file,
// one for each engine.DropReason, and one for each cause of failed connections; it does not
// grow with clients or topics.
type collector struct {
	source        Source
	plain         []plain
	dropped, lost *prometheus.Desc
	quota         *prometheus.Desc
}

// plain is a metric with its description and type.
type plain struct {
	metric
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// Collector returns a collector of the metrics for Prometheus. Their names begin with
// signalbox_broker_.
func (t *Tree) Collector() prometheus.Collector {
	c := &collector{
		source:  t.source,
		dropped: describe("messages_dropped_total", "Messages that did not reach a client, by the reason.", "reason"),
		quota:   describe("quota_refused_total", "What broker.quota or broker.user_quota forbade, by the quota.", "quota"),
		lost:    describe("connections_lost_total", "Network connections that came to nothing before the log-in, by the cause.", "cause"),
	}
	add := func(list []metric, kind prometheus.ValueType) {
		for _, m := range list {
			c.plain = append(c.plain, plain{m, describe(m.name, m.help), kind})
		}
	}
	add(counters[:], prometheus.CounterValue)
	add(gauges[:], prometheus.GaugeValue)
	return c
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(metricPrefix+name, help, labels, nil)
}

// Describe sends the descriptions of the metrics.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, p := range c.plain {
		out <- p.desc
	}
	out <- c.dropped
	out <- c.quota
	out <- c.lost
}

// Collect sends the metrics of one reading.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	r := c.source.Read()
	for _, p := range c.plain {
		out <- prometheus.MustNewConstMetric(p.desc, p.kind, float64(p.of(&r)))
	}
	for _, reason := range engine.DropReasons() {
		out <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(r.Dropped[reason]), reason.String())
	}
	for _, reason := range engine.QuotaReasons() {
		out <- prometheus.MustNewConstMetric(c.quota, prometheus.CounterValue, float64(r.QuotaRefused[reason]), reason.String())
	}
	for _, cause := range slices.Sorted(maps.Keys(r.Lost)) {
		out <- prometheus.MustNewConstMetric(c.lost, prometheus.CounterValue, float64(r.Lost[cause]), cause)
	}
}
