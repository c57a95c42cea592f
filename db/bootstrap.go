package db

import (
	"context"
)

// Initialised reports whether the first start has taken place. Since the last
// root administrator cannot be removed, it is true for ever after.
func (d *DB) Initialised(ctx context.Context) (bool, error) {
	done, err := initialised(ctx, d.ro)
	return done, wrap("look for users", err)
}

func initialised(ctx context.Context, q queryer) (bool, error) {
	return exists(ctx, q, "SELECT EXISTS (SELECT 1 FROM users)")
}

// Initialise stores what the first start creates: the root administrator, its
// project, and the embedded broker's record unless b is nil. ErrExists: the
// first start has taken place.
func (d *DB) Initialise(ctx context.Context, u User, p Project, b *Broker) error {
	return d.write(ctx, "initialise", func(tx *writeTx) error {
		if done, err := initialised(ctx, tx); err != nil {
			return err
		} else if done {
			return ErrExists
		}
		if err := insertUser(ctx, tx, u); err != nil {
			return err
		}
		if err := insertProject(ctx, tx, p); err != nil || b == nil {
			return err
		}
		return d.insertBroker(ctx, tx, *b)
	})
}
