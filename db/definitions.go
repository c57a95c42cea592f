package db

import (
	"context"
	"database/sql"
	"fmt"
)

// DefinitionKind is what a [Definition] defines.
type DefinitionKind string

// The kinds of definitions.
const (
	StreamDefinition DefinitionKind = "stream"
	BridgeDefinition DefinitionKind = "bridge"
)

// Definition is a stream, or the configuration of a bridge, that the program runs for a broker
// connection or for the embedded brokers. The document of a bridge is sealed by the caller for [Definition.ID].
type Definition struct {
	Kind     DefinitionKind
	BrokerID string // of the connection; "" = of the embedded brokers
	Name     string // of the stream, or the id of the bridge
	Rev      int64  // not 0, and another one after each change
	Document []byte
}

// ID returns the id of the row.
func (f Definition) ID() string { return string(f.Kind) + "/" + f.BrokerID + "/" + f.Name }

func scanDefinition(row scanner) (f Definition, err error) {
	err = row.Scan(&f.Kind, &f.BrokerID, &f.Name, &f.Rev, &f.Document)
	return f, err
}

// ListDefinitions lists the definitions of a kind of a broker connection, by name. ErrNotFound: no such broker connection.
func (d *DB) ListDefinitions(ctx context.Context, kind DefinitionKind, brokerID string) (all []Definition, err error) {
	const q = "SELECT kind, coalesce(broker_id, ''), name, rev, document FROM definitions WHERE broker_id = ? AND kind = ? ORDER BY name"
	err = d.read(ctx, "list definitions", func(tx *sql.Tx) error {
		found, err := exists(ctx, tx, connectionExistsQuery, brokerID)
		if err == nil && !found {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		all, err = collect(ctx, tx, scanDefinition, q, brokerID, string(kind))
		return err
	})
	return all, err
}

const connectionExistsQuery = "SELECT EXISTS (SELECT 1 FROM brokers WHERE id = ?)"

// AllDefinitions lists all definitions. The database may have a schema without any.
func (d *DB) AllDefinitions(ctx context.Context) ([]Definition, error) {
	has, err := exists(ctx, d.ro, "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'definitions')")
	if err != nil || !has {
		return nil, wrap("list definitions", err)
	}
	all, err := collect(ctx, d.ro, scanDefinition, "SELECT kind, coalesce(broker_id, ''), name, rev, document FROM definitions ORDER BY id")
	return all, wrap("list definitions", err)
}

// DefinitionsChanged returns a channel that is closed when definitions may have changed by Apply, and by
// ContentReplaced, NotifyDefinitions, and what imports or releases them.
func (d *DB) DefinitionsChanged() <-chan struct{} { return d.defined.wait() }

// NotifyDefinitions has those who wait for DefinitionsChanged read the definitions again.
func (d *DB) NotifyDefinitions() { d.defined.notify() }

// HasImported reports whether definitions are stored here, and not in files of this machine alone: since ImportDefinitions.
func (d *DB) HasImported() bool { return d.imported.Load() }

// ImportDefinitions stores the definitions of this machine, and notes, durably, that definitions are stored here from
// now on. Those of broker connections that do not exist are left out. If the database is this node's own, they replace
// those that are stored; else they are added to what other nodes have stored, and those that had been defined there are
// returned. The owner is BridgeOwner from now on, unless there is one.
func (d *DB) ImportDefinitions(ctx context.Context, owner string, all []Definition) (defined []Definition, err error) {
	err = d.write(ctx, "import definitions", func(tx *writeTx) (err error) {
		if _, err := tx.ExecContext(ctx, bridgeOwnerQuery, owner); err != nil {
			return err
		}
		if tx.recorded == nil {
			if _, err := tx.ExecContext(ctx, "DELETE FROM definitions WHERE broker_id IS NOT NULL"); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, importedQuery); err != nil {
				return err
			}
		}
		defined, err = d.importMissing(ctx, tx, all)
		return err
	})
	if err != nil {
		return nil, err
	}
	return defined, d.noteImported(ctx)
}

// AddImported is ImportDefinitions of definitions that PutDefinition has stored, one by one.
func (d *DB) AddImported(ctx context.Context, owner string) error {
	err := d.write(ctx, "import definitions", func(tx *writeTx) error {
		_, err := tx.ExecContext(ctx, bridgeOwnerQuery, owner)
		return err
	})
	if err != nil {
		return err
	}
	return d.noteImported(ctx)
}

func (d *DB) noteImported(ctx context.Context) error {
	err := d.writeLocal(ctx, "note that definitions are imported", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, importedQuery)
		return err
	})
	if err == nil {
		d.imported.Store(true)
		d.defined.notify()
	}
	return err
}

const bridgeOwnerQuery = "UPDATE shared_state SET bridge_owner = ? WHERE bridge_owner = ''"

// BridgeOwner returns the name with which the bridges of broker connections connect to other brokers, "" if it is that of
// the machine: nodes that share the database have one, as one node continues the sessions of another.
func (d *DB) BridgeOwner(ctx context.Context) (owner string, err error) {
	err = d.ro.QueryRowContext(ctx, "SELECT bridge_owner FROM shared_state").Scan(&owner)
	return owner, wrap("read the owner of bridges", err)
}

const importedQuery = "UPDATE local_state SET imported = 1"

// importMissing stores definitions, and returns those that were stored before.
func (d *DB) importMissing(ctx context.Context, tx *writeTx, all []Definition) (defined []Definition, err error) {
	for _, f := range all {
		had, err := d.importOne(ctx, tx, f)
		if err != nil {
			return nil, err
		}
		if had {
			defined = append(defined, f)
		}
	}
	return defined, nil
}

// importOne stores a definition, unless one is stored, which it reports, or there is no such broker connection.
func (d *DB) importOne(ctx context.Context, tx *writeTx, f Definition) (had bool, err error) {
	rev, err := definitionRev(ctx, tx, f)
	if err != nil || rev != 0 {
		return rev != 0, err
	}
	if f.BrokerID != "" {
		found, err := exists(ctx, tx, connectionExistsQuery, f.BrokerID)
		if err != nil || !found {
			return false, err
		}
	}
	return false, d.putDefinition(ctx, tx, f, 0)
}

// readImported reads whether definitions are stored here. The database may have the schema of the release before.
func readImported(ctx context.Context, q queryer) (imported bool, err error) {
	has, err := exists(ctx, q, "SELECT EXISTS (SELECT 1 FROM pragma_table_info('local_state') WHERE name = 'imported')")
	if has {
		has, err = exists(ctx, q, "SELECT imported FROM local_state")
	}
	return has, err
}

// PutDefinition stores a definition, provided that the stored one has the revision rev; 0 means that there is none.
// ErrNotFound: no such broker connection. ErrConflict: another revision.
func (d *DB) PutDefinition(ctx context.Context, f Definition, rev int64) error {
	return d.write(ctx, "store a definition", func(tx *writeTx) error {
		stored, err := definitionRev(ctx, tx, f)
		if err == nil && stored != rev {
			err = ErrConflict
		}
		if err != nil {
			return err
		}
		return d.putDefinition(ctx, tx, f, rev)
	})
}

// putDefinition stores a definition, a new one if rev is 0.
func (d *DB) putDefinition(ctx context.Context, tx *writeTx, f Definition, rev int64) (err error) {
	const (
		insert = "INSERT INTO definitions (id, kind, broker_id, name, rev, document) VALUES (?, ?, nullif(?, ''), ?, ?, ?)"
		update = "UPDATE definitions SET rev = ?, document = ? WHERE id = ?"
	)
	document := f.Document
	if f.Kind == BridgeDefinition {
		if document, err = d.current(ctx, tx, document, f.ID()); err != nil {
			return err
		}
	}
	if rev == 0 {
		_, err = tx.ExecContext(ctx, insert, f.ID(), string(f.Kind), f.BrokerID, f.Name, f.Rev, document)
	} else {
		_, err = tx.ExecContext(ctx, update, f.Rev, document, f.ID())
	}
	return err
}

// DeleteDefinition deletes a definition, provided that it has its revision. ErrConflict: another revision, or
// none is stored.
func (d *DB) DeleteDefinition(ctx context.Context, f Definition) error {
	return d.write(ctx, "delete a definition", func(tx *writeTx) error {
		stored, err := definitionRev(ctx, tx, f)
		if err == nil && stored != f.Rev {
			err = ErrConflict
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM definitions WHERE id = ?", f.ID())
		return err
	})
}

// definitionRev returns the revision of the stored definition, 0 if there is none.
func definitionRev(ctx context.Context, tx *writeTx, f Definition) (rev int64, err error) {
	const q = "SELECT coalesce(max(rev), 0) FROM definitions WHERE id = ?"
	if err = tx.QueryRowContext(ctx, q, f.ID()).Scan(&rev); err != nil {
		return 0, fmt.Errorf("read the revision: %w", err)
	}
	return rev, nil
}
