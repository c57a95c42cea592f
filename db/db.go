// Package db keeps what the appliance itself knows (users, sessions, projects,
// members, broker connections, clusters, tokens) in one SQLite file.
//
// Every exported method is one transaction: when it returns nil the change is
// on disk, when it returns an error other than ErrUnconfirmed nothing has changed. Ids and
// times are made by the caller, so that every write is plain data. DESIGN.md explains why there
// are two pools, what is durable when, and how the nodes of a cluster share the content.
//
// It must not import any other package of signalbox but broker/storage, net/http or an
// MQTT library.
package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"signalbox/broker/storage"
)

// DB is the open database. It is safe for concurrent use.
type DB struct {
	rw    *sql.DB // one connection: SQLite has one writer, and waiting here is fair and cheap
	ro    *sql.DB // readers see the last commit and never wait for the writer
	point pointReads
	audit auditWrites

	cache atomic.Pointer[rowCache]

	audits auditQueue

	path   string
	log    *slog.Logger
	schema schemaState
	origin string // the name of this copy of a database that is shared; "" if it is only read
	run    string // the name of this process, which begins with origin

	sharing  atomic.Pointer[sharing] // nil while writes are local
	applied  atomic.Uint64           // index of the last entry of the log whose effect is durable; if not 0, no write is local
	changed  changeSignal            // of any content, by the log
	follow   changeSignal            // of broker connections, by the log
	defined  changeSignal            // of definitions, by the log
	imported atomic.Bool             // definitions are stored here
	embedded atomic.Pointer[EmbeddedState]
	host     atomic.Pointer[string] // where they run
	suffix   atomic.Pointer[string] // of their client ids
	replaced atomic.Uint64          // how often the content was replaced
	keys     SecretKeys             // nil for none
	keyState atomic.Pointer[KeyState]

	// failing is set while the last write was refused by the storage.
	failing atomic.Bool
}

// Open opens the database file at path, creates it (mode 0600) if it
// does not exist, and brings its schema up to date. A file that an older version wrote
// is first copied to path.before-v<N>, N being the first migration that will
// run. A file of a newer version is refused with ErrNewer and left alone. One that the nodes of a cluster
// share is copied, and keeps an older schema: see IsOutdated.
func Open(ctx context.Context, path string, log *slog.Logger) (*DB, error) {
	return open(ctx, path, newest(), log)
}

func open(ctx context.Context, path string, l storage.Layout, log *slog.Logger) (_ *DB, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	d := &DB{path: path, log: log, schema: schemaState{steps: l.Migrations}}
	d.cache.Store(&rowCache{})
	defer func() {
		if err != nil {
			err = errors.Join(storage.OpenError(path, err), d.closePools())
		}
	}()
	if d.schema.release, err = storage.Latest(l); err != nil {
		return nil, err
	}
	if l.Last, err = sharedSchema(ctx, path, l); err != nil {
		return nil, err
	}
	if d.rw, err = storage.OpenWriter(ctx, path, l, forWriter, log); err != nil {
		return nil, err
	}
	d.ro = storage.OpenPool(path, max(4, runtime.NumCPU()), forReader)
	if err := d.openShared(ctx); err != nil {
		return nil, err
	}
	if d.IsOutdated() {
		return d, d.keepOutdated(ctx)
	}
	return d, d.prepare(ctx)
}

// The options of the two pools. Immediate transactions take the write lock at once:
// one that starts as a reader and upgrades later fails without waiting. A new
// connection of a reader would parse the schema and prepare its statements anew,
// so all stay open.
const (
	forWriter = "_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
		"&_pragma=foreign_keys(1)&_pragma=journal_size_limit(67108864)"
	forReader = "mode=ro&_pragma=busy_timeout(5000)&_pragma=query_only(1)"
)

// Close writes the log back into the file and closes it. The file alone is then
// the whole database. Close must not run beside other methods.
func (d *DB) Close(ctx context.Context) error {
	d.endSharing()
	d.audits.idle.Wait()
	err := errors.Join(d.point.close(), d.audit.close(), d.ro.Close())
	d.ro = nil
	if _, e := d.rw.ExecContext(ctx, "PRAGMA optimize"); e != nil {
		err = errors.Join(err, fmt.Errorf("optimize database: %w", e))
	}
	if _, e := d.rw.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); e != nil {
		err = errors.Join(err, fmt.Errorf("checkpoint database: %w", e))
	}
	return errors.Join(err, d.closePools())
}

func (d *DB) closePools() (err error) {
	for _, pool := range []*sql.DB{d.ro, d.rw} {
		if pool != nil {
			err = errors.Join(err, pool.Close())
		}
	}
	return err
}

// Ping reports whether the database can be written. It takes the write lock,
// changes one row and undoes that, which costs no disk write; only when the
// last real write was refused by the storage does it try one for good.
func (d *DB) Ping(ctx context.Context) error {
	errUndo := errors.New("undo")
	err := d.writeLocal(ctx, "probe database", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE probe SET writes = writes + 1 WHERE id = 1")
		if err == nil && !d.failing.Load() {
			err = errUndo
		}
		return err
	})
	if errors.Is(err, errUndo) {
		return nil
	}
	return err
}

// write runs fn in a transaction, as transact does. The error states what was being done
// and is one of the sentinels where one applies.
func (d *DB) write(ctx context.Context, what string, fn func(*writeTx) error) error {
	err := d.audited(ctx, func(fn func(*writeTx) error) error { return d.transact(ctx, fn) }, fn)
	d.cache.Store(&rowCache{}) // also after a failure that may have come too late
	d.noteFailure(err)
	return wrap(what, err)
}

// noteFailure remembers whether the storage has refused a write.
func (d *DB) noteFailure(err error) {
	switch {
	case err == nil:
		d.failing.Store(false)
	case storageRefused(err):
		d.failing.Store(true)
	}
}

// read runs fn on one unchanging version of the database.
func (d *DB) read(ctx context.Context, what string, fn func(*sql.Tx) error) error {
	return wrap(what, transact(ctx, d.ro, &sql.TxOptions{ReadOnly: true}, fn))
}
