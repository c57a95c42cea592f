package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Token is a project's API token. Hash is the SHA-256 (hex) of its value, which
// is stored nowhere. A restricted token opens only Brokers. It ends with the
// membership of its owner, and with its parent, the token that made it.
//
// OwnerRole is filled on reads and ignored on writes: what the owner may do in
// the project now, "admin" for a root administrator, "" for nothing.
type Token struct {
	ID         string
	ProjectID  string
	OwnerID    string
	ParentID   string // "" = made by its owner
	OwnerRole  string
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
	t.issued_at, t.valid_until, t.last_used_at, coalesce(t.owner_id, ''), coalesce(t.parent_id, ''),
	coalesce((SELECT CASE WHEN u.verified = 0 THEN '' WHEN u.root = 1 THEN 'admin' ELSE m.role END
		FROM users u LEFT JOIN members m ON m.user_id = u.id AND m.project_id = t.project_id
		WHERE u.id = t.owner_id), '')`

func scanToken(row scanner) (t Token, err error) {
	var brokers []byte
	err = row.Scan(&t.ID, &t.ProjectID, &t.Issuer, &t.Name, &t.Hash, &t.Role, &t.Type,
		&brokers, (*millis)(&t.IssuedAt), (*millis)(&t.ValidUntil), (*millis)(&t.LastUsedAt),
		&t.OwnerID, &t.ParentID, &t.OwnerRole)
	if err == nil {
		err = json.Unmarshal(brokers, &t.Brokers)
	}
	return t, err
}

// CreateToken stores a token. ErrExists: the id or hash is taken. ErrNotFound: no
// such project, owner or parent, or a broker that is not in the project.
// ErrNotAdmin: the owner does not administer the project any longer.
func (d *DB) CreateToken(ctx context.Context, t Token) error {
	const q = `
		INSERT INTO tokens (id, project_id, owner_id, parent_id, issuer, name, hash, role, type, issued_at, valid_until, last_used_at)
		VALUES (?, ?, ?, nullif(?, ''), ?, ?, ?, ?, ?, ?, ?, ?)`
	return d.write(ctx, "create token", func(tx *writeTx) error {
		_, err := tx.ExecContext(ctx, q, t.ID, t.ProjectID, t.OwnerID, t.ParentID, t.Issuer, t.Name, t.Hash, t.Role, t.Type,
			millis(t.IssuedAt), millis(t.ValidUntil), millis(t.LastUsedAt))
		if err != nil {
			return err
		}
		if err := checkAdmin(ctx, tx, t.OwnerID, t.ProjectID); err != nil {
			return err
		}
		return insertTokenBrokers(ctx, tx, t)
	})
}

func insertTokenBrokers(ctx context.Context, tx *writeTx, t Token) error {
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

// descendants are the tokens that a token made, that these made, and so on.
const descendants = `
	WITH RECURSIVE descendants (id) AS (
		SELECT id FROM tokens WHERE parent_id = ?1
		UNION
		SELECT t.id FROM tokens t JOIN descendants d ON t.parent_id = d.id)`

// DeleteToken revokes a token of a project with its descendants, which it returns,
// oldest first. ErrNotFound if there is none.
func (d *DB) DeleteToken(ctx context.Context, projectID, id string) (ended []Token, err error) {
	const list = descendants + "SELECT " + tokenColumns + ` FROM tokens t
		WHERE t.id IN (SELECT id FROM descendants) ORDER BY t.issued_at, t.id`
	const q = "DELETE FROM tokens WHERE id = ? AND project_id = ?" // the descendants go with it
	err = d.write(ctx, "delete token", func(tx *writeTx) error {
		if ended, err = collect(ctx, tx, scanToken, list, id); err != nil {
			return err
		}
		return affected(tx.ExecContext(ctx, q, id, projectID))
	})
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// SetTokenOwner hands a token with its descendants to a user, and takes it from its
// parent. ErrNotFound: no such token in the project, or no such user. ErrNotAdmin: the
// user does not administer the project.
func (d *DB) SetTokenOwner(ctx context.Context, projectID, id, userID string) error {
	const own = "UPDATE tokens SET owner_id = ?, parent_id = NULL WHERE id = ? AND project_id = ?"
	const others = descendants + "UPDATE tokens SET owner_id = ?2 WHERE id IN (SELECT id FROM descendants)"
	return d.write(ctx, "set token owner", func(tx *writeTx) error {
		if err := affected(tx.ExecContext(ctx, own, userID, id, projectID)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, others, id, userID); err != nil {
			return err
		}
		return checkAdmin(ctx, tx, userID, projectID)
	})
}

// checkAdmin returns ErrNotAdmin unless a user administers a project. It is asked in the
// transaction that stores the token of the user: the membership may have ended since the
// request was let in, and its end did not take this token.
func checkAdmin(ctx context.Context, tx *writeTx, userID, projectID string) error {
	const q = `
		SELECT EXISTS (SELECT 1 FROM users u LEFT JOIN members m ON m.user_id = u.id AND m.project_id = ?
		WHERE u.id = ? AND (u.root = 1 OR m.role = ?))`
	is, err := exists(ctx, tx, q, projectID, userID, roleAdmin)
	if err == nil && !is {
		err = ErrNotAdmin
	}
	return err
}

// endTokens deletes the tokens of a user in a project, or in all projects of which
// it is no member where none is named.
func endTokens(ctx context.Context, tx *writeTx, userID, projectID string) error {
	const q = `
		DELETE FROM tokens WHERE owner_id = ?1 AND (project_id = ?2 OR ?2 = '' AND NOT EXISTS (
			SELECT 1 FROM members m WHERE m.user_id = ?1 AND m.project_id = tokens.project_id))`
	_, err := tx.ExecContext(ctx, q, userID, projectID)
	return err
}

const tokenByHashQuery = "SELECT " + tokenColumns + " FROM tokens t WHERE t.hash = ?"

// TokenByHash finds a token, expired or not, by the hash of its value.
// ErrNotFound if there is none.
func (d *DB) TokenByHash(ctx context.Context, hash string) (Token, error) {
	t, err := cached(d, tokenKey{hash}, func() (Token, error) {
		return scanToken(pointRow(ctx, d.point.token, hash))
	})
	return t, wrap("get token", err)
}

// TouchTokens notes when tokens (by id) were last used. A time earlier than the
// stored one and a token that was deleted change nothing.
func (d *DB) TouchTokens(ctx context.Context, used map[string]time.Time) error {
	const q = "UPDATE tokens SET last_used_at = ? WHERE id = ? AND last_used_at < ?"
	return d.write(ctx, "touch tokens", func(tx *writeTx) error {
		for id, at := range used {
			if _, err := tx.ExecContext(ctx, q, millis(at), id, millis(at)); err != nil {
				return err
			}
		}
		return nil
	})
}
