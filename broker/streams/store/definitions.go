package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"signalbox/broker"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
)

// errNotFound is the answer to a number that no stream has.
var errNotFound = &broker.Error{Kind: broker.NotFound, Msg: "Stream not found"}

// Definitions gives the streams of a broker, in order of their names.
func (s *Store) Definitions(ctx context.Context, brokerID string) ([]streams.Definition, error) {
	const q = `
		SELECT id, streamname, sourcetopic, targettopic, targetqos, ttl, active, process, persist,
			key, textname, textdescription, query
		FROM stream
		WHERE broker_id = ?
		ORDER BY streamname`
	rows, err := s.reading.db.QueryContext(ctx, q, brokerID)
	if err != nil {
		return nil, fmt.Errorf("read streams: %w", err)
	}
	defer rows.Close()
	var all []streams.Definition
	for rows.Next() {
		var d streams.Definition
		var query string
		if err := rows.Scan(&d.ID, &d.StreamName, &d.SourceTopic, &d.TargetTopic, &d.TargetQoS, &d.TTL, &d.Active, &d.Process, &d.Persist,
			&d.Key, &d.TextName, &d.TextDescription, &query); err != nil {
			return nil, fmt.Errorf("read a stream: %w", err)
		}
		if query != "" {
			d.Query = json.RawMessage(query)
		}
		all = append(all, d)
	}
	return all, rows.Err()
}

// Put stores a definition; see streams.Store. A name that is taken is Exists, a
// number that the broker has no stream of is NotFound.
func (s *Store) Put(ctx context.Context, brokerID string, d streams.Definition) (id int64, err error) {
	err = s.define(ctx, func(tx *sql.Tx) error {
		if d.ID == 0 {
			d.ID, err = insert(ctx, tx, brokerID, d.Stream)
			return err
		}
		return modify(ctx, tx, brokerID, d)
	}, func() { s.defined(d) })
	if err != nil {
		return 0, s.named("store a stream", err)
	}
	return d.ID, nil
}

// defined takes note of a definition that was stored.
func (s *Store) defined(d streams.Definition) {
	j := s.books.find(d.ID)
	if j == nil {
		j = &journal{stream: d.ID}
		s.books.put(j)
	}
	if j.setTTL(milliseconds(d.TTL)) {
		s.committer.mind()
	}
}

// named says what could not be done, and what an operator can do about it.
func (s *Store) named(what string, err error) error {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		return e
	}
	sentence := s.file.Failure(err, "the streams' database refuses it; the log tells why").Error()
	if !storage.Unflushed(err) {
		sentence += "; nothing was changed"
	}
	return &broker.Error{Kind: broker.Internal, Msg: sentence, Err: fmt.Errorf("%s: %w", what, err)}
}

// define changes definitions in one transaction, which is durable then, and takes
// note of that before others can change them.
func (s *Store) define(ctx context.Context, change func(*sql.Tx) error, note func()) error {
	return s.file.Transact(ctx, s.definitions, change, note)
}

func insert(ctx context.Context, tx *sql.Tx, brokerID string, r broker.Stream) (id int64, err error) {
	const stream = `
		INSERT INTO stream (broker_id, streamname, sourcetopic, targettopic, targetqos, ttl, active, process, persist,
			key, textname, textdescription, query)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		RETURNING id`
	err = tx.QueryRowContext(ctx, stream, brokerID, r.StreamName, r.SourceTopic, r.TargetTopic, r.TargetQoS, r.TTL, r.Active, r.Process, r.Persist,
		r.Key, r.TextName, r.TextDescription, string(r.Query)).Scan(&id)
	if err != nil {
		return 0, taken(err)
	}
	const log = `INSERT INTO log (stream, messages, bytes, next, last_at) VALUES (?, 0, 0, 0, 0)`
	_, err = tx.ExecContext(ctx, log, id)
	return id, err
}

func modify(ctx context.Context, tx *sql.Tx, brokerID string, d streams.Definition) error {
	const q = `
		UPDATE stream SET streamname = ?, sourcetopic = ?, targettopic = ?, targetqos = ?, ttl = ?, active = ?, process = ?, persist = ?,
			key = ?, textname = ?, textdescription = ?, query = ?
		WHERE id = ? AND broker_id = ?`
	done, err := tx.ExecContext(ctx, q, d.StreamName, d.SourceTopic, d.TargetTopic, d.TargetQoS, d.TTL, d.Active, d.Process, d.Persist,
		d.Key, d.TextName, d.TextDescription, string(d.Query), d.ID, brokerID)
	if err != nil {
		return taken(err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errNotFound)
	}
	return nil
}

// taken tells a name that another stream has from other errors.
func taken(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE {
		return &broker.Error{Kind: broker.Exists, Msg: "Stream already exists", Err: err}
	}
	return err
}

// Delete deletes a definition, durably, and begins to delete its messages. If
// that does not come to its end, it is gone on with when the store is opened.
func (s *Store) Delete(ctx context.Context, id int64) error {
	return s.delete(ctx, `DELETE FROM stream WHERE id = ? RETURNING id`, id, errNotFound)
}

// Forget deletes all streams of a broker as Delete does.
func (s *Store) Forget(ctx context.Context, brokerID string) error {
	return s.delete(ctx, `DELETE FROM stream WHERE broker_id = ? RETURNING id`, brokerID, nil)
}

// delete runs a statement that deletes definitions and gives their numbers. None
// is the error where there are none.
func (s *Store) delete(ctx context.Context, q string, which any, none error) error {
	var ids []int64
	err := s.define(ctx, func(tx *sql.Tx) (err error) {
		ids, err = storage.Numbers(tx.QueryContext(ctx, q, which))
		if err == nil && len(ids) == 0 {
			err = none
		}
		return err
	}, func() {
		for _, id := range ids {
			s.bury(id)
		}
	})
	if err != nil {
		return s.named("delete a stream", err)
	}
	return nil
}

// bury has the committer delete what a stream kept, behind all that was handed
// over.
func (s *Store) bury(id int64) {
	j := s.books.find(id)
	j.bury()
	s.commits.Put(storage.Submission[*entry]{Task: func() { s.committer.purge(j) }, Weight: entryWeight})
}
