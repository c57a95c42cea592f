// Package raftlog stores what hashicorp/raft needs to be durable, in cluster.db: its log,
// its terms and votes, and its snapshots, whose contents are files beside it. It also
// stores named values for the node of a cluster, so that both can change in one
// transaction.
//
// It does not interpret the entries. Of this module it must import
// nothing but broker/storage.
package raftlog

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"signalbox/broker/storage"
)

//go:embed migrations/*.sql
var embedded embed.FS

// layout returns the migrations of the file. They are only ever appended to.
func layout() storage.Layout {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name above is a valid one
	}
	return storage.Layout{Name: "the cluster's database", Migrations: sub}
}

// The indices of the writing connection's statements.
const (
	insertEntry = iota
	deleteEntries
	deleteAllEntries
	putValue
	deleteValue
	deleteRaftValues
	insertSnapshot
	deleteSnapshots
	deleteAllSnapshots
)

var statements = []string{
	insertEntry:        `INSERT INTO entry (idx, term, type, data, extensions, appended_at) VALUES (?, ?, ?, ?, ?, ?)`,
	deleteEntries:      `DELETE FROM entry WHERE idx BETWEEN ? AND ?`,
	deleteAllEntries:   `DELETE FROM entry`,
	putValue:           `INSERT INTO kept (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
	deleteValue:        `DELETE FROM kept WHERE name = ?`,
	deleteRaftValues:   `DELETE FROM kept WHERE name GLOB 'raft/*'`,
	insertSnapshot:     `INSERT INTO snapshot (id, version, idx, term, configuration, configuration_idx, size, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
	deleteSnapshots:    `DELETE FROM snapshot WHERE id NOT IN (SELECT id FROM snapshot ORDER BY idx DESC, term DESC, id DESC LIMIT ?)`,
	deleteAllSnapshots: `DELETE FROM snapshot`,
}

// Store is the file of one node. It is raft's LogStore, StableStore and
// SnapshotStore. All methods are safe for concurrent use.
type Store struct {
	file    *storage.File
	readers *sql.DB
	read    struct{ entry, kept, snapshots *sql.Stmt }
	dir     string // of the snapshots
	log     *slog.Logger
	retryPolicy
	retriedErr atomic.Pointer[error] // why Set tries again, nil while it does not

	unfinished sync.Map // ids of snapshots that are being written, to true

	writing sync.Mutex // one transaction of conn at a time
	conn    *storage.Conn

	logBounds // its lock is taken within writing
}

var (
	_ raft.LogStore          = (*Store)(nil)
	_ raft.MonotonicLogStore = (*Store)(nil)
	_ raft.StableStore       = (*Store)(nil)
	_ raft.SnapshotStore     = (*Store)(nil)
)

// Open opens or creates cluster.db in a folder. If the folder does not exist, Open
// creates it, for the owner only. Its errors are sentences for the operator.
func Open(ctx context.Context, dir string, log *slog.Logger) (*Store, error) {
	s := &Store{dir: filepath.Join(dir, "snapshots"), log: log, retryPolicy: newRetryPolicy()}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the cluster's folder: %w; make the folder above it writable for the user that runs the service", err)
	}
	var err error
	if s.file, err = storage.Open(ctx, filepath.Join(dir, "cluster.db"), layout(), log); err != nil {
		return nil, err
	}
	s.readers = s.file.Readers()
	if s.conn, err = s.file.Connect(ctx, storage.Full, statements); err != nil {
		return nil, errors.Join(err, s.readers.Close(), s.file.Close())
	}
	if err := errors.Join(s.prepare(ctx), s.readBounds(ctx), s.deleteOrphans()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) prepare(ctx context.Context) error {
	for stmt, text := range map[**sql.Stmt]string{
		&s.read.entry: `SELECT term, type, data, extensions, appended_at FROM entry WHERE idx = ?`,
		&s.read.kept:  `SELECT value FROM kept WHERE name = ?`,
		&s.read.snapshots: `
			SELECT id, version, idx, term, configuration, configuration_idx, size, crc FROM snapshot
			ORDER BY idx DESC, term DESC, id DESC`,
	} {
		var err error
		if *stmt, err = s.readers.PrepareContext(ctx, text); err != nil {
			return fmt.Errorf("prepare to read the cluster's database: %w", err)
		}
	}
	return nil
}

// transact runs write in a transaction, which is on the disk when it returns nil.
// raft passes no context: a write is never interrupted.
func (s *Store) transact(write func(storage.Tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.conn.Transact(context.Background(), write)
}

// Clear deletes the log, terms, votes and snapshots, and changes other stored values, in
// one transaction.
func (s *Store) Clear(c Changes) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	err := s.conn.Transact(context.Background(), func(tx storage.Tx) error {
		return errors.Join(tx.Exec(deleteAllEntries), tx.Exec(deleteAllSnapshots), tx.Exec(deleteRaftValues), c.write(tx))
	})
	if err != nil {
		return fmt.Errorf("clear the cluster's database: %w", err)
	}
	s.clear()
	return s.deleteOrphans()
}

// Advice returns what an operator can do about an error, or "".
func (s *Store) Advice(err error) string { return storage.Advice(err, s.file.Name()) }

// Close closes the file. The store must not be in use.
func (s *Store) Close() error {
	return errors.Join(s.conn.Close(), s.readers.Close(), s.file.Close())
}
