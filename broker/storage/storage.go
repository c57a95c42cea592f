// Package storage manages an SQLite file that several parts of a broker share:
// it creates and opens the file, brings its schema up to date, opens
// connections to it and serializes its writers. A [Committer] commits in groups what
// several goroutines submit.
//
// The tables belong to its users, who define them in a [Layout]. Of
// this module it imports broker/records only.
package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Durability is what a committed transaction survives.
type Durability string

// Full survives a power failure, Process only the death of the process. The
// file is intact after either.
const (
	Full    Durability = "full"
	Process Durability = "process"
)

// Layout is the schema of a file. Name is what the file is called in messages
// to operators, such as "the broker's database". Migrations are numbered SQL
// files at the root, which must only ever be appended to.
type Layout struct {
	Name       string
	Migrations fs.FS
	// Schema is SQL that makes of an empty file, in one transaction, what the migrations make of it one by one,
	// with the record of those that are applied, the rows and the application_id; "" for none. It saves most of
	// the time of a first start. Migrations that it lacks run after it.
	Schema string
	// Last is the last migration that runs, 0 for all.
	Last int64
	// ApplicationID is the application_id that the migrations set, 0 for none. A
	// file with another one than that or 0 belongs to another program.
	ApplicationID int64
	// NoVacuum leaves free pages in the file, for one that stays small. Otherwise
	// incremental vacuum is enabled.
	NoVacuum bool
}

// File is one SQLite file that several parts of the broker share. All methods
// are safe for concurrent use.
type File struct {
	path  string
	name  string
	db    *sql.DB       // one connection, for the file as a whole
	write chan struct{} // has an element while a goroutine writes
}

// Options of the connections. A writer's WAL is checkpointed every 16 MiB, so
// that a commit rarely has to do so, and is truncated to 64 MiB. Incremental
// vacuum is only enabled for a new file, as SQLite writes to the file whenever
// it is set.
const (
	forAll    = "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)&"
	forNew    = "&_pragma=auto_vacuum(2)"
	forWriter = "_txlock=immediate&_pragma=cache_size(-16000)&_pragma=wal_autocheckpoint(4000)&_pragma=journal_size_limit(67108864)&"
	forReader = "_pragma=query_only(1)&_pragma=cache_size(-2000)"
)

// synchronous returns the option for a durability.
var synchronous = map[Durability]string{
	Full:    "_pragma=synchronous(FULL)",
	Process: "_pragma=synchronous(NORMAL)",
}

// Open opens or creates the file, for its owner only, and brings its schema up
// to date. Its errors are sentences for an operator that include what to do.
func Open(ctx context.Context, path string, l Layout, log *slog.Logger) (*File, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", path, err)
	}
	f := &File{path: abs, name: l.Name, write: make(chan struct{}, 1)}
	if f.db, err = OpenWriter(ctx, abs, l, forAll+forWriter+synchronous[Full], log); err != nil {
		return nil, err
	}
	openFiles.add(f)
	return f, nil
}

// OpenWriter opens or creates the file at path as [Open] does, for a package that
// opens its own pools of connections with [OpenPool]. It returns a pool of one
// connection with the options.
func OpenWriter(ctx context.Context, path string, l Layout, options string, log *slog.Logger) (*sql.DB, error) {
	if err := Check(ctx, path, l); err != nil {
		return nil, err
	}
	if err := create(path, l.Name); err != nil {
		return nil, err
	}
	if empty(path) && !l.NoVacuum {
		options += forNew
	}
	db := OpenPool(path, 1, options)
	if err := migrate(ctx, db, path, l, log); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// create creates the file if necessary, so that it and the files that SQLite
// puts beside it are for the owner only.
func create(path, name string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open %s: %w; create its folder first", name, err)
	}
	if err != nil {
		return OpenError(path, err)
	}
	return f.Close()
}

// empty reports whether a file does not exist or nothing was ever stored in it.
func empty(path string) bool {
	info, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// Path returns the absolute path of the file.
func (f *File) Path() string { return f.path }

// Name returns what the file is called in messages.
func (f *File) Name() string { return f.name }

// Writer opens a pool of one connection that may write, whose transactions take
// SQLite's write lock when they begin. The caller must close it before the
// file, and must hold the lock of the File while it writes through it.
func (f *File) Writer(d Durability) *sql.DB {
	return OpenPool(f.path, 1, forAll+forWriter+synchronous[d])
}

// SetDurability sets the durability of a Writer's transactions from now on,
// like that of Conn.
func SetDurability(ctx context.Context, writer *sql.DB, d Durability) error {
	_, err := writer.ExecContext(ctx, d.pragma())
	return err
}

func (d Durability) pragma() string {
	return map[Durability]string{Full: `PRAGMA synchronous = FULL`, Process: `PRAGMA synchronous = NORMAL`}[d]
}

// Readers opens a pool of connections that cannot write. They see what was
// committed and never wait for a writer. The caller must close it before the
// file.
func (f *File) Readers() *sql.DB {
	return OpenPool(f.path, max(4, runtime.NumCPU()), forAll+forReader)
}

// OpenPool opens connections to a file whose path may contain any character. The
// options are the query of SQLite's URI. All connections stay open.
func OpenPool(path string, connections int, options string) *sql.DB {
	db, err := sql.Open("sqlite", dataSource(path, options))
	if err != nil {
		panic(err) // only the driver's name can be wrong here
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db
}

// dataSource returns the URI of a file with options.
func dataSource(path, options string) string {
	uri := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: options}
	return uri.String()
}

// Lock waits until no other goroutine writes. SQLite has one writer at a time
// and fails others after a while. Here they wait in order of arrival until the
// context ends.
func (f *File) Lock(ctx context.Context) error {
	select {
	case f.write <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock releases the lock.
func (f *File) Unlock() { <-f.write }

// Close checkpoints the WAL and closes the file. All pools must be closed
// before.
func (f *File) Close() (err error) {
	openFiles.remove(f)
	for _, q := range []string{`PRAGMA optimize`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		if _, e := f.db.Exec(q); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", q, e))
		}
	}
	return errors.Join(err, f.db.Close())
}
