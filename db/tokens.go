package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// Token is a project's API token. Hash is the SHA-256 (hex) of its value, which
// is stored nowhere. A restricted token opens only Brokers.
type Token struct {
	ID         string
	ProjectID  string
	Issuer     string
	Name       string
	Hash       string
	Role       string // "viewer", "editor" or "admin"
	Type       string // "restricted" or "unrestricted"
	Brokers    []string
	IssuedAt   time.Time
	ValidUntil time.Time // zero = for ever
	LastUsedAt time.Time // zero = never
}

const tokenColumns = `t.id, t.project_id, t.issuer, t.name, t.hash, t.role, t.type,
	(SELECT json_group_array(tb.broker_id ORDER BY tb.position) FROM token_brokers tb WHERE tb.token_id = t.id),
	t.issued_at, t.valid_until, t.last_used_at`

func scanToken(row scanner) (t Token, err error) {
	var brokers []byte
	err = row.Scan(&t.ID, &t.ProjectID, &t.Issuer, &t.Name, &t.Hash, &t.Role, &t.Type,
		&brokers, (*millis)(&t.IssuedAt), (*millis)(&t.ValidUntil), (*millis)(&t.LastUsedAt))
	if err == nil {
		err = json.Unmarshal(brokers, &t.Brokers)
	}
	return t, err
}

// CreateToken stores a token. ErrExists: the id or hash is taken. ErrNotFound: no
// such project, or a broker that is not in it.
func (d *DB) CreateToken(ctx context.Context, t Token) error {
	const q = `
		INSERT INTO tokens (id, project_id, issuer, name, hash, role, type, issued_at, valid_until, last_used_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	return d.write(ctx, "create token", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, q, t.ID, t.ProjectID, t.Issuer, t.Name, t.Hash, t.Role, t.Type,
			millis(t.IssuedAt), millis(t.ValidUntil), millis(t.LastUsedAt))
		if err != nil {
			return err
		}
		return insertTokenBrokers(ctx, tx, t)
	})
}

func insertTokenBrokers(ctx context.Context, tx *sql.Tx, t Token) error {
	const q = `
		INSERT INTO token_brokers (token_id, broker_id, position)
		SELECT ?, id, ? FROM brokers WHERE id = ? AND project_id = ?
		ON CONFLICT DO UPDATE SET position = position` // a broker named twice stands where it was first
	for i, id := range t.Brokers {
		if err := affected(tx.ExecContext(ctx, q, t.ID, i, id, t.ProjectID)); err != nil {
			return fmt.Errorf("broker %q: %w", id, err)
		}
	}
	return nil
}

// ListTokens lists the tokens of a project, oldest first.
func (d *DB) ListTokens(ctx context.Context, projectID string) ([]Token, error) {
	const q = "SELECT " + tokenColumns + ` FROM tokens t
		WHERE t.project_id = ? ORDER BY t.issued_at, t.id`
	all, err := collect(ctx, d.ro, scanToken, q, projectID)
	return all, wrap("list tokens", err)
}

// DeleteToken revokes a token of a project. ErrNotFound if there is none.
func (d *DB) DeleteToken(ctx context.Context, projectID, id string) error {
	const q = "DELETE FROM tokens WHERE id = ? AND project_id = ?"
	return d.write(ctx, "delete token", func(tx *sql.Tx) error {
		return affected(tx.ExecContext(ctx, q, id, projectID))
	})
}

const tokenByHashQuery = "SELECT " + tokenColumns + " FROM tokens t WHERE t.hash = ?"

// TokenByHash finds a token, expired or not, by the hash of its value.
// ErrNotFound if there is none.
func (d *DB) TokenByHash(ctx context.Context, hash string) (Token, error) {
	t, err := remember(d, tokenKey{hash}, func() (Token, error) {
		return scanToken(pointRow(ctx, d.point.token, hash))
	})
	return t, wrap("get token", err)
}

// TouchTokens notes when tokens (by id) were last used. A time earlier than the
// stored one and a token that is gone change nothing.
func (d *DB) TouchTokens(ctx context.Context, used map[string]time.Time) error {
	const q = "UPDATE tokens SET last_used_at = ? WHERE id = ? AND last_used_at < ?"
	return d.write(ctx, "touch tokens", func(tx *sql.Tx) error {
		for id, at := range used {
			if _, err := tx.ExecContext(ctx, q, millis(at), id, millis(at)); err != nil {
				return err
			}
		}
		return nil
	})
}
