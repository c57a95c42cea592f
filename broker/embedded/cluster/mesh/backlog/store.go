// Package backlog stores what other nodes of a cluster do not get while they are away: the
// messages that wait for each, and the filters that its clients have subscribed to.
//
// It does not interpret either. Of this module it must import nothing but broker/storage.
package backlog

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

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
	return storage.Layout{Name: "the database of messages for other nodes", Migrations: sub}
}

// The indexes of the committer's statements.
const (
	putCluster = iota
	putMessage
	deleteMessages
	putRoute
	deleteRoute
	deleteRoutes
	putNode
	completeNode
	deleteNode
	probeInsert
	probeDelete
)

var statements = []string{
	putCluster:     `INSERT INTO cluster (uuid) VALUES (?)`,
	putMessage:     `INSERT INTO message (id, data) VALUES (?, ?)`,
	deleteMessages: `DELETE FROM message WHERE id BETWEEN ? AND ?`,
	putRoute:       `INSERT INTO route (node, filter, interest) VALUES (?, ?, ?) ON CONFLICT (node, filter) DO UPDATE SET interest = excluded.interest`,
	deleteRoute:    `DELETE FROM route WHERE node = ? AND filter = ?`,
	deleteRoutes:   `DELETE FROM route WHERE node = ?`,
	putNode:        `INSERT INTO node (id, generation) VALUES (?, ?)`,
	completeNode:   `UPDATE node SET complete = 1 WHERE id = ?`,
	deleteNode:     `DELETE FROM node WHERE id = ?`,
	// The probe for free space, under an id that no message has. A probe that was left behind
	// is deleted by the next one.
	probeInsert: `INSERT INTO message (id, data) VALUES (0, zeroblob(?))`,
	probeDelete: `DELETE FROM message WHERE id = 0`,
}

// groupEntries bounds one transaction.
const groupEntries = 4096

// Store is the file of one node. All methods are safe for concurrent use.
type Store struct {
	log     *slog.Logger
	file    *storage.File
	readers *sql.DB
	conn    *storage.Conn // the committer's
	commits *storage.Committer[*entry]
	owed    []*entry // deletions and routes that could not be stored; of the committer's goroutine

	mu     sync.Mutex     // guards queues
	queues map[int]*Queue // by node
}

// Open opens or creates the file of a cluster; what it has of another one is deleted. Its errors are
// sentences for the operator.
func Open(ctx context.Context, path, cluster string, log *slog.Logger) (*Store, error) {
	s := &Store{log: log, queues: map[int]*Queue{}}
	var err error
	if s.file, err = storage.Open(ctx, path, layout(), log); err != nil {
		return nil, err
	}
	s.readers = s.file.Readers()
	if s.conn, err = s.file.Connect(ctx, storage.Full, statements); err != nil {
		return nil, errors.Join(err, s.readers.Close(), s.file.Close())
	}
	err = s.enter(ctx, cluster)
	if err == nil {
		err = s.readQueues(ctx)
	}
	if err != nil {
		return nil, errors.Join(storage.Explain(path, err), s.closeFile())
	}
	s.commits = storage.NewCommitter[*entry](storage.Config{
		Conn: s.conn, Log: log, Now: time.Now, Contents: "messages for other nodes",
		Limits: storage.Limits{GroupEntries: groupEntries}, ProbeInsert: probeInsert, ProbeDelete: probeDelete,
	})
	s.commits.Start(storage.Callbacks[*entry]{Write: write, Omit: s.omit, Refuse: s.refuse, Resume: s.resume, End: s.end})
	return s, nil
}

// enter makes the file that of a cluster.
func (s *Store) enter(ctx context.Context, cluster string) error {
	var uuid string
	err := s.each(ctx, func() bool { return true }, []any{&uuid}, `SELECT uuid FROM cluster`)
	if err != nil || uuid == cluster {
		return err
	}
	return s.conn.Transact(ctx, func(tx storage.Tx) error {
		for _, table := range []string{"message", "route", "node", "cluster"} {
			if err := tx.Run(`DELETE FROM ` + table); err != nil {
				return err
			}
		}
		return tx.Exec(putCluster, cluster)
	})
}

// readQueues reads the generations of the nodes and the sizes of all messages.
func (s *Store) readQueues(ctx context.Context) error {
	var id, value int64
	row := []any{&id, &value}
	err := s.each(ctx, func() bool {
		q := s.Queue(int(id))
		q.generation, q.begun = uint64(value), true
		return true
	}, row, `SELECT id, generation FROM node`)
	if err != nil {
		return err
	}
	return s.each(ctx, func() bool {
		s.Queue(int(id>>nodeShift)).restore(uint64(id)&maxNumber, value)
		return true
	}, row, `SELECT id, length(data) FROM message WHERE id > 0 ORDER BY id`)
}

// each calls do for each row of a query, until it returns false. The values of the row are in row then.
func (s *Store) each(ctx context.Context, do func() bool, row []any, query string, args ...any) (err error) {
	rows, err := s.readers.QueryContext(ctx, query, args...)
	if err == nil {
		for err == nil && rows.Next() {
			if err = rows.Scan(row...); err == nil && !do() {
				break
			}
		}
		err = errors.Join(err, rows.Err(), rows.Close())
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", s.file.Name(), err)
	}
	return nil
}

// Queue returns the queue of a node, from 1 to 65,535.
func (s *Store) Queue(node int) *Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[node]
	if q == nil {
		q = &Queue{store: s, node: int64(node), first: 1}
		s.queues[node] = q
	}
	return q
}

// Close stores what was put and closes the file.
func (s *Store) Close(ctx context.Context) error { return s.commits.Close(ctx, s.closeFile) }

func (s *Store) closeFile() error {
	return errors.Join(s.conn.Close(), s.readers.Close(), s.file.Close())
}

// Conn returns the connection that writes, for tests that make it fail.
func (s *Store) Conn() *storage.Conn { return s.conn }
