package access

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"signalbox/broker"
	"signalbox/broker/storage"
)

// PutBan stores a ban, replacing one of the same kind and value.
func (c *Control) PutBan(ctx context.Context, b broker.Ban) error {
	const q = `
		INSERT INTO ban (kind, value, reason, created_at, created_by, expires_at)
		VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (kind, value) DO UPDATE SET
			reason = excluded.reason, created_at = excluded.created_at,
			created_by = excluded.created_by, expires_at = excluded.expires_at`
	return c.store.exec(ctx, "store a ban", q,
		b.Kind, b.Value, b.Reason, b.CreatedAt.UnixMilli(), b.CreatedBy, millis(b.ExpiresAt))
}

// DeleteBans deletes bans, all that exist or none. Only Kind and Value are used.
func (c *Control) DeleteBans(ctx context.Context, bans []broker.Ban) error {
	keys := make([][2]string, len(bans))
	for i, b := range bans {
		keys[i] = [2]string{string(b.Kind), b.Value}
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return fmt.Errorf("name the bans to delete: %w", err)
	}
	const q = `
		DELETE FROM ban WHERE (kind, value) IN (
			SELECT value ->> 0, value ->> 1 FROM json_each(?))`
	return c.store.exec(ctx, "delete bans", q, string(list))
}

// LoadBans reads all bans, including expired ones.
func (c *Control) LoadBans(ctx context.Context) ([]broker.Ban, error) {
	const q = `SELECT kind, value, reason, created_at, created_by, expires_at FROM ban ORDER BY kind, value`
	rows, err := c.store.r.QueryContext(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read the bans: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns it
	var all []broker.Ban
	for rows.Next() {
		b, err := scanBan(rows)
		if err != nil {
			return nil, fmt.Errorf("read a ban: %w", err)
		}
		all = append(all, b)
	}
	return all, rows.Err()
}

func scanBan(rows *sql.Rows) (b broker.Ban, err error) {
	var created, expires int64
	err = rows.Scan(&b.Kind, &b.Value, &b.Reason, &created, &b.CreatedBy, &expires)
	b.CreatedAt = time.UnixMilli(created).UTC()
	if expires != 0 {
		b.ExpiresAt = time.UnixMilli(expires).UTC()
	}
	return b, err
}

// millis returns a time as it is stored, 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// exec makes one change in a transaction of its own.
func (s *store) exec(ctx context.Context, what, query string, args ...any) error {
	if err := s.file.Lock(ctx); err != nil {
		return fmt.Errorf("%s: wait to write: %w", what, err)
	}
	defer s.file.Unlock()
	if err := s.setDurability(ctx, storage.Full); err != nil {
		return fmt.Errorf("%s: %w", what, classify(s.writeFailed(err)))
	}
	if _, err := s.w.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("%s: %w", what, classify(s.writeFailed(err)))
	}
	return nil
}
