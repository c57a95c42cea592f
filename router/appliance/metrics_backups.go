package appliance

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// backupMetrics exports the state of the backups in backup.directory, if there is one.
type backupMetrics struct{ backups *backups }

// backupFigures is the state of the backups at a time.
type backupFigures struct {
	age, interval, duration float64 // seconds
	size, failures          int64
}

var backupMetricsOf = figureMetrics[backupFigures]{
	gaugeOf("signalbox_backup_age_seconds", "Age of the last verified backup in backup.directory; infinite if there is none.", nil, func(f backupFigures) float64 { return f.age }),
	gaugeOf("signalbox_backup_interval_seconds", "Time between two backups by backup.schedule; 0 without one.", nil, func(f backupFigures) float64 { return f.interval }),
	gaugeOf("signalbox_backup_size_bytes", "Size of the last verified backup.", nil, func(f backupFigures) int64 { return f.size }),
	gaugeOf("signalbox_backup_duration_seconds", "Time that the last verified backup took to be written and verified.", nil, func(f backupFigures) float64 { return f.duration }),
	counterOf("signalbox_backup_failures", "Backups that could not be made or verified.", nil, func(f backupFigures) int64 { return f.failures }),
}

// backupReadingTime bounds how long a response with metrics waits for the directory.
const backupReadingTime = 2 * time.Second

// figures returns the state of the backups. It reads the directory, in which a command may just
// have made one.
func (b *backups) figures() backupFigures {
	b.refreshWithin(backupReadingTime)
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	f := backupFigures{age: math.Inf(1), interval: b.schedule.Interval().Seconds(), failures: b.failures}
	if last := b.lastLocked(now); last.Name != "" {
		f.age, f.size, f.duration = now.Sub(last.Time).Seconds(), last.Size, last.Duration.Seconds()
	}
	return f
}

// Describe implements [prometheus.Collector].
func (backupMetrics) Describe(to chan<- *prometheus.Desc) { backupMetricsOf.describe(to) }

// Collect implements [prometheus.Collector].
func (m backupMetrics) Collect(to chan<- prometheus.Metric) {
	if m.backups.isSet() {
		backupMetricsOf.collect(to, m.backups.figures())
	}
}
