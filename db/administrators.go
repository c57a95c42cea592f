package db

import (
	"context"
	"database/sql"
	"time"
)

// ListRoots returns the number of root administrators and a page of them, oldest
// first. A negative limit means all.
func (d *DB) ListRoots(ctx context.Context, offset, limit int) (total int, page []User, err error) {
	const q = "SELECT " + userColumns + ` FROM users u
		WHERE u.root = 1 ORDER BY u.created_at, u.id LIMIT ? OFFSET ?`
	err = d.read(ctx, "list root administrators", func(tx *sql.Tx) (err error) {
		if total, err = countAdministrators(ctx, tx); err == nil {
			page, err = collect(ctx, tx, scanUser, q, limit, offset)
		}
		return err
	})
	return total, page, err
}

// SetRoot makes the user with that address a root administrator, or an ordinary
// user again, whose tokens end in projects of which it is no member. ErrNotFound: no such user. ErrLastRoot: it is the last one.
func (d *DB) SetRoot(ctx context.Context, email string, root bool, at time.Time) error {
	return d.write(ctx, "set root administrator", func(tx *writeTx) error {
		u, err := userByEmail(ctx, tx, email)
		if err != nil || u.Root == root {
			return err
		}
		if !root {
			if err := keepAdministrator(ctx, tx); err != nil {
				return err
			}
		}
		u.Root, u.UpdatedAt = root, at
		if err := storeUser(ctx, tx, u); err != nil || root {
			return err
		}
		return endTokens(ctx, tx, u.ID, "")
	})
}

// keepAdministrator refuses to go on when there is only one root administrator.
func keepAdministrator(ctx context.Context, tx *writeTx) error {
	n, err := countAdministrators(ctx, tx)
	if err == nil && n <= 1 {
		return ErrLastRoot
	}
	return err
}

func countAdministrators(ctx context.Context, tx queryer) (n int, err error) {
	const q = "SELECT count(*) FROM users WHERE root = 1"
	err = tx.QueryRowContext(ctx, q).Scan(&n)
	return n, err
}
