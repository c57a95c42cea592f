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

// errNotFound is returned for an id that no stream has.
var errNotFound = &broker.Error{Kind: broker.NotFound, Msg: "Stream not found"}

// Definitions returns the streams of a broker, sorted by name.
func (s *Store) Definitions(ctx context.Context, brokerID string) ([]streams.Definition, error) {
	const q = `
		SELECT id, streamname, sourcetopic, targettopic, targetqos, ttl, active, process, persist,
			key, textname, textdescription, query, uid
		FROM stream
		WHERE broker_id = ?
		ORDER BY streamname`
	rows, err := s.reader.db.QueryContext(ctx, q, brokerID)
	if err != nil {
		return nil, fmt.Errorf("read streams: %w", err)
	}
	defer rows.Close()
	var all []streams.Definition
	for rows.Next() {
		var d streams.Definition
		var query string
		if err := rows.Scan(&d.ID, &d.StreamName, &d.SourceTopic, &d.TargetTopic, &d.TargetQoS, &d.TTL, &d.Active, &d.Process, &d.Persist,
			&d.Key, &d.TextName, &d.TextDescription, &query, &d.UID); err != nil {
			return nil, fmt.Errorf("read a stream: %w", err)
		}
		if query != "" {
			d.Query = json.RawMessage(query)
		}
		all = append(all, d)
	}
	return all, rows.Err()
}

// Put stores a definition; see streams.Store. The error is Exists if the name
// is taken, and NotFound if the broker has no stream of the id.
func (s *Store) Put(ctx context.Context, brokerID string, d streams.Definition) (id int64, err error) {
	err = s.changeDefinitions(ctx, func(tx *sql.Tx) error {
		if d.ID == 0 {
			d.ID, err = insertStream(ctx, tx, brokerID, d)
			return err
		}
		return updateStream(ctx, tx, brokerID, d)
	}, func() { s.applyDefinition(d) })
	if err != nil {
		return 0, s.explain("store a stream", err)
	}
	return d.ID, nil
}

// applyDefinition updates the log of a stream after its definition was stored.
func (s *Store) applyDefinition(d streams.Definition) {
	sl := s.logs.find(d.ID)
	if sl == nil {
		sl = &storedLog{stream: d.ID}
		s.logs.put(sl)
	}
	if sl.setTTL(milliseconds(d.TTL)) {
		s.committer.scheduleSweep()
	}
}

// explain returns an error for an operator: what could not be done, and what to
// do about it.
func (s *Store) explain(what string, err error) error {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		return e
	}
	sentence := s.file.Failure(err, "the streams' database refuses it; see the log for the reason").Error()
	if !storage.Unflushed(err) {
		sentence += "; nothing was changed"
	}
	return &broker.Error{Kind: broker.Internal, Msg: sentence, Err: fmt.Errorf("%s: %w", what, err)}
}

// changeDefinitions changes definitions in one transaction, durably. It calls
// applied before other changes can begin.
func (s *Store) changeDefinitions(ctx context.Context, change func(*sql.Tx) error, applied func()) error {
	return s.file.Transact(ctx, s.definitions, change, applied)
}

func insertStream(ctx context.Context, tx *sql.Tx, brokerID string, d streams.Definition) (id int64, err error) {
	const stream = `
		INSERT INTO stream (broker_id, streamname, sourcetopic, targettopic, targetqos, ttl, active, process, persist,
			key, textname, textdescription, query, uid)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		RETURNING id`
	err = tx.QueryRowContext(ctx, stream, brokerID, d.StreamName, d.SourceTopic, d.TargetTopic, d.TargetQoS, d.TTL, d.Active, d.Process, d.Persist,
		d.Key, d.TextName, d.TextDescription, string(d.Query), d.UID).Scan(&id)
	if err != nil {
		return 0, existsError(err)
	}
	const log = `INSERT INTO log (stream, messages, bytes, next, last_at) VALUES (?, 0, 0, 0, 0)`
	_, err = tx.ExecContext(ctx, log, id)
	return id, err
}

func updateStream(ctx context.Context, tx *sql.Tx, brokerID string, d streams.Definition) error {
	const q = `
		UPDATE stream SET streamname = ?, sourcetopic = ?, targettopic = ?, targetqos = ?, ttl = ?, active = ?, process = ?, persist = ?,
			key = ?, textname = ?, textdescription = ?, query = ?, uid = ?
		WHERE id = ? AND broker_id = ?`
	done, err := tx.ExecContext(ctx, q, d.StreamName, d.SourceTopic, d.TargetTopic, d.TargetQoS, d.TTL, d.Active, d.Process, d.Persist,
		d.Key, d.TextName, d.TextDescription, string(d.Query), d.UID, d.ID, brokerID)
	if err != nil {
		return existsError(err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errNotFound)
	}
	return nil
}

// existsError converts the error for a name that is taken, and returns others
// unchanged.
func existsError(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE {
		return &broker.Error{Kind: broker.Exists, Msg: "Stream already exists", Err: err}
	}
	return err
}

// Delete deletes a definition durably, and starts to delete its messages. If
// the process ends before that is complete, it continues when the store is
// opened.
func (s *Store) Delete(ctx context.Context, id int64) error {
	return s.delete(ctx, `DELETE FROM stream WHERE id = ? RETURNING id`, id, errNotFound)
}

// Forget deletes all streams of a broker in the same way as Delete.
func (s *Store) Forget(ctx context.Context, brokerID string) error {
	return s.delete(ctx, `DELETE FROM stream WHERE broker_id = ? RETURNING id`, brokerID, nil)
}

// Brokers returns the ids of the brokers that have streams.
func (s *Store) Brokers(ctx context.Context) (ids []string, err error) {
	ids, err = storage.Column[string](s.reader.db.QueryContext(ctx, `SELECT DISTINCT broker_id FROM stream`))
	if err != nil {
		return nil, s.explain("read which brokers have streams", err)
	}
	return ids, nil
}

// delete runs a statement that deletes definitions and returns their ids. If
// there are none, the error is notFound.
func (s *Store) delete(ctx context.Context, q string, which any, notFound error) error {
	var ids []int64
	err := s.changeDefinitions(ctx, func(tx *sql.Tx) (err error) {
		ids, err = storage.Column[int64](tx.QueryContext(ctx, q, which))
		if err == nil && len(ids) == 0 {
			err = notFound
		}
		return err
	}, func() {
		for _, id := range ids {
			s.purgeLater(id)
		}
	})
	if err != nil {
		return s.explain("delete a stream", err)
	}
	return nil
}

// purgeLater makes the committer purge a log after everything that was
// submitted before.
func (s *Store) purgeLater(id int64) {
	sl := s.logs.find(id)
	sl.markDeleted()
	s.commits.Put(storage.Submission[*entry]{Task: func() { s.committer.purge(sl) }, Weight: entryOverhead})
}
