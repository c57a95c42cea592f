package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	sealedKey               // a key of the others, if the database is or was shared
	sealedBridge            // the configuration of a bridge
)

// updateSealed are the statements that replace a secret.
var updateSealed = map[sealedKind]string{
	sealedBroker: "UPDATE brokers SET secrets = ? WHERE id = ?",
	sealedNode:   "UPDATE cluster_nodes SET secrets = ? WHERE id = ?",
	sealedAudit:  "UPDATE audit_keys SET secrets = ? WHERE id = ?",
	sealedKey:    "UPDATE shared_keys SET key = ? WHERE id = ?",
	sealedBridge: "UPDATE definitions SET document = ? WHERE id = ?",
}

// selectSealed are the queries of one secret, as sealedQuery selects all.
var selectSealed = map[sealedKind]string{
	sealedBroker: "SELECT id, secrets, 0 FROM brokers WHERE id = ? AND length(secrets) > 0",
	sealedNode:   "SELECT id, secrets, 1 FROM cluster_nodes WHERE id = ? AND length(secrets) > 0",
	sealedAudit:  "SELECT id, secrets, 2 FROM audit_keys WHERE id = ? AND length(secrets) > 0",
	sealedBridge: "SELECT id, document, 4 FROM definitions WHERE id = ? AND kind = 'bridge'",
}

// sealedQuery selects the secrets of all rows of a database with the schema before definitions.
const sealedQuery = `
	SELECT id, secrets, 0 FROM brokers WHERE length(secrets) > 0
	UNION ALL SELECT id, secrets, 1 FROM cluster_nodes WHERE length(secrets) > 0
	UNION ALL SELECT id, secrets, 2 FROM audit_keys WHERE length(secrets) > 0`

// collectSealed reads the secrets of all rows. The database may have the schema of the release before.
func collectSealed[T any](ctx context.Context, q queryer, scan func(scanner) (T, error)) ([]T, error) {
	query := sealedQuery
	has, err := exists(ctx, q, "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'definitions')")
	if has {
		query += " UNION ALL SELECT id, document, 4 FROM definitions WHERE kind = 'bridge'"
	}
	if err != nil {
		return nil, err
	}
	return collect(ctx, q, scan, query)
}

// keyedSecret is the first byte of a secret that is sealed with a key of the database.
const keyedSecret = 2

func scanSealed(row scanner) (s Sealed, err error) {
	err = row.Scan(&s.ID, &s.Secrets, &s.kind)
	return s, err
}

// ListSealed returns all that callers have sealed with their own key: the keys of the database, if it
// has any, and the secrets that are not sealed with one of these.
func (d *DB) ListSealed(ctx context.Context) (all []Sealed, err error) {
	all, err = d.ListSecrets(ctx)
	return slices.DeleteFunc(all, func(s Sealed) bool { return s.kind != sealedKey && s.Secrets[0] == keyedSecret }), err
}

// ListSecrets returns all secrets, and the keys of the database, if it has any.
func (d *DB) ListSecrets(ctx context.Context) (all []Sealed, err error) {
	err = d.read(ctx, "list secrets", func(tx *sql.Tx) error {
		if all, err = collectSealed(ctx, tx, scanSealed); err != nil {
			return err
		}
		if has, err := hasSharedKeys(ctx, tx); err != nil || !has {
			return err
		}
		keys, err := collect(ctx, tx, scanSealed, "SELECT ? || id, key, 3 FROM shared_keys ORDER BY id", SharedKeyID)
		all = append(all, keys...)
		return err
	})
	return all, err
}

// PutSealed replaces secrets that ListSealed has returned, which otherwise stay as
// they are: no row gets a new revision.
func (d *DB) PutSealed(ctx context.Context, all []Sealed) error {
	var keys, rows []Sealed
	for _, s := range all {
		if s.kind == sealedKey {
			s.ID = strings.TrimPrefix(s.ID, SharedKeyID)
			keys = append(keys, s)
		} else {
			rows = append(rows, s)
		}
	}
	if len(rows) == 0 && len(keys) > 0 { // which belong to this machine, also where the rest is shared
		return d.writeLocal(ctx, "store secrets", func(tx *sql.Tx) error { return putSealed(ctx, tx, keys) })
	}
	return d.write(ctx, "store secrets", func(tx *writeTx) error {
		if tx.recorded != nil && len(keys) > 0 {
			return errors.New("keys that belong to this machine cannot be shared")
		}
		return putSealed(ctx, tx, append(keys, rows...))
	})
}

func putSealed(ctx context.Context, tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, all []Sealed) error {
	for _, s := range all {
		if err := affected(tx.ExecContext(ctx, updateSealed[s.kind], s.Secrets, s.ID)); err != nil {
			return fmt.Errorf("row %s: %w", s.ID, err)
		}
	}
	return nil
}
