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
	kind    sealedKind
}

// sealedKind is what a secret belongs to.
type sealedKind int

const (
	sealedBroker sealedKind = iota
	sealedNode              // of a cluster
	sealedAudit             // a key of the audit log
)

// updateSealed are the statements that replace a secret.
var updateSealed = map[sealedKind]string{
	sealedBroker: "UPDATE brokers SET secrets = ? WHERE id = ?",
	sealedNode:   "UPDATE cluster_nodes SET secrets = ? WHERE id = ?",
	sealedAudit:  "UPDATE audit_keys SET secrets = ? WHERE id = ?",
}

// ListSealed returns all that callers have sealed.
func (d *DB) ListSealed(ctx context.Context) (all []Sealed, err error) {
	const q = `
		SELECT id, secrets, 0 FROM brokers WHERE length(secrets) > 0
		UNION ALL SELECT id, secrets, 1 FROM cluster_nodes WHERE length(secrets) > 0
		UNION ALL SELECT id, secrets, 2 FROM audit_keys WHERE length(secrets) > 0`
	all, err = collect(ctx, d.ro, func(row scanner) (s Sealed, err error) {
		err = row.Scan(&s.ID, &s.Secrets, &s.kind)
		return s, err
	}, q)
	return all, wrap("list secrets", err)
}

// PutSealed replaces secrets that ListSealed has returned, which otherwise stay as
// they are: no row gets a new revision.
func (d *DB) PutSealed(ctx context.Context, all []Sealed) error {
	return d.write(ctx, "store secrets", func(tx *sql.Tx) error {
		for _, s := range all {
			if err := affected(tx.ExecContext(ctx, updateSealed[s.kind], s.Secrets, s.ID)); err != nil {
				return fmt.Errorf("row %s: %w", s.ID, err)
			}
		}
		return nil
	})
}
