package db

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"signalbox/broker/storage"
)

// stagedSuffix is the beginning of what follows the name of the database in the names of files
// that are deleted when it is opened.
const stagedSuffix = ".staged-"

// keptSuffix follows the name of the database in the name of the copy that Restore leaves.
const keptSuffix = ".before-join"

// maxSnapshot bounds the size of a snapshot in bytes.
const maxSnapshot = 64 << 30

// copiedTables belong to this machine, so Restore does not replace them; nor does it
// replace local_state, and the table of [storage.Identify]. The columns of each are listed.
var copiedTables = map[string]string{
	"probe":       "id, writes",
	"audit_sinks": "name, seq, checkpoint_time",
	"shared_keys": "id, key, since",
}

const identityTable = "data_directory"

// snapshotFormat is the first byte of a snapshot.
const snapshotFormat = 2

// Snapshot is the whole content at one moment. It must be released: while it is held, the
// write-ahead log of the database grows with every change.
type Snapshot struct {
	ctx    context.Context // of the call that made it, without its end
	moment *storage.Moment
	path   string
	staged string
}

// Snapshot returns the content of this moment.
func (d *DB) Snapshot(ctx context.Context) (*Snapshot, error) {
	m, err := storage.BeginMoment(ctx, []string{d.path})
	if err != nil {
		return nil, wrap("make a snapshot of the database", err)
	}
	return &Snapshot{ctx: context.WithoutCancel(ctx), moment: m, path: d.path, staged: d.staged()}, nil
}

// WriteTo writes the content to w: the version of the format and an SQLite file, which names the key
// of the secrets and does not have it. It may be called beside other methods of the database, once.
func (s *Snapshot) WriteTo(w io.Writer) (n int64, err error) {
	defer func() { err = wrap("write a snapshot of the database", errors.Join(err, removeFile(s.staged))) }()
	if err := s.moment.Copy(s.ctx, s.path, s.staged); err != nil {
		return 0, err
	}
	if err := dropKeys(s.ctx, s.staged); err != nil {
		return 0, err
	}
	f, err := os.Open(s.staged)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	head, err := w.Write([]byte{snapshotFormat})
	if err != nil {
		return int64(head), err
	}
	n, err = io.Copy(w, f)
	return n + int64(head), err
}

// dropKeys deletes the keys of this machine in a copy of the database, although they are sealed.
func dropKeys(ctx context.Context, staged string) (err error) {
	pool := openStaged(staged)
	defer func() { err = errors.Join(err, pool.Close()) }()
	_, err = pool.ExecContext(ctx, "PRAGMA secure_delete = 1; DELETE FROM shared_keys")
	return err
}

// openStaged opens a copy of the database that need not be durable.
func openStaged(staged string) *sql.DB {
	return storage.OpenPool(staged, 1, "_pragma=busy_timeout(5000)&_pragma=journal_mode(MEMORY)&_pragma=synchronous(OFF)&_pragma=foreign_keys(1)")
}

// Release ends the snapshot.
func (s *Snapshot) Release() {
	s.moment.Close() //nolint:errcheck // it only read
}

// staged returns the path of a file that is deleted when the database is opened.
func (d *DB) staged() string { return d.path + stagedSuffix + rand.Text() }

// removeFile deletes a database that is not open, if it exists, with what SQLite left beside it.
func removeFile(path string) (err error) {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if e := os.Remove(path + suffix); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Restore replaces the whole content, but for what belongs to this machine, by that of a
// snapshot, which r yields to its end, and which is the effect of the log up to index; with index 0
// it becomes this node's own content. It is durable when Restore returns; after a crash before
// that, the content is the former or the new one, and AppliedIndex that of it. Readers see either,
// writers wait. If the former content was this node's own and the new one is not, a copy of the former
// stays beside the file, with the suffix ".before-join".
func (d *DB) Restore(ctx context.Context, index uint64, r io.Reader) error {
	return wrap("restore the database from a snapshot", d.restore(ctx, index, r))
}

func (d *DB) restore(ctx context.Context, index uint64, r io.Reader) (err error) {
	var format [1]byte
	if _, err := io.ReadFull(r, format[:]); err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	if format[0] != snapshotFormat {
		return fmt.Errorf("the snapshot has the format %d, which this release does not know: have all nodes run the same release", format[0])
	}
	staged := d.staged()
	defer func() { err = errors.Join(err, removeFile(staged)) }()
	if err := receive(staged, r); err != nil {
		return err
	}
	version, err := d.checkStaged(ctx, staged, index)
	if err != nil {
		return err
	}
	d.replaced.Add(1) // before the new content can be read
	return d.holdingWriter(ctx, func(w *sql.Conn) error {
		if index > 0 && d.applied.Load() == 0 {
			if err := storage.Keep(ctx, w, d.path+keptSuffix); err != nil {
				return err
			}
		}
		if err := d.adopt(ctx, staged, index); err != nil {
			return err
		}
		if err := storage.Replace(ctx, w, d.path, staged); err != nil {
			return err
		}
		d.cache.Store(&rowCache{})
		if _, err := d.readShared(ctx, w); err != nil {
			return err
		}
		d.schema.note(version)
		d.changed.notify()
		w.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)") //nolint:errcheck // it only makes the log shorter
		return nil
	})
}

// receive stores a snapshot. It need not be durable.
func receive(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, maxSnapshot+1))
	if err == nil && n > maxSnapshot {
		err = fmt.Errorf("%w: a snapshot has at most %d GiB", ErrTooLarge, maxSnapshot>>30)
	}
	return errors.Join(err, f.Close())
}

// checkStaged checks what was received, and returns the version of its schema: it is whole, and has the schema
// of this copy, or a later one that this release knows. One that becomes this node's own is brought up to date.
func (d *DB) checkStaged(ctx context.Context, staged string, index uint64) (version int64, err error) {
	stored, release := d.Schema()
	err = storage.View(ctx, staged, func(pool *sql.DB) error {
		version, err = storage.Version(ctx, pool, layout(d.schema.steps))
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case version > release:
		return 0, fmt.Errorf("the snapshot has schema %d, and this release knows %d: install the release that the other nodes run", version, release)
	case version < stored && index > 0:
		return 0, fmt.Errorf("the snapshot has schema %d, and this node has schema %d: have the other nodes run the release of this one, or this one theirs", version, stored)
	case version < stored:
		version, err = stored, d.upgradeStaged(ctx, staged)
	}
	if err != nil {
		return 0, err
	}
	return version, storage.QuickCheck(ctx, staged)
}

// upgradeStaged brings the schema of a snapshot up to date.
func (d *DB) upgradeStaged(ctx context.Context, staged string) (err error) {
	pool := openStaged(staged)
	defer func() { err = errors.Join(err, pool.Close()) }()
	stored, _ := d.Schema()
	return transact(ctx, pool, nil, func(tx *sql.Tx) error { return storage.Upgrade(ctx, tx, d.layoutUpTo(stored)) })
}

// copyRows returns the statement that copies the columns of a table from this machine's copy.
func copyRows(table, columns string) string {
	return "INSERT INTO main." + table + " (" + columns + ") SELECT " + columns + " FROM own." + table
}

// adopt stores in a snapshot what belongs to this machine.
func (d *DB) adopt(ctx context.Context, staged string, index uint64) (err error) {
	pool := openStaged(staged)
	defer func() { err = errors.Join(err, pool.Close()) }()
	if _, err := pool.ExecContext(ctx, "ATTACH ? AS own", d.path); err != nil {
		return err
	}
	identified, err := exists(ctx, pool, "SELECT EXISTS (SELECT 1 FROM own.sqlite_schema WHERE name = ?)", identityTable)
	if err != nil {
		return err
	}
	steps := []string{"DROP TABLE IF EXISTS main." + identityTable}
	if identified {
		steps = append(steps, "CREATE TABLE main."+identityTable+" (id INTEGER PRIMARY KEY CHECK (id = 1), identity TEXT NOT NULL, name TEXT NOT NULL) STRICT",
			copyRows(identityTable, "id, identity, name"))
	}
	for name, columns := range copiedTables {
		steps = append(steps, "DELETE FROM main."+name, copyRows(name, columns))
	}
	// A destination whose position is in another audit log begins anew.
	steps = append(steps, `UPDATE main.audit_sinks SET seq = 0, checkpoint_time = 0
		WHERE (SELECT hash FROM main.audit a WHERE a.seq = audit_sinks.seq) IS NOT (SELECT hash FROM own.audit a WHERE a.seq = audit_sinks.seq)`)
	return transact(ctx, pool, nil, func(tx *sql.Tx) error {
		for _, q := range steps {
			if _, err := tx.ExecContext(ctx, q); err != nil {
				return err
			}
		}
		const own = "UPDATE main.local_state SET origin = (SELECT origin FROM own.local_state)"
		if _, err := tx.ExecContext(ctx, own); err != nil {
			return err
		}
		if err := errors.Join(adoptImported(ctx, tx, index), adoptEmbedded(ctx, tx, index)); err != nil {
			return err
		}
		const replaced = "UPDATE main.shared_keys SET since = ? WHERE id = (SELECT key_id FROM own.shared_state)"
		if _, err := tx.ExecContext(ctx, replaced, millis(time.Now())); err != nil {
			return err
		}
		const state = "UPDATE main.shared_state SET applied = ?1, reserved_by = iif(?1 > 0, reserved_by, ''), reserved_left = iif(?1 > 0, reserved_left, 0)"
		_, err := tx.ExecContext(ctx, state, int64(index)) //nolint:gosec // an index does not become that great
		return err
	})
}

// adoptImported stores whether definitions of this machine are among those of the content: if they were among those of
// the former one. Content that is put back (index 0) states it itself.
func adoptImported(ctx context.Context, tx *sql.Tx, index uint64) error {
	has := func(schema string) (bool, error) {
		return exists(ctx, tx, "SELECT EXISTS (SELECT 1 FROM pragma_table_info('local_state', ?) WHERE name = 'imported')", schema)
	}
	known, err := has("main")
	if err != nil || !known || index == 0 {
		return err
	}
	former, err := has("own")
	if former {
		former, err = exists(ctx, tx, "SELECT imported FROM own.local_state")
	}
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE main.local_state SET imported = ?", former)
	return err
}

// adoptEmbedded stores what this machine has of the definitions of the embedded broker. If the content of another node
// replaces its own and has them, what it has stored elsewhere for these is not of that content. Content that is put back (index 0)
// states it itself.
func adoptEmbedded(ctx context.Context, tx *sql.Tx, index uint64) error {
	has := func(schema string) (bool, error) {
		return exists(ctx, tx, "SELECT EXISTS (SELECT 1 FROM pragma_table_info('local_state', ?) WHERE name = 'embedded')", schema)
	}
	known, err := has("main")
	if err != nil || !known || index == 0 {
		return err
	}
	former, err := has("own")
	if err != nil {
		return err
	}
	if !former { // it is that of the sender
		_, err := tx.ExecContext(ctx, "UPDATE main.local_state SET embedded = 0, embedded_content = ''")
		return err
	}
	const q = `UPDATE main.local_state SET embedded = l.embedded,
			embedded_content = iif(l.embedded AND o.applied = 0 AND o.bridge_owner IS NOT n.bridge_owner, ?, l.embedded_content)
		FROM own.local_state AS l, own.shared_state AS o, main.shared_state AS n`
	_, err = tx.ExecContext(ctx, q, rand.Text())
	return err
}
