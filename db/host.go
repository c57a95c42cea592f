package db

import (
	"context"
	"database/sql"
)

// hostLeft is the host in the content of a node that has left a cluster, which goes on with the definitions.
const hostLeft = "left"

// changeHostQuery is the statement that Apply recognises.
const changeHostQuery = "UPDATE shared_state SET host = ?"

// Hosts reports whether the streams and bridges of broker connections run at this node, by the content that it has
// applied: it was the last to call BecomeHost, or its content never was that of several nodes.
func (d *DB) Hosts() bool {
	host := d.host.Load()
	return host == nil || *host == "" || *host == d.origin
}

// BecomeHost has the streams and bridges of broker connections run at this node from now on. When it returns nil, this
// node has applied everything that was acknowledged before.
func (d *DB) BecomeHost(ctx context.Context) error {
	return d.write(ctx, "become the node that runs streams and bridges", func(tx *writeTx) error {
		_, err := tx.ExecContext(ctx, changeHostQuery, d.origin)
		return err
	})
}

// RestoreHost is called for a copy that was restored from a backup of a node: the streams and bridges of broker
// connections run there, unless it has left other nodes, which go on with them.
func (d *DB) RestoreHost(ctx context.Context, left bool) error {
	if d.IsOutdated() { // no node had shared them
		return nil
	}
	host := ""
	if left {
		host = hostLeft
	}
	err := d.writeLocal(ctx, "restore the host", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, changeHostQuery, host)
		return err
	})
	if err == nil {
		d.host.Store(&host)
	}
	return err
}

// readHost reads the host. The database may have the schema of the release before.
func readHost(ctx context.Context, q queryer) (host string, err error) {
	has, err := exists(ctx, q, "SELECT EXISTS (SELECT 1 FROM pragma_table_info('shared_state') WHERE name = 'host')")
	if has {
		err = q.QueryRowContext(ctx, "SELECT host FROM shared_state").Scan(&host)
	}
	return host, err
}

// changedHost returns the host after the entry, if that changes it.
func (e *entry) changedHost() (host string, changed bool) {
	for _, c := range e.statements {
		if c.text == changeHostQuery && len(c.args) == 1 {
			host, changed = c.args[0].(string)
		}
	}
	return host, changed
}

// replaceDefinitions stores definitions in place of those with the same ids.
func replaceDefinitions(ctx context.Context, tx *sql.Tx, all []Definition) error {
	for _, f := range all {
		if _, err := tx.ExecContext(ctx, "UPDATE definitions SET rev = ?, document = ? WHERE id = ?", f.Rev, f.Document, f.ID()); err != nil {
			return err
		}
	}
	return nil
}
