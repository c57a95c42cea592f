package db

import (
	"context"
	"database/sql"
	"fmt"
)

// Sealed is a secret as it is stored, sealed by the caller for the id of its row.
type Sealed struct {
	ID      string
	Secrets []byte
	node    bool // of a cluster, else of a broker connection
}

// ListSealed returns all that callers have sealed.
func (d *DB) ListSealed(ctx context.Context) (all []Sealed, err error) {
	const q = `
		SELECT id, secrets, 0 FROM brokers WHERE length(secrets) > 0
		UNION ALL SELECT id, secrets, 1 FROM cluster_nodes WHERE length(secrets) > 0`
	all, err = collect(ctx, d.ro, func(row scanner) (s Sealed, err error) {
		err = row.Scan(&s.ID, &s.Secrets, &s.node)
		return s, err
	}, q)
	return all, wrap("list secrets", err)
}

// PutSealed replaces secrets that ListSealed has returned, which otherwise stay as
// they are: no row gets a new revision.
func (d *DB) PutSealed(ctx context.Context, all []Sealed) error {
	return d.write(ctx, "store secrets", func(tx *sql.Tx) error {
		for _, s := range all {
			q := `UPDATE brokers SET secrets = ? WHERE id = ?`
			if s.node {
				q = `UPDATE cluster_nodes SET secrets = ? WHERE id = ?`
			}
			if err := affected(tx.ExecContext(ctx, q, s.Secrets, s.ID)); err != nil {
				return fmt.Errorf("row %s: %w", s.ID, err)
			}
		}
		return nil
	})
}
