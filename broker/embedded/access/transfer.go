package access

import (
	"context"
	"database/sql"
	"io"
	"slices"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// ImportAccess imports a document, all or nothing; see broker.AccessTransfer. If nothing
// was stored before, the result is exactly the content of the document.
func (c *Control) ImportAccess(ctx context.Context, document io.Reader, replace bool) (broker.ImportReport, error) {
	const op = "importAccess"
	if r := c.remoteLeader(); r != nil {
		report, err := c.forwardImport(ctx, r, document, replace)
		return report, withOp(err, op)
	}
	report, disconnects, err := c.importDocument(ctx, document, replace)
	c.disconnect(disconnects)
	return report, withOp(err, op)
}

// importDocument imports a document on this broker. The caller must handle the disconnects.
func (c *Control) importDocument(ctx context.Context, document io.Reader, replace bool) (broker.ImportReport, []dynsec.Disconnect, error) {
	parsed, warnings, err := dynsec.ParseDocument(document)
	if err != nil {
		return broker.ImportReport{}, nil, err
	}
	var stored map[string]string
	if !replace {
		if stored, err = c.store.passwords(ctx); err != nil {
			return broker.ImportReport{}, nil, classify(err)
		}
	}
	var report broker.ImportReport
	disconnects, err := c.change(ctx, &request{apply: func(tx *dynsec.Tx) (err error) {
		report, err = tx.Import(parsed, replace, func(username string) string { return stored[username] })
		return err
	}})
	if err != nil {
		return broker.ImportReport{}, nil, err
	}
	report.Warnings = slices.Insert(report.Warnings, 0, warnings...)
	return report, disconnects, nil
}

// ExportAccess returns the stored configuration as of one moment.
func (c *Control) ExportAccess(ctx context.Context) ([]byte, error) {
	const op = "exportAccess"
	document, err := c.document(ctx)
	if err != nil {
		return nil, &broker.Error{Kind: broker.Internal, Op: op, Msg: "the stored configuration could not be read", Err: err}
	}
	return document.Marshal()
}

// passwords reads the hashes. A password that is set while they are read counts as it was
// before: an import then leaves it, or is refused.
func (s *store) passwords(ctx context.Context) (map[string]string, error) {
	tx, err := s.bulk.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // read only
	return loadPasswords(ctx, tx)
}

// document returns records and passwords of one moment, without waiting for writes: the
// passwords are read in the transaction that the records belong to.
func (c *Control) document(ctx context.Context) (dynsec.Document, error) {
	tx, err := c.store.bulk.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return dynsec.Document{}, err
	}
	defer tx.Rollback() //nolint:errcheck // read only
	state, err := c.published(ctx, tx)
	if err == nil && state == nil {
		state, _, err = loadState(ctx, tx)
	}
	if err != nil {
		return dynsec.Document{}, err
	}
	passwords, err := loadPasswords(ctx, tx)
	if err != nil {
		return dynsec.Document{}, err
	}
	return state.Document(func(username string) string { return passwords[username] }), nil
}

// published returns the published state if it is what the transaction reads, otherwise nil:
// while a change is being stored it may not be. Reading the records instead costs ten times
// as much, but does not wait.
func (c *Control) published(ctx context.Context, tx *sql.Tx) (*dynsec.State, error) {
	if !c.committing.TryLock() {
		return nil, nil
	}
	defer c.committing.Unlock()
	var n int
	err := tx.QueryRowContext(ctx, `SELECT count(*) FROM access_settings`).Scan(&n) // the first read fixes the moment
	return c.state.Load(), err
}

func loadPasswords(ctx context.Context, tx *sql.Tx) (map[string]string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT username, encoded FROM access_passwords`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	passwords := map[string]string{}
	for rows.Next() {
		var username, encoded string
		if err := rows.Scan(&username, &encoded); err != nil {
			return nil, err
		}
		passwords[username] = encoded
	}
	return passwords, rows.Err()
}
