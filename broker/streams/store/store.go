// Package store keeps the streams of all brokers in streams.db, as a
// streams.Store: their definitions, their messages and the states of their
// queries.
//
// DESIGN.md tells how messages are stored, what is durable when, what is let go
// of and what happens where nothing can be written. The package must not import
// an MQTT library, net/http, or any package of this module but broker,
// broker/clock, broker/storage and broker/streams.
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

// Options say how messages are kept. MaxBytes bounds the messages of all streams
// and MaxStreamBytes those of each, as they are stored; 0 is no bound. The zero
// value has defaults: no bounds, Full, no log, the clock of the machine. Clock is what
// messages expire by; without one, Now is, and nothing is stored of it.
type Options struct {
	MaxBytes       int64
	MaxStreamBytes int64
	Durability     storage.Durability
	Log            *slog.Logger
	Now            func() time.Time
	Clock          *clock.Clock

	pending int // see storage.Limits
}

// Store is the durable state of streams. All methods are safe for concurrent use.
type Store struct {
	options Options
	log     *slog.Logger
	now     func() time.Time // service time of the file, where there is a clock
	limits  limits

	file        *storage.File
	timeline    *clock.Timeline // nil without a clock
	definitions *sql.DB         // writes definitions
	reading     *reading
	conn        *storage.Conn // the committer's

	books     books
	commits   *storage.Committer[*entry]
	committer *committer
}

var _ streams.Store = (*Store)(nil)

// errClosed is what becomes of what comes too late.
var errClosed = errors.New("the store of the streams' messages is closed")

// Open opens or creates the file and begins to tidy it up. Its errors are
// sentences that say what to do.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	o.setDefaults()
	s := &Store{
		options: o, log: o.Log, now: o.Now, limits: newLimits(o),
		books: books{journals: map[int64]*journal{}},
	}
	if err := s.open(ctx, path); err != nil {
		return nil, errors.Join(err, s.closeFile())
	}
	s.commits = storage.NewCommitter[*entry](storage.Config{
		Conn: s.conn, Log: s.log, Now: s.now, Contents: "the streams' messages",
		Limits: storage.Limits{GroupEntries: groupEntries, Pending: o.pending},
		Fill:   int(fill), Drain: int(drain), Closed: errClosed,
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

// Check refuses, as Open would, a file that cannot be written to or that a newer
// release wrote; see [storage.Check]. A file that is not there is fine.
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
	if s.reading, err = openReading(ctx, s.file.Readers()); err != nil {
		return fmt.Errorf("prepare to read %s: %w", s.file.Path(), err)
	}
	if s.conn, err = s.file.Connect(ctx, s.options.Durability, texts[:]); err != nil {
		return fmt.Errorf("prepare to keep messages in %s: %w", s.file.Path(), err)
	}
	if err := s.load(ctx); err != nil {
		return fmt.Errorf("read what streams keep in %s: %w", s.file.Path(), err)
	}
	return nil
}

// Err tells why nothing can be stored at present, in a sentence for an operator,
// or nil.
func (s *Store) Err() error { return s.commits.Err() }

// Open gives what a stream keeps; see streams.Store.
func (s *Store) Open(_ context.Context, id int64) (streams.Log, error) {
	j := s.books.find(id)
	if j == nil || j.isGone() {
		return nil, errNotFound
	}
	if !j.claim() {
		return nil, fmt.Errorf("what stream %d keeps is open already", id)
	}
	return &Log{store: s, journal: j, evicted: j.evicted.Load(), expired: j.expired.Load()}, nil
}

// Close stores what was handed over and ends. The context bounds the waiting
// only; the closing goes on behind it.
func (s *Store) Close(ctx context.Context) error { return s.commits.Close(ctx, s.closeFile) }

// closeFile closes what was opened of the file.
func (s *Store) closeFile() (err error) {
	if s.conn != nil {
		err = s.conn.Close()
	}
	if s.reading != nil {
		err = errors.Join(err, s.reading.close())
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
