package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"signalbox/broker/storage"
)

// The nodes of a cluster change the schema of a database that they share by an entry of its log, so that each
// entry finds the schema that it was made for. Until then a node with a later release keeps the schema that
// it finds. See "Schema" in DESIGN.md.

// upgradeLimit bounds Upgrade: the audit log may be large.
const upgradeLimit = 10 * time.Minute

// upgradeText is the text of the statement in an entry that runs the migrations up to the version that is its
// argument, which is above 0. It is not SQL.
const upgradeText = "UPGRADE SCHEMA"

// schemaState is the schema of an open database.
type schemaState struct {
	steps   fs.FS        // the migrations of this release
	release int64        // the last of them
	stored  atomic.Int64 // the last of those that were run
	changed changeSignal // of stored
}

// note notes the version that the file has now, unless it has had a later one. Calls come one after the other.
func (s *schemaState) note(version int64) {
	if s.stored.Load() < version {
		s.stored.Store(version)
		s.changed.notify()
	}
}

// sharedSchema returns the version of the schema of the file at path if that is not to be changed when it is
// opened: it has an earlier one than this release, and is shared. Otherwise it returns 0.
func sharedSchema(ctx context.Context, path string, l storage.Layout) (version int64, err error) {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return 0, nil
	}
	release, err := storage.Latest(l)
	if err != nil {
		return 0, err
	}
	err = storage.View(ctx, path, func(pool *sql.DB) error {
		stored, err := storage.Version(ctx, pool, l)
		if err != nil || stored >= release {
			return err
		}
		if has, err := hasSharedKeys(ctx, pool); err != nil || !has {
			return err
		}
		shared, err := exists(ctx, pool, "SELECT EXISTS (SELECT 1 FROM shared_state WHERE applied > 0)")
		if shared {
			version = stored
		}
		return err
	})
	return version, err
}

// Schema returns the version of the schema of the database, and that of this release.
func (d *DB) Schema() (stored, release int64) {
	return d.schema.stored.Load(), d.schema.release
}

// IsOutdated reports whether the database has the schema of an earlier release. It is shared by the nodes of a
// cluster then, and until AwaitSchema returns only those methods may be called that have to do with that,
// and Ping.
func (d *DB) IsOutdated() bool {
	stored, release := d.Schema()
	return stored < release
}

// AwaitSchema waits until the database has the schema of this release, and makes all methods usable. It is
// called once, if IsOutdated was true when the database was opened.
func (d *DB) AwaitSchema(ctx context.Context) error {
	for {
		changed := d.schema.changed.wait()
		if !d.IsOutdated() {
			return d.prepare(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// prepare prepares statements, which need the schema of this release.
func (d *DB) prepare(ctx context.Context) (err error) {
	if d.point, err = preparePoint(ctx, d.ro); err != nil {
		return err
	}
	d.audit, err = prepareAudit(ctx, d.rw)
	return err
}

// layoutUpTo returns the layout with the migrations up to a version.
func (d *DB) layoutUpTo(version int64) storage.Layout {
	l := layout(d.schema.steps)
	l.Last = version
	return l
}

// Upgrade brings the schema of a database that is shared to a version that all nodes know, on all of them. A
// node that does not know it stops to apply the log. If a migration fails on the present content nothing
// changes, and the error is that of the migration.
func (d *DB) Upgrade(ctx context.Context, version int64) error {
	s := d.sharing.Load()
	if s == nil {
		return fmt.Errorf("upgrade the schema: %w", errEnded)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, upgradeLimit, ErrUnavailable)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	return wrap("upgrade the schema", s.writeWithin(ctx, upgradeLimit, func(tx *writeTx) error {
		if stored, _ := d.Schema(); stored >= version {
			return nil
		}
		if err := d.upgradeTo(ctx, tx.tx, version); err != nil {
			return err
		}
		violated, err := exists(ctx, tx, "SELECT EXISTS (SELECT 1 FROM pragma_foreign_key_check)")
		if err != nil {
			return err
		}
		if violated {
			return errors.New("the migrations would leave rows that refer to missing ones")
		}
		tx.recorded.statements = append(tx.recorded.statements, statement{text: upgradeText, args: []any{version}})
		return nil
	}))
}

// upgradeTo runs the migrations up to a version, which must be that of one of them.
func (d *DB) upgradeTo(ctx context.Context, tx *sql.Tx, version int64) error {
	l := d.layoutUpTo(version)
	if err := storage.Upgrade(ctx, tx, l); err != nil {
		return err
	}
	got, err := storage.Version(ctx, tx, l)
	if err == nil && got < version {
		err = fmt.Errorf("this release has no schema %d: install the release that the other nodes run", version)
	}
	return err
}

// upgradesTo returns the version of the schema after the entry, 0 if that does not change it.
func (e *entry) upgradesTo() (version int64) {
	for _, c := range e.statements {
		if c.text == upgradeText && len(c.args) == 1 {
			version, _ = c.args[0].(int64)
		}
	}
	return version
}

// checkSchema returns an error if this release cannot apply an entry. One that was made for an earlier schema
// can be applied: another entry has changed that before, so it is a conflict.
func (d *DB) checkSchema(e *entry) error {
	stored, release := d.Schema()
	switch to := e.upgradesTo(); {
	case to > release:
		return fmt.Errorf("it changes the database to schema %d, and this release knows %d: install the release that the other nodes run, with which this node continues", to, release)
	case e.schema > stored:
		return fmt.Errorf("it is for schema %d of the database, which has schema %d here: %w", e.schema, stored, errDiffers)
	}
	return nil
}

// keepOutdated copies a database that keeps its schema until all nodes change it, as storage.Open does before it
// changes one.
func (d *DB) keepOutdated(ctx context.Context) error {
	stored, release := d.Schema()
	copied, err := storage.KeepBefore(ctx, d.rw, d.path, layout(d.schema.steps), stored)
	if err == nil {
		d.log.Info("database copied before the nodes of its cluster change its schema", slog.String("copy", copied), slog.Int64("from", stored), slog.Int64("to", release))
	}
	return err
}

// upgradeOwn brings the schema of a database that is not shared any more up to date, if it is not. fn is part of
// the same transaction.
func (d *DB) upgradeOwn(ctx context.Context, w *sql.Conn, fn func(*sql.Tx) error) error {
	err := transact(ctx, w, nil, func(tx *sql.Tx) error {
		if d.IsOutdated() {
			if err := storage.Upgrade(ctx, tx, layout(d.schema.steps)); err != nil {
				return err
			}
		}
		return fn(tx)
	})
	if err == nil {
		_, release := d.Schema()
		d.schema.note(release)
	}
	return err
}
