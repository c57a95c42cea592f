package db

import (
	"context"
	"strings"
	"time"
)

// AuditFilter selects rows of the audit log: those that equal every member that is not empty,
// in the time from Since to Until. Below is the row before which a page ends, 0 for the newest.
type AuditFilter struct {
	ActorKind, ActorID, Address, RequestID, Operation, ProjectID, BrokerID, Object, Outcome, Code string

	Since, Until time.Time // inclusive; zero for no bound
	Below        int64
}

// where returns the condition of the filter and its arguments. Terms such as "object <> ”"
// allow the use of the partial indexes.
func (f *AuditFilter) where() (condition string, args []any) {
	var terms []string
	add := func(term string, values ...any) {
		terms = append(terms, term)
		args = append(args, values...)
	}
	for _, c := range []struct{ column, value, unindexed string }{
		{"actor_kind", f.ActorKind, "user"}, {"actor_id", f.ActorID, ""}, {"address", f.Address, ""},
		{"request_id", f.RequestID, ""}, {"operation", f.Operation, ""}, {"project_id", f.ProjectID, ""},
		{"broker_id", f.BrokerID, ""}, {"object", f.Object, ""}, {"outcome", f.Outcome, AuditDone}, {"code", f.Code, ""},
	} {
		if c.value == "" {
			continue
		}
		add(c.column+" = ?", c.value)
		if c.value != c.unindexed {
			add(c.column + " <> '" + c.unindexed + "'")
		}
	}
	if !f.Since.IsZero() {
		add("time >= ?", millis(f.Since))
	}
	if !f.Until.IsZero() {
		add("time <= ?", millis(f.Until))
	}
	if f.Below > 0 {
		add("(time, seq) < (SELECT time, seq FROM audit WHERE seq = ?)", f.Below)
	}
	if terms == nil {
		return "", nil
	}
	return " WHERE " + strings.Join(terms, " AND "), args
}

// auditPage returns the query of a page and its arguments.
func auditPage(f *AuditFilter, limit int) (query string, args []any) {
	where, args := f.where()
	return "SELECT " + auditColumns + " FROM audit" + where + " ORDER BY time DESC, seq DESC LIMIT ?", append(args, limit)
}

// ListAudit returns the newest rows that match, at most limit, the newest first; those of the
// same millisecond in order of their numbers.
func (d *DB) ListAudit(ctx context.Context, f AuditFilter, limit int) ([]AuditEvent, error) {
	query, args := auditPage(&f, limit)
	all, err := collect(ctx, d.ro, scanAudit, query, args...)
	return all, wrap("list audit log", err)
}

// OpenAudits returns the operations in progress of a project, or of all if it is empty, the
// oldest first, at most limit.
func (d *DB) OpenAudits(ctx context.Context, projectID string, limit int) ([]AuditEvent, error) {
	const q = `
		SELECT id, event FROM audit_open WHERE ?1 = '' OR event ->> 'projectId' = ?1
		ORDER BY started_at, id LIMIT ?2`
	all, err := collect(ctx, d.ro, scanOpen, q, projectID, limit)
	events := make([]AuditEvent, 0, len(all))
	for _, o := range all {
		events = append(events, o.event)
	}
	return events, wrap("list open audit rows", err)
}

// AuditCheckpoint is a signed state of the chain. Anchor is true for the one that stands for
// the deleted rows.
type AuditCheckpoint struct {
	AuditHead
	Time   time.Time
	Note   string // signed; "" for none
	Anchor bool
}

// AuditState returns the present state of the chain and the time of its last row.
func (d *DB) AuditState(ctx context.Context) (h AuditHead, err error) {
	h, err = scanHead(d.ro.QueryRowContext(ctx, auditHeadQuery))
	return h, wrap("read audit log", err)
}

// AddAuditCheckpoint stores a signed state. One of the same row is replaced.
func (d *DB) AddAuditCheckpoint(ctx context.Context, c AuditCheckpoint) error {
	const q = `
		INSERT INTO audit_checkpoints (seq, time, hash, note, anchor) VALUES (?, ?, ?, ?, 0)
		ON CONFLICT DO UPDATE SET time = excluded.time, hash = excluded.hash, note = excluded.note`
	return wrap("store audit checkpoint", d.append(ctx, func(ctx context.Context, tx *writeTx) error {
		_, err := tx.ExecContext(ctx, q, c.Seq, millis(c.Time), c.Hash, c.Note)
		return err
	}))
}

// AuditCheckpoints returns the signed states in order of their rows.
func (d *DB) AuditCheckpoints(ctx context.Context) ([]AuditCheckpoint, error) {
	const q = "SELECT seq, time, hash, note, anchor FROM audit_checkpoints ORDER BY seq"
	all, err := collect(ctx, d.ro, scanCheckpoint, q)
	return all, wrap("list audit checkpoints", err)
}

func scanCheckpoint(row scanner) (c AuditCheckpoint, err error) {
	err = row.Scan(&c.Seq, (*millis)(&c.Time), &c.Hash, &c.Note, &c.Anchor)
	return c, err
}

// AuditKey is a key that signs checkpoints, or has signed them: the public part as text, and
// the private part sealed by the caller for the name; nil if the key was replaced.
type AuditKey struct {
	Name      string
	Public    string
	Secrets   []byte
	CreatedAt time.Time
}

// AuditKeys returns the keys, the newest first.
func (d *DB) AuditKeys(ctx context.Context) ([]AuditKey, error) {
	const q = "SELECT id, public, secrets, created_at FROM audit_keys ORDER BY created_at DESC, id"
	all, err := collect(ctx, d.ro, func(row scanner) (k AuditKey, err error) {
		err = row.Scan(&k.Name, &k.Public, &k.Secrets, (*millis)(&k.CreatedAt))
		return k, err
	}, q)
	return all, wrap("list audit keys", err)
}

// AddAuditKey stores the key that signs from now on; of those before, the public part stays.
func (d *DB) AddAuditKey(ctx context.Context, k AuditKey) error {
	return d.write(ctx, "store audit key", func(tx *writeTx) error {
		secrets, err := d.current(ctx, tx, k.Secrets, k.Name)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE audit_keys SET secrets = NULL"); err != nil {
			return err
		}
		const q = "INSERT INTO audit_keys (id, public, secrets, created_at) VALUES (?, ?, ?, ?)"
		_, err = tx.ExecContext(ctx, q, k.Name, k.Public, secrets, millis(k.CreatedAt))
		return err
	})
}

// auditCutRows is how many rows are deleted at a time; the writer is free in between.
const auditCutRows = 5000

// AuditCut returns the state of the chain at the last row to delete now: of the rows that are
// older than before and that all destinations have, or that have more than rows after them,
// auditCutRows at most. ErrNotFound: all must be kept.
func (d *DB) AuditCut(ctx context.Context, before time.Time, rows int64) (h AuditHead, err error) {
	const q = `
		WITH bounds (oldest, newest) AS (SELECT min(seq), max(seq) FROM audit),
		old (seq) AS (SELECT coalesce((SELECT min(seq) - 1 FROM audit WHERE time >= ?1), newest) FROM bounds),
		sent (seq) AS (SELECT coalesce((SELECT min(seq) FROM audit_sinks), newest) FROM bounds),
		cut (seq) AS (SELECT max(min(old.seq, sent.seq), newest - ?2) FROM bounds, old, sent)
		SELECT a.seq, a.hash FROM cut, bounds JOIN audit a ON a.seq = min(cut.seq, bounds.oldest + ?3 - 1)`
	err = d.ro.QueryRowContext(ctx, q, millis(before), rows, auditCutRows).Scan(&h.Seq, &h.Hash)
	return h, wrap("find old audit rows", err)
}

// CutAudit deletes the rows up to that of a signed state, which stays in their place.
func (d *DB) CutAudit(ctx context.Context, c AuditCheckpoint) error {
	return wrap("delete audit rows", d.append(ctx, func(ctx context.Context, tx *writeTx) error {
		for _, step := range []struct {
			query string
			args  []any
		}{
			{`INSERT INTO audit_checkpoints (seq, time, hash, note, anchor) VALUES (?, ?, ?, ?, 1)
				ON CONFLICT DO UPDATE SET anchor = 1, time = excluded.time, note = excluded.note`,
				[]any{c.Seq, millis(c.Time), c.Hash, c.Note}},
			{"DELETE FROM audit_checkpoints WHERE seq < ?", []any{c.Seq}},
			{"DELETE FROM audit WHERE seq <= ?", []any{c.Seq}},
		} {
			if _, err := tx.ExecContext(ctx, step.query, step.args...); err != nil {
				return err
			}
		}
		return nil
	}))
}
