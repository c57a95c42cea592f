package db

import (
	"cmp"
	"context"
	"database/sql"
	"strings"
	"time"
)

// User is a person who may sign in. PasswordHash is a PHC string, "" for none;
// a user with an SSOType ("ldap", "sso") has no password here.
type User struct {
	ID           string
	Email        string
	FirstName    string
	LastName     string
	PasswordHash string
	SSOType      string
	Verified     bool
	Root         bool
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// Name is what to call the user: first and last name, or else the address.
func (u User) Name() string { return personName(u.FirstName, u.LastName, u.Email) }

func personName(first, last, email string) string {
	return cmp.Or(strings.TrimSpace(first+" "+last), email)
}

// UserSummary is a user with the number of projects it is a member of, and of the brokers in
// them, and the time of its newest row in the audit log, zero if it has none.
type UserSummary struct {
	User
	ProjectCount int
	BrokerCount  int
	LastSeenAt   time.Time
}

// UserUpdate changes the members that are not nil.
type UserUpdate struct {
	ID           string
	Email        *string
	FirstName    *string
	LastName     *string
	Verified     *bool
	PasswordHash *string
	UpdatedAt    time.Time
}

// FoldEmail returns the form in which two spellings of one address are equal.
func FoldEmail(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

const userColumns = `u.id, u.email, u.first_name, u.last_name, u.password_hash,
	u.sso_type, u.verified, u.root, u.created_at, u.updated_at`

const summaryColumns = userColumns + `,
	(SELECT count(*) FROM members m WHERE m.user_id = u.id),
	(SELECT count(*) FROM members m JOIN brokers b ON b.project_id = m.project_id WHERE m.user_id = u.id),
	coalesce((SELECT a.time FROM audit a WHERE a.actor_id = u.id AND a.actor_id <> '' AND a.actor_kind = 'user'
		ORDER BY a.time DESC LIMIT 1), 0)`

func (u *User) fields() []any {
	return []any{&u.ID, &u.Email, &u.FirstName, &u.LastName, &u.PasswordHash, &u.SSOType,
		&u.Verified, &u.Root, (*millis)(&u.CreatedAt), (*millis)(&u.UpdatedAt)}
}

func scanUser(row scanner) (u User, err error) {
	err = row.Scan(u.fields()...)
	return u, err
}

func scanSummary(row scanner) (s UserSummary, err error) {
	err = row.Scan(append(s.fields(), &s.ProjectCount, &s.BrokerCount, (*millis)(&s.LastSeenAt))...)
	return s, err
}

// CreateUser stores a user. ErrExists: the id or the address, whatever its
// letters' case, is taken.
func (d *DB) CreateUser(ctx context.Context, u User) error {
	return d.write(ctx, "create user", func(tx *writeTx) error { return insertUser(ctx, tx, u) })
}

func insertUser(ctx context.Context, tx *writeTx, u User) error {
	const q = `
		INSERT INTO users (id, email, email_key, first_name, last_name, password_hash,
			sso_type, verified, root, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	_, err := tx.ExecContext(ctx, q, u.ID, u.Email, FoldEmail(u.Email), u.FirstName, u.LastName, u.PasswordHash,
		u.SSOType, u.Verified, u.Root, millis(u.CreatedAt), millis(u.UpdatedAt))
	return err
}

// GetUser finds a user by its id, and counts its projects. ErrNotFound if there is none.
func (d *DB) GetUser(ctx context.Context, id string) (UserSummary, error) {
	const q = "SELECT " + summaryColumns + " FROM users u WHERE u.id = ?"
	u, err := scanSummary(d.ro.QueryRowContext(ctx, q, id))
	return u, wrap("get user", err)
}

const userByIDQuery = "SELECT " + userColumns + " FROM users u WHERE u.id = ?"

// UserByID finds a user by its id, without counting its projects. ErrNotFound if there is
// none.
func (d *DB) UserByID(ctx context.Context, id string) (User, error) {
	u, err := scanUser(pointRow(ctx, d.point.user, id))
	return u, wrap("get user", err)
}

// UserByEmail finds a user by its address in any case. ErrNotFound if there is none.
func (d *DB) UserByEmail(ctx context.Context, email string) (User, error) {
	u, err := userByEmail(ctx, d.ro, email)
	return u, wrap("get user by e-mail", err)
}

func userByEmail(ctx context.Context, q queryer, email string) (User, error) {
	const query = "SELECT " + userColumns + " FROM users u WHERE u.email_key = ?"
	return scanUser(q.QueryRowContext(ctx, query, FoldEmail(email)))
}

func userByID(ctx context.Context, q queryer, id string) (User, error) {
	return scanUser(q.QueryRowContext(ctx, userByIDQuery, id))
}

// ListUsers returns the number of all users and a page of them, oldest first. A
// negative limit means all.
func (d *DB) ListUsers(ctx context.Context, offset, limit int) (total int, page []UserSummary, err error) {
	const count = "SELECT count(*) FROM users"
	const q = "SELECT " + summaryColumns + " FROM users u ORDER BY u.created_at, u.id LIMIT ? OFFSET ?"
	err = d.read(ctx, "list users", func(tx *sql.Tx) (err error) {
		if err = tx.QueryRowContext(ctx, count).Scan(&total); err == nil {
			page, err = collect(ctx, tx, scanSummary, q, limit, offset)
		}
		return err
	})
	return total, page, err
}

// UpdateUser changes a user. A new password hash, or taking the verification
// away, ends its sessions. ErrNotFound: no such user. ErrExists: the address is
// taken. ErrLastRoot: the last root administrator has to stay verified.
func (d *DB) UpdateUser(ctx context.Context, c UserUpdate) error {
	return d.write(ctx, "update user", func(tx *writeTx) error {
		u, err := userByID(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		if u.Root && u.Verified && c.Verified != nil && !*c.Verified {
			if err := keepAdministrator(ctx, tx); err != nil {
				return err
			}
		}
		u.apply(c)
		if err := storeUser(ctx, tx, u); err != nil {
			return err
		}
		if c.PasswordHash != nil || !u.Verified {
			return endSessions(ctx, tx, u.ID, "")
		}
		return nil
	})
}

func (u *User) apply(c UserUpdate) {
	set(&u.Email, c.Email)
	set(&u.FirstName, c.FirstName)
	set(&u.LastName, c.LastName)
	set(&u.Verified, c.Verified)
	set(&u.PasswordHash, c.PasswordHash)
	u.UpdatedAt = c.UpdatedAt
}

func set[T any](dst, src *T) {
	if src != nil {
		*dst = *src
	}
}

func storeUser(ctx context.Context, tx *writeTx, u User) error {
	const q = `
		UPDATE users SET email = ?, email_key = ?, first_name = ?, last_name = ?,
			password_hash = ?, verified = ?, root = ?, updated_at = ?
		WHERE id = ?`
	_, err := tx.ExecContext(ctx, q, u.Email, FoldEmail(u.Email), u.FirstName, u.LastName,
		u.PasswordHash, u.Verified, u.Root, millis(u.UpdatedAt), u.ID)
	return err
}

// SetPassword stores a new password hash and ends all sessions of the user but
// the one whose hash is keepSession. ErrNotFound: no such user.
func (d *DB) SetPassword(ctx context.Context, userID, hash, keepSession string, at time.Time) error {
	const q = "UPDATE users SET password_hash = ?, updated_at = ? WHERE id = ?"
	return d.write(ctx, "set password", func(tx *writeTx) error {
		if err := affected(tx.ExecContext(ctx, q, hash, millis(at), userID)); err != nil {
			return err
		}
		return endSessions(ctx, tx, userID, keepSession)
	})
}

// DeleteUser removes a user, its sessions, memberships and tokens. ErrNotFound: no such
// user. ErrLastRoot: it is the last root administrator. ErrInUse: it owns projects.
func (d *DB) DeleteUser(ctx context.Context, id string) error {
	const owns = "SELECT EXISTS (SELECT 1 FROM projects WHERE owner_id = ?)"
	const remove = "DELETE FROM users WHERE id = ?"
	return d.write(ctx, "delete user", func(tx *writeTx) error {
		u, err := userByID(ctx, tx, id)
		if err != nil {
			return err
		}
		if u.Root {
			if err := keepAdministrator(ctx, tx); err != nil {
				return err
			}
		}
		if used, err := exists(ctx, tx, owns, id); err != nil || used {
			return orInUse(err)
		}
		_, err = tx.ExecContext(ctx, remove, id)
		return err
	})
}

// orInUse returns the error of a look-up, or ErrInUse where it succeeded.
func orInUse(err error) error { return cmp.Or(err, ErrInUse) }
