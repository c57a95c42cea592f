package db

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// AuditSink is what a destination of the audit log has: the rows up to Seq, and the signed
// states up to CheckpointTime.
type AuditSink struct {
	Name           string
	Seq            int64
	CheckpointTime time.Time
}

// OpenAuditSinks returns the positions of the destinations with these names, in their order. A
// new one is at the beginning; those of other names are deleted. Positions are not shared: each
// machine has destinations of its own.
func (d *DB) OpenAuditSinks(ctx context.Context, names []string) ([]AuditSink, error) {
	sinks := make([]AuditSink, len(names))
	err := d.writeLocal(ctx, "open the destinations of the audit log", func(tx *sql.Tx) error {
		for i, name := range names {
			const q = "SELECT seq, checkpoint_time FROM audit_sinks WHERE name = ?"
			sinks[i].Name = name
			err := tx.QueryRowContext(ctx, q, name).Scan(&sinks[i].Seq, (*millis)(&sinks[i].CheckpointTime))
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM audit_sinks"); err != nil {
			return err
		}
		for _, s := range sinks {
			if _, err := tx.ExecContext(ctx, "INSERT INTO audit_sinks (name, seq, checkpoint_time) VALUES (?, ?, ?)", s.Name, s.Seq, millis(s.CheckpointTime)); err != nil {
				return err
			}
		}
		return nil
	})
	return sinks, err
}

// AuditSink returns the position of a destination. It is at the beginning again when the log was
// replaced by another one, as that of a cluster which the node has joined.
func (d *DB) AuditSink(ctx context.Context, name string) (s AuditSink, err error) {
	const q = "SELECT name, seq, checkpoint_time FROM audit_sinks WHERE name = ?"
	err = d.ro.QueryRowContext(ctx, q, name).Scan(&s.Name, &s.Seq, (*millis)(&s.CheckpointTime))
	return s, wrap("read the position of an audit destination", err)
}

// PutAuditSink stores what a destination has. ErrConflict: its position is not from any more.
func (d *DB) PutAuditSink(ctx context.Context, from, s AuditSink) error {
	return d.writeLocal(ctx, "store the position of an audit destination", func(tx *sql.Tx) error {
		const q = "UPDATE audit_sinks SET seq = ?, checkpoint_time = ? WHERE name = ? AND seq = ? AND checkpoint_time = ?"
		err := affected(tx.ExecContext(ctx, q, s.Seq, millis(s.CheckpointTime), s.Name, from.Seq, millis(from.CheckpointTime)))
		if errors.Is(err, ErrNotFound) {
			return ErrConflict
		}
		return err
	})
}

// AuditAfter returns the rows after one with this number, in order of their numbers, at most limit.
func (d *DB) AuditAfter(ctx context.Context, seq int64, limit int) ([]AuditEvent, error) {
	const q = "SELECT " + auditColumns + " FROM audit WHERE seq > ? ORDER BY seq LIMIT ?"
	all, err := collect(ctx, d.ro, scanAudit, q, seq, limit)
	return all, wrap("read audit log", err)
}

// AuditCheckpointsAfter returns the states that were signed after a time, in that order, of rows
// up to seq, at most limit.
func (d *DB) AuditCheckpointsAfter(ctx context.Context, after time.Time, seq int64, limit int) ([]AuditCheckpoint, error) {
	const q = "SELECT seq, time, hash, note, anchor FROM audit_checkpoints WHERE time > ? AND seq <= ? ORDER BY time, seq LIMIT ?"
	all, err := collect(ctx, d.ro, scanCheckpoint, q, millis(after), seq, limit)
	return all, wrap("list audit checkpoints", err)
}
