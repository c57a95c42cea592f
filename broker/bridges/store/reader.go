package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"signalbox/broker/bridges"
)

// reader reads queues, concurrently with the writers.
type reader struct {
	db     *sql.DB
	blocks *sql.Stmt
}

// Bounds of a page. No more rows than fit into pageBytes are read.
const (
	pageRows  = 1024
	pageBytes = 1 << 20
)

func openReader(ctx context.Context, db *sql.DB) (*reader, error) {
	r := &reader{db: db}
	var err error
	r.blocks, err = db.PrepareContext(ctx, selectBlocks)
	return r, err
}

func (r *reader) close() (err error) {
	if r.blocks != nil {
		err = r.blocks.Close()
	}
	return errors.Join(err, r.db.Close())
}

// page reads the blocks of a queue from the one that contains the ID from, or the next one, up to
// an ID. It reports whether these were all. No transaction stays open.
func (r *reader) page(ctx context.Context, queue int64, from, to uint64) (page []row, all bool, err error) {
	rows, err := r.blocks.QueryContext(ctx, rowID(queue, 0), rowID(queue, from), rowID(queue, to), pageRows)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	bytes := int64(0)
	for bytes < pageBytes && rows.Next() {
		var w row
		var count, size sql.NullInt64
		if err := rows.Scan(&w.id, &w.count, &w.bytes, &w.entries, &count, &size, &w.removed.bitmap); err != nil {
			return nil, false, err
		}
		w.removed.count, w.removed.bytes = count.Int64, size.Int64
		page = append(page, w)
		if w.end() > from { // the first row may be before
			bytes += w.bytes
		}
	}
	return page, bytes < pageBytes && len(page) < pageRows, rows.Err()
}

// peek returns entries in memory, or reports that the file must be read.
func (j *queueState) peek(after uint64, messages, bytes int) (list []*bridges.Entry, read bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if messages <= 0 || j.isEmptyFrom(after+1) {
		return nil, false
	}
	if w := &j.window; w.from <= after+1 && after+1 <= w.to {
		if list = w.entriesFrom(after+1, messages, bytes); len(list) > 0 {
			return list, false
		}
		return nil, w.to < j.sums.next
	}
	return nil, true
}

// isEmptyFrom reports whether there are no entries from an ID on. The caller holds mu.
func (j *queueState) isEmptyFrom(from uint64) bool {
	return j.deleted.Load() || j.sums.messages+j.early.messages == 0 || from >= j.next
}

// nextRange returns the range to be read next so that the entries after an ID are in memory. It
// reports false if nothing has to be read.
func (j *queueState) nextRange(after uint64) (s idRange, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := &j.window
	inside := w.from <= after+1 && after+1 <= w.to
	if j.isEmptyFrom(after+1) || inside && (w.to >= j.sums.next || len(w.entriesFrom(after+1, 1, 0)) > 0) {
		return s, false
	}
	if !inside {
		w.reset(after + 1)
	}
	j.removedDuringFill = map[uint64]struct{}{}
	return idRange{w.to, max(w.to, j.sums.next)}, true
}

// fill reads the next page after an ID into the window.
func (q *Queue) fill(ctx context.Context, after uint64) error {
	j := q.state
	j.fillMu.Lock()
	defer j.fillMu.Unlock()
	s, ok := j.nextRange(after)
	if !ok {
		return nil
	}
	page, all, err := q.store.reader.page(ctx, j.queue, s.from, s.to)
	if err != nil {
		j.addToWindow(s, nil, s.from)
		return fmt.Errorf("read the queue of a bridge: %w", err)
	}
	var records []record
	end := s.from
	for i := range page {
		r := &page[i]
		end = max(end, r.end())
		list, err := j.decode(r, q.store.timeline.Offset())
		if err != nil {
			q.discard(r.id)
			continue
		}
		records = append(records, list...)
	}
	if all {
		end = s.to
	}
	j.addToWindow(s, records, min(end, s.to))
	return nil
}

// decode returns the entries of a row that were not removed.
func (j *queueState) decode(r *row, offset int64) (left []record, err error) {
	records, err := decode(r.entries, r.count, offset)
	if err != nil {
		return nil, err
	}
	for i, e := range records {
		if !r.removed.has(i) {
			e.ID = entryID(r.id) + uint64(i)
			e.MessageID = j.messageID(e)
			left = append(left, e)
		}
	}
	return left, nil
}

// addToWindow adds entries that were read to the window, except those that were removed meanwhile.
func (j *queueState) addToWindow(s idRange, records []record, end uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	gone := j.removedDuringFill
	j.removedDuringFill = nil
	w := &j.window
	if w.to != s.from { // the queue was deleted
		return
	}
	for _, ids := range [][]uint64{j.pendingRemovals, j.takenRemovals} {
		for _, id := range ids {
			gone[id] = struct{}{}
		}
	}
	var bytes int64
	for _, r := range records {
		bytes += cost(r.Entry)
	}
	w.evictFront(bytes)
	for _, r := range records {
		if _, was := gone[r.ID]; !was && r.ID >= s.from {
			w.append(r.Entry)
		}
	}
	w.to = end
}

// discard has the committer delete a damaged row.
func (q *Queue) discard(id int64) {
	q.store.do(func(c *committer) {
		err := c.inTransaction(func(tx *transaction) error {
			if q.state.purging {
				return nil
			}
			ch := tx.change(q.state)
			rows, err := tx.list(q.state, entryID(id), 1)
			if err != nil || len(rows) == 0 || rows[0].id != id {
				return err
			}
			if _, err := rows[0].cached(); err != nil {
				tx.deleteDamaged(ch, rows[0], err)
			}
			return nil
		})
		if err != nil {
			c.log.Warn("damaged messages of a bridge could not be deleted", "error", err)
		}
	})
}
