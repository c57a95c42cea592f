package appliance

import (
	"context"
	"errors"
	"io"
	"time"

	"signalbox/handlers"
	"signalbox/router/appliance/backup"
)

// backupWait bounds how long a caller waits for a backup that is made or verified.
const backupWait = 30 * time.Second

// The states of a backup, as the API names them, beside those of package backup.
const (
	stateCreating  = "creating"
	stateVerifying = "verifying"
	stateDeleting  = "deleting"
	stateFailed    = "failed"
)

// backupTask is a backup that is being made, verified or deleted. What follows done is set
// before that is closed.
type backupTask struct {
	id, state string
	began     time.Time
	done      chan struct{}
	entry     backup.Entry
	err       error
}

// begin returns a new task; it fails while there is another one, or the service stops.
func (b *backups) begin(id, state string) (*backupTask, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current != nil {
		return nil, backup.ErrBusy
	}
	if err := b.ctx.Err(); err != nil {
		return nil, err
	}
	b.current = &backupTask{id: id, state: state, began: b.now().UTC(), done: make(chan struct{})}
	return b.current, nil
}

// end ends a task.
func (b *backups) end(t *backupTask) {
	b.refresh()
	b.mu.Lock()
	b.current = nil
	b.mu.Unlock()
	close(t.done)
}

// await returns the record of a task that has ended, or its state until then.
func (t *backupTask) await(ctx context.Context, what string) (handlers.BackupRecord, error) {
	limit := time.NewTimer(backupWait)
	defer limit.Stop()
	select {
	case <-t.done:
		return backupRecord(t.entry), backupError(what, t.err)
	case <-limit.C:
	case <-ctx.Done():
	}
	return handlers.BackupRecord{ID: t.id, State: t.state, Time: t.began}, nil
}

// backupError returns an error as the API has it.
func backupError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, backup.ErrNoBackup):
		return handlers.NoBackup(err)
	case errors.Is(err, backup.ErrBusy), errors.Is(err, backup.ErrTooMany), errors.Is(err, backup.ErrNeedsKey):
		return handlers.BackupConflict(err.Error(), err)
	}
	return handlers.BackupFailed(what, err)
}

func backupRecord(e backup.Entry) handlers.BackupRecord {
	return handlers.BackupRecord{ID: e.Name, State: string(e.State), Time: e.Time.UTC(), Size: e.Size, Encrypted: e.Encrypted, WithKey: e.WithKey,
		Version: e.Version, Verified: e.Verified, Duration: float64(e.Duration.Milliseconds()), Problem: e.Problem}
}

// servedBackups are the backups for the API.
type servedBackups struct{ *backups }

// List implements [handlers.Backups].
func (b servedBackups) List() ([]handlers.BackupRecord, error) {
	all, err := b.directory.List()
	if err != nil {
		return nil, backupError("the backups cannot be listed", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []handlers.BackupRecord{}
	if t := b.failed; t != nil {
		list = append(list, handlers.BackupRecord{State: stateFailed, Time: t.began, Problem: t.err.Error()})
	}
	t := b.current
	if t != nil && t.state == stateCreating {
		list = append(list, handlers.BackupRecord{State: t.state, Time: t.began})
	}
	for _, e := range all {
		r := backupRecord(e)
		if t != nil && t.id == r.ID && t.state == stateVerifying {
			r.State = t.state
		}
		list = append(list, r)
	}
	return list, nil
}

// Create implements [handlers.Backups]. What was begun goes on without its caller.
func (b servedBackups) Create(ctx context.Context) (handlers.BackupRecord, error) {
	const what = "no backup was made"
	t, err := b.begin("", stateCreating)
	if err != nil {
		return handlers.BackupRecord{}, backupError(what, err)
	}
	b.working.Go(func() { b.create(t) })
	return t.await(ctx, what)
}

// Verify implements [handlers.Backups].
func (b servedBackups) Verify(ctx context.Context, id string) (handlers.BackupRecord, error) {
	const what = "the backup was not verified"
	if err := b.directory.Exists(id); err != nil {
		return handlers.BackupRecord{}, backupError(what, err)
	}
	t, err := b.begin(id, stateVerifying)
	if err != nil {
		return handlers.BackupRecord{}, backupError(what, err)
	}
	b.working.Go(func() {
		t.entry, t.err = b.directory.Verify(b.ctx, id, verifyIn)
		b.logVerified(t)
		b.end(t)
	})
	return t.await(ctx, what)
}

func (b *backups) logVerified(t *backupTask) {
	switch {
	case t.err != nil:
		b.log.Warn("a backup could not be verified", "name", t.id, "error", t.err)
	case t.entry.State == backup.Damaged:
		b.log.Error("a backup is damaged", "name", t.id, "error", t.entry.Problem)
	default:
		b.log.Info("a backup was verified", "name", t.id)
	}
}

// Open implements [handlers.Backups].
func (b servedBackups) Open(id string) (io.ReadCloser, int64, error) {
	f, size, err := b.directory.Open(id)
	if err != nil {
		return nil, 0, backupError("the backup cannot be read", err)
	}
	return f, size, nil
}

// Delete implements [handlers.Backups].
func (b servedBackups) Delete(id string) error {
	const what = "the backup was not deleted"
	t, err := b.begin(id, stateDeleting)
	if err != nil {
		return backupError(what, err)
	}
	defer b.end(t)
	if err := b.directory.Remove(id); err != nil {
		return backupError(what, err)
	}
	b.log.Info("a backup was deleted", "name", id)
	return nil
}
