// Package store stores the broker's messages, sessions, subscriptions and
// retained messages in broker.db, as an engine.Store.
//
// DESIGN.md describes the tables and transactions, what is durable when, and what
// happens while nothing can be written. The package must not import an MQTT
// library, net/http, or any package of this module except
// broker/embedded/engine, broker/records and broker/storage.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// Options configure a Store. The defaults are Full, no log, and the clock of the
// machine.
type Options struct {
	Durability storage.Durability
	Log        *slog.Logger
	Now        func() time.Time
}

// Store is the durable state of one broker. All methods are safe for concurrent
// use.
type Store struct {
	log        *slog.Logger
	now        func() time.Time
	durability storage.Durability        // without a shared log
	conn       *storage.Conn             // the committer's
	readers    *sql.DB                   // see Messages
	messages   func() (*sql.Stmt, error) // reads from readers; prepared when first called
	counts     *refCounts                // nil until read from the file; the committer's
	shared     atomic.Pointer[position]
	commits    *storage.Committer[*engine.Changes]
	committer  *committer
}

var _ engine.Store = (*Store)(nil)

// errClosed is the outcome of changes that are submitted after Close.
var errClosed = errors.New("the store of the broker's messages is closed")

// Open returns a Store on a file, which must stay open until Close has returned.
// The Store must be closed.
func Open(ctx context.Context, f *storage.File, o Options) (*Store, error) {
	o.setDefaults()
	conn, err := f.Connect(ctx, o.Durability, texts[:])
	if err != nil {
		return nil, storage.Explain(f.Path(), fmt.Errorf("prepare to keep messages in %s: %w", f.Path(), err))
	}
	s := &Store{log: o.Log, now: o.Now, durability: o.Durability, conn: conn, readers: f.Readers()}
	s.messages = sync.OnceValues(s.prepareMessages)
	at, err := readPosition(ctx, conn.SQL())
	if err != nil {
		return nil, errors.Join(storage.Explain(f.Path(), fmt.Errorf("read how far a log was applied in %s: %w", f.Path(), err)), conn.Close(), s.readers.Close())
	}
	s.shared.Store(&at)
	s.commits = storage.NewCommitter[*engine.Changes](storage.Config{
		Conn: conn, Log: s.log, Now: s.now, Contents: "the broker's messages",
		Limits:      storage.Limits{GroupEntries: groupChanges, Entries: maxPendingChanges},
		ProbeInsert: int(fill), ProbeDelete: int(drain), Closed: errClosed,
	})
	s.startCommitter()
	return s, nil
}

func (o *Options) setDefaults() {
	if o.Durability == "" {
		o.Durability = storage.Full
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Load returns everything that is stored, including what was submitted before. Of
// the messages of queues it returns stubs. It may be called repeatedly; the caller
// owns the result.
func (s *Store) Load(ctx context.Context) (*engine.Snapshot, error) { return s.StartLoad(ctx)() }

// StartLoad begins a Load and returns a function that waits for it. The result has
// everything that was submitted before StartLoad, and nothing of what is submitted after
// it has returned.
func (s *Store) StartLoad(ctx context.Context) (wait func() (*engine.Snapshot, error)) {
	began := s.now()
	var snapshot *engine.Snapshot
	var messages int
	e := s.begin(func(c *committer) error {
		l, err := c.load(ctx)
		if err == nil {
			snapshot, messages = l.snapshot, len(l.counts.refs)
		}
		return err
	})
	return func() (*engine.Snapshot, error) {
		if err := e.wait(ctx); err != nil {
			return nil, storage.Explain(s.conn.File().Path(), err)
		}
		s.log.Info("broker's messages read", slog.Int("sessions", len(snapshot.Sessions)),
			slog.Int("retained", len(snapshot.Retained)), slog.Int("messages", messages),
			slog.Duration("duration", s.now().Sub(began)))
		return snapshot, nil
	}
}

// WaitForCapacity waits while 16,384 changes or 64 MiB are submitted and not yet
// committed. Owed changes that cannot be stored do not count, so no caller waits for
// a disk that is full.
func (s *Store) WaitForCapacity() { s.commits.WaitForCapacity() }

// Full reports whether WaitForCapacity would wait.
func (s *Store) Full() bool { return s.commits.Full() }

// Submit queues changes; see engine.Store. Changes submitted after Close are lost
// and logged, and their Done is called with an error.
func (s *Store) Submit(c *engine.Changes) {
	if s.commits.Put(storage.Submission[*engine.Changes]{Entry: c, Weight: weigh(c)}) {
		return
	}
	s.log.Error("changes came after the store of the broker's messages was closed, and are lost")
	go c.Committed(errClosed) // the goroutine that reports outcomes has ended
}

// Err returns why nothing can be stored at present, as a sentence for an operator,
// or nil.
func (s *Store) Err() error { return s.commits.Err() }

// Retry makes the store check at once whether it can write again. Otherwise it
// checks once a second.
func (s *Store) Retry() { s.commits.Retry() }

// Close commits what was submitted and closes the store. The context bounds only how
// long it waits; closing continues in the background.
func (s *Store) Close(ctx context.Context) error {
	return s.commits.Close(ctx, func() error { return errors.Join(s.readers.Close(), s.conn.Close()) })
}
