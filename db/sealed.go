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
	sealedKey               // the key of all others, if the database was shared
)

// updateSealed are the statements that replace a secret.
var updateSealed = map[sealedKind]string{
	sealedBroker: "UPDATE brokers SET secrets = ? WHERE id = ?",
	sealedNode:   "UPDATE cluster_nodes SET secrets = ? WHERE id = ?",
	sealedAudit:  "UPDATE audit_keys SET secrets = ? WHERE id = ?",
}

// ListSealed returns all that callers have sealed with their own key: that is one secret, the key
// of the others, if the database has such a key.
func (d *DB) ListSealed(ctx context.Context) (all []Sealed, err error) {
	const key = "SELECT ?, key, 3 FROM local_state WHERE length(key) > 0"
	const secrets = `
		SELECT id, secrets, 0 FROM brokers WHERE length(secrets) > 0
		UNION ALL SELECT id, secrets, 1 FROM cluster_nodes WHERE length(secrets) > 0
		UNION ALL SELECT id, secrets, 2 FROM audit_keys WHERE length(secrets) > 0`
	scan := func(row scanner) (s Sealed, err error) {
		err = row.Scan(&s.ID, &s.Secrets, &s.kind)
		return s, err
	}
	has, err := d.hasKey(ctx)
	if err == nil && has {
		all, err = collect(ctx, d.ro, scan, key, SharedKeyID)
	}
	if err == nil && len(all) == 0 {
		all, err = collect(ctx, d.ro, scan, secrets)
	}
	return all, wrap("list secrets", err)
}

// PutSealed replaces secrets that ListSealed has returned, which otherwise stay as
// they are: no row gets a new revision.
func (d *DB) PutSealed(ctx context.Context, all []Sealed) error {
	if len(all) == 1 && all[0].kind == sealedKey { // which belongs to this machine
		return d.writeLocal(ctx, "store secrets", func(tx *sql.Tx) error {
			return affected(tx.ExecContext(ctx, "UPDATE local_state SET key = ?", all[0].Secrets))
		})
	}
	return d.write(ctx, "store secrets", func(tx *writeTx) error { return putSealed(ctx, tx, all) })
}

func putSealed(ctx context.Context, tx *writeTx, all []Sealed) error {
	for _, s := range all {
		if err := affected(tx.ExecContext(ctx, updateSealed[s.kind], s.Secrets, s.ID)); err != nil {
			return fmt.Errorf("row %s: %w", s.ID, err)
		}
	}
	return nil
}
