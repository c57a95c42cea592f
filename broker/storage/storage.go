// Package storage is a SQLite file that the parts of a broker keep things in: it
// creates and opens it, brings its schema up to date, hands out connections to it
// and keeps those who write from meeting each other.
//
// What the tables hold is the business of its users, who say so in a [Layout]. It
// must not import any package of this module.
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

// Durability says what a committed transaction outlives.
type Durability string

// Full is survived by the machine's loss of power, Process by the death of the
// process only; a file is whole after either.
const (
	Full    Durability = "full"
	Process Durability = "process"
)

// Layout is what a file holds. Name is what it is called in messages to
// operators, as in "the broker's database". Migrations are numbered SQL files at
// the root that make the schema step by step; they are only ever added to.
type Layout struct {
	Name       string
	Migrations fs.FS
}

// File is one SQLite file that several parts of the broker share. All methods
// are safe for concurrent use.
type File struct {
	path  string
	name  string
	own   *sql.DB       // one connection, for what concerns the file as a whole
	write chan struct{} // holds one entry while somebody writes
}

// These options are told to SQLite for every connection. A writer's log is
// folded into the file every 16 MiB, so that a commit rarely has to do so, and
// gives back what it had to grow beyond 64 MiB. A new file is made such that it
// can give back the room of what was deleted; only then, as SQLite writes to the
// file whenever this is said.
const (
	forAll    = "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)&"
	forNew    = "&_pragma=auto_vacuum(2)"
	forWriter = "_txlock=immediate&_pragma=cache_size(-16000)&_pragma=wal_autocheckpoint(4000)&_pragma=journal_size_limit(67108864)&"
	forReader = "_pragma=query_only(1)&_pragma=cache_size(-2000)"
)

// synchronous gives the option that makes a durability.
var synchronous = map[Durability]string{
	Full:    "_pragma=synchronous(FULL)",
	Process: "_pragma=synchronous(NORMAL)",
}

// Open opens or creates the file, for its owner only, and brings its schema up
// to date. Its errors are sentences that say what to do.
func Open(ctx context.Context, path string, l Layout, log *slog.Logger) (*File, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", path, err)
	}
	if err := Check(ctx, abs, l); err != nil {
		return nil, err
	}
	if err := touch(abs, l.Name); err != nil {
		return nil, err
	}
	f := &File{path: abs, name: l.Name, write: make(chan struct{}, 1)}
	options := forAll + forWriter + synchronous[Full]
	if empty(abs) {
		options += forNew
	}
	f.own = openPool(abs, 1, options)
	if err := migrate(ctx, f.own, abs, l.Migrations, log); err != nil {
		return nil, errors.Join(err, f.own.Close())
	}
	return f, nil
}

// touch makes the file, so that it and those that SQLite puts beside it are for
// the owner only.
func touch(path, name string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open %s: %w; create its folder first", name, err)
	}
	if err != nil {
		return OpenError(path, err)
	}
	return f.Close()
}

// empty tells whether nothing was ever stored in a file, or it is not there.
func empty(path string) bool {
	info, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// Path gives the absolute path of the file.
func (f *File) Path() string { return f.path }

// Name gives what the file is called in messages.
func (f *File) Name() string { return f.name }

// Writer gives a pool of one connection that may write, whose transactions take
// SQLite's write lock when they begin. It is the caller's to close, before the
// file. Whoever writes through it holds the lock of this package meanwhile.
func (f *File) Writer(d Durability) *sql.DB {
	return openPool(f.path, 1, forAll+forWriter+synchronous[d])
}

// SetDurability has the transactions of a Writer be as durable as that from now on,
// as Conn's does.
func SetDurability(ctx context.Context, writer *sql.DB, d Durability) error {
	_, err := writer.ExecContext(ctx, d.pragma())
	return err
}

func (d Durability) pragma() string {
	return map[Durability]string{Full: `PRAGMA synchronous = FULL`, Process: `PRAGMA synchronous = NORMAL`}[d]
}

// Readers gives a pool of connections that cannot write. They see what was
// committed and wait for nobody. It is the caller's to close, before the file.
func (f *File) Readers() *sql.DB {
	return openPool(f.path, max(4, runtime.NumCPU()), forAll+forReader)
}

// openPool opens connections to a file whose path may hold any character.
func openPool(path string, connections int, options string) *sql.DB {
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: options}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		panic(err) // only an unknown driver's name can be wrong here
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db
}

// Lock waits until nobody else writes. SQLite takes one writer at a time and
// lets others fail after a while; here they wait, in the order in which they
// came, for as long as the context lasts.
func (f *File) Lock(ctx context.Context) error {
	select {
	case f.write <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock ends what Lock began.
func (f *File) Unlock() { <-f.write }

// Close folds the log into the file and closes it. All pools that were handed
// out must be closed.
func (f *File) Close() (err error) {
	for _, q := range []string{`PRAGMA optimize`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		if _, e := f.own.Exec(q); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", q, e))
		}
	}
	return errors.Join(err, f.own.Close())
}
