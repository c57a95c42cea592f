package db

import (
	"context"
	"database/sql"
)

// EmbeddedState is where the definitions of the embedded broker of this machine are, and what belongs to them.
type EmbeddedState struct {
	Stored bool // here; else elsewhere on this machine
	// Content is of which content the messages are that this machine stores elsewhere for them: "" = the first one that it
	// had. A node that joins others has their content instead of its own, and both may be needed.
	Content string
}

// EmbeddedState returns that state.
func (d *DB) EmbeddedState() EmbeddedState {
	if e := d.embedded.Load(); e != nil {
		return *e
	}
	return EmbeddedState{}
}

// ListEmbedded lists the definitions of a kind of the embedded brokers, by name, with the state to which they belong.
func (d *DB) ListEmbedded(ctx context.Context, kind DefinitionKind) (all []Definition, of EmbeddedState, err error) {
	const q = "SELECT kind, '', name, rev, document FROM definitions WHERE broker_id IS NULL AND kind = ? ORDER BY name"
	err = d.read(ctx, "list definitions", func(tx *sql.Tx) error {
		if of, err = readEmbedded(ctx, tx); err != nil || !of.Stored {
			return err
		}
		all, err = collect(ctx, tx, scanDefinition, q, string(kind))
		return err
	})
	return all, of, err
}

// ImportEmbedded stores the definitions of the embedded broker of this machine, which has stored them elsewhere until now. If the
// database is this node's own, they replace those that are stored; else they are added to what other nodes have stored, and
// those that had been defined there are returned.
func (d *DB) ImportEmbedded(ctx context.Context, all []Definition) (defined []Definition, err error) {
	err = d.write(ctx, "import definitions", func(tx *writeTx) (err error) {
		if tx.recorded == nil {
			if _, err := tx.ExecContext(ctx, deleteEmbeddedQuery); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, embeddedStoredQuery, true); err != nil {
				return err
			}
		}
		defined, err = d.importMissing(ctx, tx, all)
		return err
	})
	if err != nil {
		return nil, err
	}
	return defined, d.NoteEmbedded(ctx)
}

// NoteEmbedded is ImportEmbedded of definitions that PutDefinition has stored, one by one.
func (d *DB) NoteEmbedded(ctx context.Context) error {
	return d.setEmbedded(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, embeddedStoredQuery, true)
		return err
	})
}

// ReleaseEmbedded deletes the definitions of the embedded broker, which this machine stores elsewhere from now on. The
// database must be this node's own.
func (d *DB) ReleaseEmbedded(ctx context.Context) error {
	return d.setEmbedded(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, deleteEmbeddedQuery); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, embeddedStoredQuery, false)
		return err
	})
}

const (
	deleteEmbeddedQuery = "DELETE FROM definitions WHERE broker_id IS NULL"
	embeddedStoredQuery = "UPDATE local_state SET embedded = ?"
)

// setEmbedded runs a change of the state.
func (d *DB) setEmbedded(ctx context.Context, change func(*sql.Tx) error) error {
	var state EmbeddedState
	err := d.writeLocal(ctx, "note where the definitions of the embedded broker are", func(tx *sql.Tx) (err error) {
		if err := change(tx); err != nil {
			return err
		}
		state, err = readEmbedded(ctx, tx)
		return err
	})
	if err == nil {
		d.embedded.Store(&state)
		d.defined.notify()
	}
	return err
}

// readEmbedded reads the state. The database may have the schema of the release before.
func readEmbedded(ctx context.Context, q queryer) (e EmbeddedState, err error) {
	has, err := exists(ctx, q, "SELECT EXISTS (SELECT 1 FROM pragma_table_info('local_state') WHERE name = 'embedded')")
	if has {
		err = q.QueryRowContext(ctx, "SELECT embedded, embedded_content FROM local_state").Scan(&e.Stored, &e.Content)
	}
	return e, err
}
