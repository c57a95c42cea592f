package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// The results of Apply, of one byte each.
const (
	resultApplied  = 1
	resultConflict = 2 // the content has changed since the entry was made
	resultReserved = 3 // another copy alone may change the content now
	resultUnknown  = 4 // the entry was proposed before, too long ago to know whether it was applied
)

// knownEntries is for how many of the last entries it is known that they were applied.
const knownEntries = 4096

// reservationEntries is how many entries a reservation lasts at most. A copy that is lost after it
// has reserved the next change delays the others by so many attempts.
const reservationEntries = 16

// errDiffers means that the content is not that of the other nodes.
var errDiffers = errors.New("this node's copy of the database differs from that of the other nodes: have the node leave the cluster and join it again")

// sharedState is the row of shared_state.
type sharedState struct {
	version      int64
	reservedBy   string
	reservedLeft int64
}

// Apply applies the entry of the log with that index, which is greater than those before. What
// was applied before is ignored, and the result is nil then. The effect is in the file when Apply
// returns, and on the disk after Flush: what a loss of power undoes is applied again. After an error
// nothing has changed, and Apply can be called again; unless the storage has failed, it will return
// the same error in this release.
func (d *DB) Apply(ctx context.Context, index uint64, proposal []byte) (result []byte, err error) {
	if index <= d.applied.Load() {
		return nil, nil
	}
	e, err := decodeEntry(proposal)
	if err != nil {
		return nil, fmt.Errorf("entry %d of the cluster's log: %w: a newer release may have made it, with which this node continues", index, err)
	}
	if err := d.checkSchema(&e); err != nil {
		return nil, fmt.Errorf("entry %d of the cluster's log: %w", index, err)
	}
	var outcome byte
	err = d.transactLogged(ctx, func(tx *sql.Tx) error {
		outcome, err = d.applyIn(ctx, tx, int64(index), &e) //nolint:gosec // an index does not become that great
		return err
	})
	d.noteFailure(err)
	if err != nil {
		return nil, fmt.Errorf("apply entry %d of the cluster's log to the database: %w", index, err)
	}
	d.applied.Store(index)
	if outcome == resultApplied && len(e.statements) > 0 {
		if s, changed := e.changedKey(); changed {
			d.keyState.Store(&s)
		}
		if err := d.followHost(ctx, &e); err != nil {
			return nil, fmt.Errorf("apply entry %d of the cluster's log to the database: %w", index, err)
		}
		if to := e.upgradesTo(); to > 0 {
			d.schema.note(to)
			d.log.Info("the schema of the shared database was changed on all nodes", slog.Int64("schema", to))
		}
		if e.changesCached() {
			d.cache.Store(&rowCache{})
		}
		d.changed.notify()
		if e.changesConnections() {
			d.follow.notify()
		}
		if e.changesDefinitions() {
			d.defined.notify()
		}
	}
	return []byte{outcome}, nil
}

// transactLogged executes a transaction that is not brought to the disk when it is committed, as the log has
// what it changes.
func (d *DB) transactLogged(ctx context.Context, fn func(*sql.Tx) error) error {
	return d.holdingWriter(ctx, func(w *sql.Conn) error {
		defer func() { // also after an error: the setting may have changed before the context ended
			if _, err := w.ExecContext(context.WithoutCancel(ctx), "PRAGMA synchronous = FULL"); err != nil {
				w.Raw(func(any) error { return driver.ErrBadConn }) //nolint:errcheck // it closes the connection; a new one has the setting
			}
		}()
		if _, err := w.ExecContext(ctx, "PRAGMA synchronous = NORMAL"); err != nil {
			return err
		}
		return transact(ctx, w, nil, fn)
	})
}

// Flush brings all that was applied to the disk.
func (d *DB) Flush(ctx context.Context) error {
	_, err := d.rw.ExecContext(ctx, "UPDATE local_state SET origin = origin") // its commit flushes the whole write-ahead log
	return wrap("bring the database to the disk", err)
}

// changesCached reports whether rows may have changed that are cached.
func (e *entry) changesCached() bool {
	for _, s := range e.statements {
		switch s.text {
		case addAuditQuery, beginAuditQuery, endAuditQuery:
		default:
			return true
		}
	}
	return false
}

// changesConnections reports whether broker connections may have changed, or their projects.
func (e *entry) changesConnections() bool {
	return slices.ContainsFunc(e.statements, func(s statement) bool {
		return strings.Contains(s.text, "brokers") || strings.Contains(s.text, "projects")
	})
}

// changesDefinitions reports whether definitions may have changed, or the secrets with which they are sealed.
func (e *entry) changesDefinitions() bool {
	return slices.ContainsFunc(e.statements, func(s statement) bool { return strings.Contains(s.text, "definitions") })
}

// changedKey returns the state of the key after the entry, if that changes it.
func (e *entry) changedKey() (s KeyState, changed bool) {
	for _, c := range e.statements {
		if c.text == changeKeyQuery && len(c.args) == 2 {
			s.ID, _ = c.args[0].(string)
			s.Since, _ = c.args[1].(int64)
			changed = true
		}
	}
	return s, changed
}

// applyIn applies an entry in a transaction.
func (d *DB) applyIn(ctx context.Context, tx *sql.Tx, index int64, e *entry) (outcome byte, err error) {
	var s sharedState
	const state = "SELECT version, reserved_by, reserved_left FROM shared_state"
	if err := tx.QueryRowContext(ctx, state).Scan(&s.version, &s.reservedBy, &s.reservedLeft); err != nil {
		return 0, err
	}
	if e.base > s.version {
		return 0, fmt.Errorf("it was made for version %d of the content, and this is version %d: %w", e.base, s.version, errDiffers)
	}
	if outcome, err = e.formerOutcome(ctx, tx, s.version); err != nil {
		return 0, err
	}
	if outcome == 0 {
		if outcome = s.decide(e); outcome == resultApplied {
			err = d.change(ctx, tx, e, s.version)
		}
	}
	if err != nil {
		return 0, err
	}
	const store = "UPDATE shared_state SET version = ?, applied = ?, reserved_by = ?, reserved_left = ?"
	_, err = tx.ExecContext(ctx, store, s.version, index, s.reservedBy, s.reservedLeft)
	return outcome, err
}

// formerOutcome returns the outcome of an entry that was proposed before, 0 if it was not applied then.
func (e *entry) formerOutcome(ctx context.Context, tx *sql.Tx, version int64) (outcome byte, err error) {
	if !e.again || e.base == version {
		return 0, nil
	}
	applied, err := exists(ctx, tx, "SELECT EXISTS (SELECT 1 FROM shared_entries WHERE id = ?)", e.id)
	switch {
	case err != nil:
		return 0, err
	case applied:
		return resultApplied, nil
	case version-e.base > knownEntries:
		return resultUnknown, nil
	}
	return 0, nil
}

// change executes the statements of an entry, with which the content has a version.
func (d *DB) change(ctx context.Context, tx *sql.Tx, e *entry, version int64) error {
	if len(e.statements) == 0 {
		return nil
	}
	for _, c := range e.statements {
		if c.text == upgradeText {
			if err := d.upgradeTo(ctx, tx, e.upgradesTo()); err != nil {
				return err
			}
			continue
		}
		if err := c.apply(ctx, tx); err != nil {
			return err
		}
	}
	if _, changed := e.changedKey(); changed {
		if err := d.keyChanged(ctx, tx); err != nil {
			return err
		}
	}
	const add, forget = "INSERT INTO shared_entries (version, id) VALUES (?, ?)", "DELETE FROM shared_entries WHERE version <= ?"
	if _, err := tx.ExecContext(ctx, add, version, e.id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, forget, version-knownEntries)
	return err
}

// decide returns the outcome of an entry, and changes the state accordingly. It depends only on
// the state and the entry, so it is the same on all nodes.
func (s *sharedState) decide(e *entry) byte {
	if s.reservedBy != "" && s.reservedBy != e.origin {
		if s.reservedLeft--; s.reservedLeft <= 0 {
			s.reservedBy, s.reservedLeft = "", 0
		}
		return resultReserved
	}
	if e.base < s.version {
		if e.reserve {
			s.reservedBy, s.reservedLeft = e.origin, reservationEntries
		}
		return resultConflict
	}
	s.reservedBy, s.reservedLeft = "", 0
	if len(e.statements) > 0 {
		s.version++
	}
	return resultApplied
}

// apply executes a statement, which succeeds and changes as many rows as where it was recorded,
// if the content is the same.
func (c *statement) apply(ctx context.Context, tx *sql.Tx) error {
	res, err := tx.ExecContext(ctx, c.text, c.args...)
	if err != nil && !storageRefused(err) && ctx.Err() == nil {
		return fmt.Errorf("%w (%w)", errDiffers, err)
	}
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n != c.changes {
		err = fmt.Errorf("%w (%d rows were changed, %d there)", errDiffers, n, c.changes)
	}
	return err
}
