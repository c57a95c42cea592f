package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"

	"signalbox/broker/embedded/engine"
)

// gap is the greatest difference between the IDs of two neighbours that are read by one
// range.
const gap = 32

// readBatch is how many messages one statement reads.
const readBatch = 256

func (s *Store) prepareMessages() (*sql.Stmt, error) {
	return s.readers.Prepare(selectMessage + `WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id`)
}

// Messages returns messages by their IDs, which must ascend, as of the last commit. IDs
// that are not stored are left out. It does not wait for a transaction that is being
// written.
func (s *Store) Messages(ctx context.Context, ids []uint64) ([]*engine.Message, error) {
	statement, err := s.messages()
	if err != nil {
		return nil, fmt.Errorf("read messages of the broker: %w", err)
	}
	found := make([]*engine.Message, 0, len(ids))
	for part := range slices.Chunk(ids, readBatch) {
		rows, err := statement.QueryContext(ctx, jsonArray(part))
		if err == nil {
			err = scanMessages(rows, func(m *engine.Message, _ bool) error {
				found = append(found, m)
				return nil
			})
		}
		if err != nil {
			return nil, fmt.Errorf("read messages of the broker: %w", err)
		}
	}
	return found, nil
}

// jsonArray returns IDs as JSON. The messages of one queue are rarely adjacent, and a
// statement for each would cost more than reading it.
func jsonArray(ids []uint64) string {
	text := make([]byte, 0, 2+12*len(ids))
	text = append(text, '[')
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, id, 10)
	}
	return string(append(text, ']'))
}

// ranges returns ranges that contain all IDs, which must ascend, and few others.
func ranges(ids []uint64) (found []span) {
	for _, id := range ids {
		if n := len(found); n > 0 && id-found[n-1].to <= gap {
			found[n-1].to = id
		} else {
			found = append(found, span{id, id})
		}
	}
	return found
}
