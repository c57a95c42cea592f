package db

import (
	"context"
	"database/sql"
	"slices"
)

// hostLeft is the host in the content of a node with which others have shared it, and go on with the definitions.
const hostLeft = "left"

// hostOther is the host in a copy that was restored from the backup of a node of a cluster: one of the others.
const hostOther = "other"

// changeHostQuery is the statement that Apply recognises.
const changeHostQuery = "UPDATE shared_state SET host = ?"

// Hosts reports whether the streams and bridges that copies share run at this node, by the content that it has
// applied: it was the last to call BecomeHost, or its content never was that of several nodes.
func (d *DB) Hosts() bool {
	host := d.host.Load()
	return host == nil || *host == "" || *host == d.origin
}

// IsHost reports whether this node was the last to call BecomeHost.
func (d *DB) IsHost() bool {
	host := d.host.Load()
	return host != nil && *host == d.origin
}

// IsHostedElsewhere reports whether another node with the content was the last to call BecomeHost, as far as is known.
func (d *DB) IsHostedElsewhere() bool {
	host := d.host.Load()
	return !d.Hosts() && *host != hostLeft
}

// BecomeHost has the streams and bridges that copies share run at this node from now on. When it returns nil, this
// node has applied everything that was acknowledged before.
func (d *DB) BecomeHost(ctx context.Context) error {
	return d.write(ctx, "become the node that runs streams and bridges", func(tx *writeTx) error {
		_, err := tx.ExecContext(ctx, changeHostQuery, d.origin)
		return err
	})
}

// RestoreHost is called for a copy that was restored from a backup of a node: the streams and bridges that copies
// shared run there, unless it has left other nodes, which go on with them.
func (d *DB) RestoreHost(ctx context.Context, left bool) error {
	has, err := exists(ctx, d.rw, hasHostQuery)
	if err != nil || !has { // no node had shared them
		return wrap("restore the host", err)
	}
	host := ""
	if left {
		host = hostOther
	}
	err = d.writeLocal(ctx, "restore the host", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, changeHostQuery, host)
		return err
	})
	if err == nil {
		d.host.Store(&host)
	}
	return err
}

// ClientSuffix returns what distinguishes the client ids with which streams and bridges connect to the brokers: "", or a
// random name if they were those of other nodes before, which go on with them.
func (d *DB) ClientSuffix() string {
	if suffix := d.suffix.Load(); suffix != nil {
		return *suffix
	}
	return ""
}

const hasHostQuery = "SELECT EXISTS (SELECT 1 FROM pragma_table_info('shared_state') WHERE name = 'host')"

// readHost reads the host and the suffix. The database may have the schema of the release before.
func readHost(ctx context.Context, q queryer) (host, suffix string, err error) {
	has, err := exists(ctx, q, hasHostQuery)
	if has {
		err = q.QueryRowContext(ctx, "SELECT host, client_suffix FROM shared_state").Scan(&host, &suffix)
	}
	return host, suffix, err
}

// followHost reads the host after an entry, if that may have changed it: an entry that had been applied before has not.
func (d *DB) followHost(ctx context.Context, e *entry) error {
	if !slices.ContainsFunc(e.statements, func(c statement) bool { return c.text == changeHostQuery }) {
		return nil
	}
	host, _, err := readHost(ctx, d.rw)
	if err == nil {
		d.host.Store(&host)
	}
	return err
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
