package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/storage"
)

// identify returns the store's identity, which the first call creates.
func (s *Store) identify(ctx context.Context) (identity string, err error) {
	const read = `SELECT name FROM identity`
	err = s.configs.QueryRowContext(ctx, read).Scan(&identity)
	if !errors.Is(err, sql.ErrNoRows) {
		return identity, err
	}
	identity = strings.ToLower(rand.Text())
	const write = `INSERT INTO identity (name) VALUES (?)`
	return identity, s.transactConfigs(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, write, identity)
		return err
	}, nil)
}

// transactConfigs runs a durable transaction while no other goroutine writes, and calls note
// before others can.
func (s *Store) transactConfigs(ctx context.Context, write func(*sql.Tx) error, note func()) error {
	return s.file.Transact(ctx, s.configs, write, note)
}

// additionalData returns the additional data for sealing a configuration, so that the
// configuration of one bridge cannot be opened as that of another.
func additionalData(brokerID, bridgeID string) []byte {
	b := append([]byte("bridge configuration\x00"), binary.BigEndian.AppendUint32(nil, uint32(len(brokerID)))...)
	return append(append(b, brokerID...), bridgeID...)
}

// Configs returns the configurations of a broker's bridges. If some cannot be opened, it returns
// the others with the error.
func (s *Store) Configs(ctx context.Context, brokerID string) (map[string]json.RawMessage, error) {
	const q = `SELECT bridge_id, document FROM config WHERE broker_id = ?`
	rows, err := s.reader.db.QueryContext(ctx, q, brokerID)
	if err != nil {
		return nil, fmt.Errorf("read configurations of bridges: %w", err)
	}
	defer rows.Close()
	all, failed := map[string]json.RawMessage{}, []error(nil)
	for rows.Next() {
		var id string
		var sealed []byte
		if err := rows.Scan(&id, &sealed); err != nil {
			return nil, fmt.Errorf("read the configuration of a bridge: %w", err)
		}
		plain, err := s.options.Seal.Unseal(sealed, additionalData(brokerID, id))
		if err != nil {
			failed = append(failed, fmt.Errorf("open the configuration of %s: %w; start with the key that it was stored with, or configure the bridge again", id, err))
			continue
		}
		all[id] = plain
	}
	return all, errors.Join(append(failed, rows.Err())...)
}

// PutConfig stores a configuration and the set of its connections; see bridges.Store.
func (s *Store) PutConfig(ctx context.Context, brokerID, bridgeID string, document json.RawMessage, connections []string) error {
	if document == nil {
		connections = nil
	}
	var made, deleted []int64
	err := s.changeConfigs(ctx, func(tx *sql.Tx) (err error) {
		if err := s.setConfig(ctx, tx, brokerID, bridgeID, document); err != nil {
			return err
		}
		made, deleted, err = setQueues(ctx, tx, brokerID, bridgeID, connections)
		return err
	}, &made, &deleted)
	if err != nil {
		return s.operatorError("store the configuration of a bridge", err)
	}
	return nil
}

// Forget deletes everything of a broker.
func (s *Store) Forget(ctx context.Context, brokerID string) error {
	var made, deleted []int64
	err := s.changeConfigs(ctx, func(tx *sql.Tx) (err error) {
		if _, err := tx.ExecContext(ctx, `DELETE FROM config WHERE broker_id = ?`, brokerID); err != nil {
			return err
		}
		const q = `UPDATE queue SET gone = 1 WHERE broker_id = ? AND gone = 0 RETURNING id`
		deleted, err = storage.Column[int64](tx.QueryContext(ctx, q, brokerID))
		return err
	}, &made, &deleted)
	if err != nil {
		return s.operatorError("delete the bridges of a broker", err)
	}
	return nil
}

// Brokers returns the ids of the brokers of which anything is stored.
func (s *Store) Brokers(ctx context.Context) (ids []string, err error) {
	ids, err = storage.Column[string](s.reader.db.QueryContext(ctx, `SELECT broker_id FROM config UNION SELECT broker_id FROM queue WHERE gone = 0`))
	if err != nil {
		return nil, s.operatorError("read which brokers have bridges", err)
	}
	return ids, nil
}

// changeConfigs changes configurations and the set of queues, and applies the latter in memory.
func (s *Store) changeConfigs(ctx context.Context, change func(*sql.Tx) error, made, deleted *[]int64) error {
	return s.transactConfigs(ctx, change, func() {
		for _, queue := range *made {
			s.queues.put(s.newQueueState(queue, sums{next: 1}))
		}
		for _, queue := range *deleted {
			s.startPurge(s.queues.find(queue))
		}
	})
}

// setConfig stores a configuration, or deletes it if document is nil.
func (s *Store) setConfig(ctx context.Context, tx *sql.Tx, brokerID, bridgeID string, document json.RawMessage) (err error) {
	if document == nil {
		const q = `DELETE FROM config WHERE broker_id = ? AND bridge_id = ?`
		_, err = tx.ExecContext(ctx, q, brokerID, bridgeID)
		return err
	}
	const q = `
		INSERT INTO config (broker_id, bridge_id, document) VALUES (?, ?, ?)
		ON CONFLICT (broker_id, bridge_id) DO UPDATE SET document = excluded.document`
	_, err = tx.ExecContext(ctx, q, brokerID, bridgeID, s.options.Seal.Seal(document, additionalData(brokerID, bridgeID)))
	return err
}

// setQueues creates the queues of new connections, and deletes those of connections that are not
// listed.
func setQueues(ctx context.Context, tx *sql.Tx, brokerID, bridgeID string, connections []string) (made, deleted []int64, err error) {
	const list = `SELECT connection, id FROM queue WHERE broker_id = ? AND bridge_id = ? AND gone = 0`
	have, err := pairs(tx.QueryContext(ctx, list, brokerID, bridgeID))
	if err != nil {
		return nil, nil, err
	}
	for connection, queue := range have {
		if !slices.Contains(connections, connection) {
			if _, err := tx.ExecContext(ctx, `UPDATE queue SET gone = 1 WHERE id = ?`, queue); err != nil {
				return nil, nil, err
			}
			deleted = append(deleted, queue)
		}
	}
	const insert = `INSERT INTO queue (broker_id, bridge_id, connection) VALUES (?, ?, ?) RETURNING id`
	for _, connection := range connections {
		if have[connection] > 0 {
			continue
		}
		var queue int64
		if err := tx.QueryRowContext(ctx, insert, brokerID, bridgeID, connection).Scan(&queue); err != nil {
			return nil, nil, err
		}
		have[connection] = queue
		made = append(made, queue)
	}
	return made, deleted, nil
}

// pairs reads names and numbers.
func pairs(rows *sql.Rows, err error) (map[string]int64, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]int64{}
	for rows.Next() {
		var key string
		var number int64
		if err := rows.Scan(&key, &number); err != nil {
			return nil, err
		}
		all[key] = number
	}
	return all, rows.Err()
}

// operatorError returns an error for operators that states what failed and what to do.
func (s *Store) operatorError(what string, err error) error {
	sentence := s.file.Failure(err, "the bridges' database refuses it; see the log for the cause").Error()
	if !storage.Unflushed(err) {
		sentence += "; nothing was changed"
	}
	return &broker.Error{Kind: broker.Internal, Msg: sentence, Err: fmt.Errorf("%s: %w", what, err)}
}

// Queue opens the queue of a connection; see bridges.Store.
func (s *Store) Queue(ctx context.Context, brokerID, bridgeID, connection string, b bridges.Bounds) (bridges.Queue, error) {
	const q = `SELECT id FROM queue WHERE broker_id = ? AND bridge_id = ? AND connection = ? AND gone = 0`
	var queue int64
	err := s.reader.db.QueryRowContext(ctx, q, brokerID, bridgeID, connection).Scan(&queue)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoQueue(connection)
	}
	if err != nil {
		return nil, fmt.Errorf("find the queue of a bridge: %w", err)
	}
	j := s.queues.find(queue)
	if j == nil {
		return nil, errNoQueue(connection)
	}
	if !j.acquire(b) {
		return nil, fmt.Errorf("the queue of connection %q is open already", connection)
	}
	return &Queue{store: s, state: j}, nil
}
