package appliance

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"signalbox/router/appliance/backup"
)

const (
	backupCheckInterval = 10 * time.Second // between two looks at the schedule
	backupRetryInterval = 10 * time.Minute // after a failure
)

// backups are those in backup.directory: the service makes them on the schedule and by
// request, one at a time.
type backups struct {
	directory backup.Directory
	schedule  backup.Schedule
	keep      backup.Keep
	options   backup.Options
	now       func() time.Time // time of day
	log       *slog.Logger

	ctx     context.Context // done when the service stops
	cancel  context.CancelFunc
	working sync.WaitGroup

	reading chan struct{} // has an entry while the directory is read

	mu       sync.Mutex // guards what follows
	current  *backupTask
	failed   *backupTask // the last one that made a backup, if it failed
	all      []backup.Entry
	tried    time.Time // when the schedule made or tried the last one
	failures int64
}

// newBackups returns the backups of a valid configuration.
func newBackups(c Config, version string, now func() time.Time, log *slog.Logger) *backups {
	b := &backups{directory: backup.Directory{Path: c.Backup.Directory, DataDir: c.DataDir}, now: now, log: log,
		reading: make(chan struct{}, 1), options: backupOptions(c, version, now)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.schedule, _ = backup.ParseSchedule(c.Backup.Schedule) //nolint:errcheck // validated
	b.keep, _ = backup.ParseKeep(c.Backup.Keep)             //nolint:errcheck // validated
	return b
}

// backupOptions returns how a valid configuration has backups made.
func backupOptions(c Config, version string, now func() time.Time) backup.Options {
	to, _ := backup.ParseRecipients(c.Backup.Recipients) //nolint:errcheck // validated
	return backup.Options{Version: version, Config: c.Backup.Settings, To: to, WithKey: c.Backup.WithKey, Now: now}
}

// isSet reports whether backups have a directory.
func (b *backups) isSet() bool { return b.directory.Path != "" }

// run makes the backups that are due until the service stops.
func (b *backups) run() {
	again := time.NewTicker(backupCheckInterval)
	defer again.Stop()
	for b.ctx.Err() == nil {
		b.look()
		select {
		case <-again.C:
		case <-b.ctx.Done():
		}
	}
}

// look makes a backup if one is due.
func (b *backups) look() {
	b.refresh()
	if !b.demanded(b.now()) {
		return
	}
	t, err := b.begin("", stateCreating)
	if err != nil {
		return // the one that is being made counts, and otherwise the next look makes one
	}
	if b.create(t); t.err == nil {
		b.prune()
	}
}

// demanded reports whether the schedule demands a backup now, and notes the attempt.
func (b *backups) demanded(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := now.Sub(b.tried)
	wait := min(backupRetryInterval, b.schedule.Interval())
	if since >= 0 && since < wait || !b.schedule.Due(b.lastLocked(now).Time, now) {
		return false
	}
	b.tried = now
	return true
}

// lastLocked returns the newest verified backup that is not from the future, as after the
// clock was set back.
func (b *backups) lastLocked(now time.Time) (last backup.Entry) {
	for _, e := range b.all {
		if e.State == backup.Verified && !e.Time.After(now) {
			return e
		}
	}
	return backup.Entry{}
}

// refresh reads the directory, in which other programs may make and remove files at any time.
func (b *backups) refresh() {
	b.reading <- struct{}{}
	b.read()
}

// refreshWithin is refresh with a bound of the time that it takes: the directory may be one of a
// machine that does not respond. It then leaves the state as it was read last.
func (b *backups) refreshWithin(limit time.Duration) {
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case b.reading <- struct{}{}:
	case <-over.C:
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.read()
	}()
	select {
	case <-done:
	case <-over.C:
	}
}

// read reads the directory for a caller that has put an entry into reading, and removes that.
func (b *backups) read() {
	defer func() { <-b.reading }()
	all, err := b.directory.List()
	if err != nil {
		b.log.Warn("the backups cannot be listed", "directory", b.directory.Path, "error", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = all
}

// create makes the backup of a task. It logs and counts a failure, too.
func (b *backups) create(t *backupTask) {
	t.entry, t.err = b.directory.Create(b.ctx, b.options, verifyIn)
	var failed *backupTask
	switch {
	case t.err == nil:
		b.log.Info("a backup was made and verified", "name", t.entry.Name, "bytes", t.entry.Size, "duration", t.entry.Duration.Round(time.Millisecond))
	case b.ctx.Err() == nil && !errors.Is(t.err, backup.ErrBusy):
		failed = t
		b.log.Error("no backup was made", "directory", b.directory.Path, "error", t.err)
	}
	b.mu.Lock()
	if b.failed = failed; failed != nil {
		b.failures++
	}
	b.mu.Unlock()
	b.end(t)
}

// prune removes the backups that are not to be kept.
func (b *backups) prune() {
	removed, err := b.directory.Prune(b.keep, false)
	for _, e := range removed {
		b.log.Info("a backup was removed, as backup.keep demands", "name", e.Name)
	}
	if err != nil {
		b.log.Warn("older backups could not be removed", "directory", b.directory.Path, "error", err)
	}
	b.refresh()
}

// startBackups starts to make backups.
func (a *Appliance) startBackups(context.Context) error {
	if !a.backups.isSet() {
		return nil
	}
	a.backups.working.Go(a.backups.run)
	a.undo.add(func() error {
		a.backups.cancel()
		a.backups.working.Wait()
		return nil
	})
	return nil
}

// BackupDirectory returns the directory of the backups of a configuration.
func BackupDirectory(c Config) (backup.Directory, error) {
	if c.Backup.Directory == "" {
		return backup.Directory{}, errors.New("backup.directory: is not set: name the directory of the backups, as in --backup.directory /srv/backup")
	}
	return backup.Directory{Path: c.Backup.Directory, DataDir: c.DataDir}, nil
}

// CreateBackup makes a backup in the directory of a configuration, also while the service
// runs. begun is called when nothing waits for it any more.
func CreateBackup(ctx context.Context, c Config, version string, begun func()) (backup.Entry, error) {
	d, err := BackupDirectory(c)
	if err != nil {
		return backup.Entry{}, err
	}
	o := backupOptions(c, version, time.Now)
	o.Begun = begun
	return d.Create(ctx, o, verifyIn)
}
