package appliance

import (
	"context"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker"
	"signalbox/db"
	"signalbox/handlers/audit"
	"signalbox/handlers/audit/sinks"
)

// VerifyAudit reads the audit log of a data directory, of which a service may be running; see
// [audit.Verify].
func VerifyAudit(ctx context.Context, c Config, key string, checkpoints [][]byte) (v db.AuditVerified, err error) {
	err = db.View(ctx, filepath.Join(c.DataDir, databaseFile), func(d *db.DB) error {
		v, err = audit.Verify(ctx, d, key, checkpoints...)
		return err
	})
	return v, err
}

// auditSinksTime bounds how long the last rows may take to their destinations.
const auditSinksTime = 2 * time.Second

// startAuditSinks starts to copy the audit log. It ends after the last request, with a
// checkpoint.
func (a *Appliance) startAuditSinks(ctx context.Context) error {
	a.undo.addBounded(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, auditSinksTime)
		defer cancel()
		if a.API.DB.Leads() {
			if _, err := a.API.Audit.Checkpoint(ctx); err != nil {
				a.log.Warn("the audit log could not be signed", "error", err)
			}
		}
		return a.API.AuditSinks.Close(ctx)
	})
	return a.API.AuditSinks.Start(ctx)
}

// publish publishes a message on the broker in this process.
func (a *Appliance) publish(ctx context.Context, topic string, payload []byte) error {
	return a.broker.Publish(ctx, broker.PublishSpec{Topic: topic, Payload: payload, QoS: 1})
}

// auditMetrics exports the state of the destinations of the audit log.
type auditMetrics struct{ sinks *sinks.Sinks }

var (
	auditSinkUp = prometheus.NewDesc("signalbox_audit_sink_up",
		"Whether a destination of the audit log has received at the last attempt.", []string{"sink"}, nil)
	auditSinkPending = prometheus.NewDesc("signalbox_audit_sink_pending_rows",
		"Rows of the audit log that a destination does not have yet.", []string{"sink"}, nil)
)

// Describe implements [prometheus.Collector].
func (auditMetrics) Describe(to chan<- *prometheus.Desc) { to <- auditSinkUp; to <- auditSinkPending }

// Collect implements [prometheus.Collector].
func (m auditMetrics) Collect(to chan<- prometheus.Metric) {
	all, err := m.sinks.Status(context.Background())
	if err != nil {
		to <- prometheus.NewInvalidMetric(auditSinkPending, err)
		return
	}
	for _, s := range all {
		up := 1.0
		if s.Err != nil {
			up = 0
		}
		to <- prometheus.MustNewConstMetric(auditSinkUp, prometheus.GaugeValue, up, s.Name)
		to <- prometheus.MustNewConstMetric(auditSinkPending, prometheus.GaugeValue, float64(s.Pending), s.Name)
	}
}
