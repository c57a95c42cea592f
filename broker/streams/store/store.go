// Package store keeps the streams of all brokers in streams.db, as a
// streams.Store: their definitions, their messages and the states of their
// queries.
//
// DESIGN.md describes how messages are stored, what is durable when, what is
// deleted, and what happens while nothing can be written. The package must not
// import an MQTT library, net/http, or any package of this module but broker,
// broker/clock, broker/messaging, broker/records, broker/storage and broker/streams.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"signalbox/broker/clock"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
)

// Options configure a store. MaxBytes bounds the messages of all streams and
// MaxStreamBytes those of each, as stored; 0 is unbounded. The zero value has
// defaults: no bounds, Full, no log, the clock of the machine. Messages expire
// by Clock; without one they expire by Now, and no clock is stored in the file.
type Options struct {
	MaxBytes       int64
	MaxStreamBytes int64
	Durability     storage.Durability
	Log            *slog.Logger
	Now            func() time.Time
	Clock          *clock.Clock

	pending int // see storage.Limits
}

// Store is the durable state of streams. All methods are safe for concurrent
// use.
type Store struct {
	options Options
	log     *slog.Logger
	now     func() time.Time // service time of the file, if there is a clock
	limits  limits

	file        *storage.File
	timeline    *clock.Timeline // nil without a clock
	definitions *sql.DB         // writes definitions
	reader      *reader
	conn        *storage.Conn // the committer's

	logs      storedLogs
	commits   *storage.Committer[*entry]
	committer *committer
}

var _ streams.Store = (*Store)(nil)

// errClosed is returned by calls after Close.
var errClosed = errors.New("the store of the streams' messages is closed")

// Open opens or creates the file and starts a sweep. Its errors are sentences
// for an operator that include what to do.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	o.setDefaults()
	s := &Store{
		options: o, log: o.Log, now: o.Now, limits: newLimits(o),
		logs: storedLogs{byStream: map[int64]*storedLog{}},
	}
	if err := s.open(ctx, path); err != nil {
		return nil, errors.Join(err, s.closeFile())
	}
	s.commits = storage.NewCommitter[*entry](storage.Config{
		Conn: s.conn, Log: s.log, Now: s.now, Contents: "the streams' messages",
		Limits:      storage.Limits{GroupEntries: groupEntries, Pending: o.pending},
		ProbeInsert: int(probeInsert), ProbeDelete: int(probeDelete), Closed: errClosed,
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

// Check returns the error that Open would return for a file that cannot be
// written to or that a newer release wrote; see [storage.Check]. A file that
// does not exist is no error.
func Check(ctx context.Context, path string) error { return storage.Check(ctx, path, layout()) }

func (s *Store) open(ctx context.Context, path string) error {
	return storage.Explain(path, s.openParts(ctx, path))
}

func (s *Store) openParts(ctx context.Context, path string) (err error) {
	if s.file, err = storage.Open(ctx, path, layout(), s.log); err != nil {
		return err
	}
	if s.options.Clock != nil {
		if s.timeline, err = s.options.Clock.Open(ctx, s.file); err != nil {
			return err
		}
		s.now = s.timeline.Now
	}
	s.definitions = s.file.Writer(storage.Full)
	if s.reader, err = openReader(ctx, s.file.Readers()); err != nil {
		return fmt.Errorf("prepare to read %s: %w", s.file.Path(), err)
	}
	if s.conn, err = s.file.Connect(ctx, s.options.Durability, statementTexts[:]); err != nil {
		return fmt.Errorf("prepare to store messages in %s: %w", s.file.Path(), err)
	}
	if err := s.load(ctx); err != nil {
		return fmt.Errorf("read the logs in %s: %w", s.file.Path(), err)
	}
	return nil
}

// Err returns why nothing can be stored at present, as a sentence for an
// operator, or nil.
func (s *Store) Err() error { return s.commits.Err() }

// Open opens the log of a stream; see streams.Store.
func (s *Store) Open(_ context.Context, id int64) (streams.Log, error) {
	sl := s.logs.find(id)
	if sl == nil || sl.isDeleted() {
		return nil, errNotFound
	}
	if !sl.acquire() {
		return nil, fmt.Errorf("the log of stream %d is already open", id)
	}
	return &Log{store: s, stored: sl, evicted: sl.evicted.Load(), expired: sl.expired.Load()}, nil
}

// Close stores what was submitted and closes the store. The context bounds only
// the wait; the store is closed in the background if it ends.
func (s *Store) Close(ctx context.Context) error { return s.commits.Close(ctx, s.closeFile) }

// closeFile closes everything that was opened.
func (s *Store) closeFile() (err error) {
	if s.conn != nil {
		err = s.conn.Close()
	}
	if s.reader != nil {
		err = errors.Join(err, s.reader.close())
	}
	err = errors.Join(err, s.timeline.Close(context.Background()))
	if s.definitions != nil {
		err = errors.Join(err, s.definitions.Close())
	}
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	return err
}
