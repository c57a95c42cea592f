package db

import (
	"context"
	"database/sql"
	"time"
)

// Session is a log-in. Hash is the SHA-256 (hex) of the token that the caller
// holds; the token itself is stored nowhere. Address and UserAgent are those of the log-in,
// "" if they are not known.
type Session struct {
	Hash      string
	UserID    string
	CreatedAt time.Time
	ExpiresAt time.Time
	Address   string
	UserAgent string
}

const sessionColumns = "s.hash, s.user_id, s.created_at, s.expires_at, s.address, s.user_agent"

func (s *Session) fields() []any {
	return []any{&s.Hash, &s.UserID, (*millis)(&s.CreatedAt), (*millis)(&s.ExpiresAt), &s.Address, &s.UserAgent}
}

func scanSession(row scanner) (s Session, err error) {
	err = row.Scan(s.fields()...)
	return s, err
}

// MaxSessions bounds the sessions of a user: nothing else limits how often one may log in.
const MaxSessions = 100

// CreateSession stores a session. If the user then has more than MaxSessions, the oldest ones end.
// ErrNotFound: no such user.
func (d *DB) CreateSession(ctx context.Context, s Session) error {
	const q = `
		INSERT INTO sessions (hash, user_id, created_at, expires_at, address, user_agent)
		VALUES (?, ?, ?, ?, ?, ?)`
	const endOldest = `
		DELETE FROM sessions WHERE hash IN (
			SELECT hash FROM sessions WHERE user_id = ? AND hash <> ?
			ORDER BY created_at DESC, hash LIMIT -1 OFFSET ?)`
	return d.write(ctx, "create session", func(tx *writeTx) error {
		_, err := tx.ExecContext(ctx, q, s.Hash, s.UserID, millis(s.CreatedAt), millis(s.ExpiresAt), bounded(s.Address), bounded(s.UserAgent))
		if err == nil {
			_, err = tx.ExecContext(ctx, endOldest, s.UserID, s.Hash, MaxSessions-1)
		}
		return err
	})
}

// SessionsOf returns the sessions of a user that are valid at now, the newest first.
func (d *DB) SessionsOf(ctx context.Context, userID string, now time.Time) ([]Session, error) {
	const q = "SELECT " + sessionColumns + ` FROM sessions s
		WHERE s.user_id = ? AND s.expires_at > ?
		ORDER BY s.created_at DESC, s.hash`
	all, err := collect(ctx, d.ro, scanSession, q, userID, millis(now))
	return all, wrap("list sessions", err)
}

const sessionUserQuery = "SELECT " + sessionColumns + ", " + userColumns + `
	FROM sessions s JOIN users u ON u.id = s.user_id
	WHERE s.hash = ?`

// sessionUser is a session and its user, as cached.
type sessionUser struct {
	session Session
	user    User
}

// SessionUser finds a session that is valid at now, and its user. ErrNotFound if
// there is none.
func (d *DB) SessionUser(ctx context.Context, hash string, now time.Time) (s Session, u User, err error) {
	v, err := cached(d, sessionKey{hash}, func() (v sessionUser, err error) {
		return v, pointRow(ctx, d.point.session, hash).Scan(append(v.session.fields(), v.user.fields()...)...)
	})
	if err == nil && !v.session.ExpiresAt.After(now) {
		err = sql.ErrNoRows
	}
	if err != nil {
		return s, u, wrap("get session", err)
	}
	return v.session, v.user, nil
}

// DeleteSession ends a session. One that does not exist has ended already.
func (d *DB) DeleteSession(ctx context.Context, hash string) error {
	return d.write(ctx, "delete session", func(tx *writeTx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE hash = ?", hash)
		return err
	})
}

// DeleteExpiredSessions removes what SessionUser would no longer find at now.
func (d *DB) DeleteExpiredSessions(ctx context.Context, now time.Time) error {
	return d.write(ctx, "delete expired sessions", func(tx *writeTx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE expires_at <= ?", millis(now))
		return err
	})
}

// DeleteSessionsOf ends the sessions of a user but the one with the hash keep.
func (d *DB) DeleteSessionsOf(ctx context.Context, userID, keep string) error {
	return d.write(ctx, "delete sessions of user", func(tx *writeTx) error { return endSessions(ctx, tx, userID, keep) })
}

// endSessions ends the sessions of a user but the one with the hash keep.
func endSessions(ctx context.Context, tx *writeTx, userID, keep string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE user_id = ? AND hash <> ?", userID, keep)
	return err
}
