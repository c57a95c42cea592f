// Package store stores the configurations and queues of the bridges of all brokers in bridges.db,
// as a bridges.Store.
//
// DESIGN.md describes how messages are stored, what is durable when, what is dropped, and what
// happens if nothing can be written. The package must not import an MQTT library, net/http, or
// any package of this module but broker, broker/bridges, broker/clock, broker/records and
// broker/storage.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/clock"
	"signalbox/broker/storage"
)

// Sealer encrypts secrets. Sealed data can be opened only with the same additional data.
type Sealer interface {
	Seal(plain, aad []byte) []byte
	Unseal(sealed, aad []byte) ([]byte, error)
}

// Options configure a store. MaxBytes bounds the messages of all queues and their dead letters,
// by the size of messages; 0 is no bound. Seal is required. The zero values of the others are no
// bound, Full, no log, and the clock of the machine. Messages expire by Clock; without it they
// are stored with their own times.
type Options struct {
	MaxBytes   int64
	Durability storage.Durability
	Seal       Sealer
	Log        *slog.Logger
	Now        func() time.Time
	Clock      *clock.Clock

	pending int // see storage.Limits
}

// Store is the durable state of bridges. All methods are safe for concurrent use.
type Store struct {
	options  Options
	log      *slog.Logger
	now      func() time.Time
	identity string

	file     *storage.File
	timeline *clock.Timeline // nil without a Clock
	configs  *sql.DB         // writes configurations
	reader   *reader
	conn     *storage.Conn // used only by the committer

	queues    queueStates
	commits   *storage.Committer[*item]
	committer *committer
}

var _ bridges.Store = (*Store)(nil)

// gatherTime is how long entries that no caller waits for wait for others. What was delivered by then
// is not stored.
const gatherTime = 20 * time.Millisecond

// errClosed is the error of calls after Close.
var errClosed = errors.New("the store of the bridges' messages is closed")

// Open opens or creates the file. Its errors are for operators, with what to do.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Seal == nil {
		return nil, errors.New("open the bridges' database: no sealer for configurations is given")
	}
	o.setDefaults()
	s := &Store{options: o, log: o.Log, now: o.Now, queues: queueStates{byID: map[int64]*queueState{}}}
	left, err := s.open(ctx, path)
	if err != nil {
		return nil, errors.Join(err, s.closeFile())
	}
	s.commits = storage.NewCommitter[*item](storage.Config{
		Conn: s.conn, Log: s.log, Now: s.now, Contents: "the bridges' messages",
		Limits:      storage.Limits{GroupEntries: groupItems, Pending: o.pending},
		ProbeInsert: int(fill), ProbeDelete: int(drain), TidyBusy: true, Gather: gatherTime, Closed: errClosed,
	})
	s.startCommitter(left)
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

// Check returns the error of Open for a file that cannot be written or that a newer release
// wrote; see [storage.Check]. A file that does not exist is valid.
func Check(ctx context.Context, path string) error { return storage.Check(ctx, path, layout()) }

// open opens the file and returns the deleted queues that are not purged.
func (s *Store) open(ctx context.Context, path string) (left []*queueState, err error) {
	left, err = s.openParts(ctx, path)
	return left, storage.Explain(path, err)
}

func (s *Store) openParts(ctx context.Context, path string) (left []*queueState, err error) {
	if s.file, err = storage.Open(ctx, path, layout(), s.log); err != nil {
		return nil, err
	}
	if s.options.Clock != nil {
		if s.timeline, err = s.options.Clock.Open(ctx, s.file); err != nil {
			return nil, err
		}
	}
	s.configs = s.file.Writer(storage.Full)
	if s.reader, err = openReader(ctx, s.file.Readers()); err != nil {
		return nil, fmt.Errorf("prepare to read %s: %w", s.file.Path(), err)
	}
	if s.conn, err = s.file.Connect(ctx, s.options.Durability, texts[:]); err != nil {
		return nil, fmt.Errorf("prepare to keep messages in %s: %w", s.file.Path(), err)
	}
	if s.identity, err = s.identify(ctx); err != nil {
		return nil, fmt.Errorf("read the identity of %s: %w", s.file.Path(), err)
	}
	if left, err = s.load(ctx); err != nil {
		return nil, fmt.Errorf("read the queues of bridges in %s: %w", s.file.Path(), err)
	}
	return left, nil
}

// Identity returns the store's globally unique name.
func (s *Store) Identity() string { return s.identity }

// Err returns why nothing can be stored at present, for operators, or nil.
func (s *Store) Err() error { return s.commits.Err() }

// Close stores what was put and closes the file. The context bounds only the wait; closing
// continues after it.
func (s *Store) Close(ctx context.Context) error { return s.commits.Close(ctx, s.closeFile) }

// closeFile closes what was opened of the file.
func (s *Store) closeFile() (err error) {
	if s.conn != nil {
		err = s.conn.Close()
	}
	if s.reader != nil {
		err = errors.Join(err, s.reader.close())
	}
	err = errors.Join(err, s.timeline.Close(context.Background()))
	if s.configs != nil {
		err = errors.Join(err, s.configs.Close())
	}
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	return err
}
