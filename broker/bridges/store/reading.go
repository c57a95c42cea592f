package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"signalbox/broker/bridges"
)

// reading reads queues, concurrently with the writers.
type reading struct {
	db     *sql.DB
	blocks *sql.Stmt
}

// Bounds of a page. No more rows than fit into pageBytes are read.
const (
	pageRows  = 1024
	pageBytes = 1 << 20
)

func openReading(ctx context.Context, db *sql.DB) (*reading, error) {
	r := &reading{db: db}
	var err error
	r.blocks, err = db.PrepareContext(ctx, selectBlocks)
	return r, err
}

func (r *reading) close() (err error) {
	if r.blocks != nil {
		err = r.blocks.Close()
	}
	return errors.Join(err, r.db.Close())
}

// page reads the blocks of a queue from the one that contains the ID from, or the next one, up to
// an ID. It reports whether these were all. No transaction stays open.
func (r *reading) page(ctx context.Context, queue int64, from, to uint64) (page []row, all bool, err error) {
	rows, err := r.blocks.QueryContext(ctx, rowID(queue, 0), rowID(queue, from), rowID(queue, to), pageRows)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	bytes := int64(0)
	for bytes < pageBytes && rows.Next() {
		var w row
		var count, size sql.NullInt64
		if err := rows.Scan(&w.id, &w.count, &w.bytes, &w.entries, &count, &size, &w.gone.which); err != nil {
			return nil, false, err
		}
		w.gone.count, w.gone.bytes = count.Int64, size.Int64
		page = append(page, w)
		if w.end() > from { // the first row may be before
			bytes += w.bytes
		}
	}
	return page, bytes < pageBytes && len(page) < pageRows, rows.Err()
}

// pick returns entries in memory, or reports that the file must be read.
func (j *journal) pick(after uint64, messages, bytes int) (list []*bridges.Entry, read bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if messages <= 0 || j.ended(after+1) {
		return nil, false
	}
	if w := &j.window; w.from <= after+1 && after+1 <= w.to {
		if list = w.pick(after+1, messages, bytes); len(list) > 0 {
			return list, false
		}
		return nil, w.to < j.tally.next
	}
	return nil, true
}

// ended reports whether there are no entries from an ID on. The caller holds mu.
func (j *journal) ended(from uint64) bool {
	return j.gone.Load() || j.tally.messages == 0 || from >= j.tally.next
}

// begin returns the range to be read next so that the entries after an ID are in memory. It
// reports false if nothing has to be read.
func (j *journal) begin(after uint64) (s span, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := &j.window
	inside := w.from <= after+1 && after+1 <= w.to
	if j.ended(after+1) || inside && (w.to >= j.tally.next || len(w.pick(after+1, 1, 0)) > 0) {
		return s, false
	}
	if !inside {
		w.restart(after + 1)
	}
	j.watch = map[uint64]struct{}{}
	return span{w.to, j.tally.next}, true
}

// fill reads the next page after an ID into the window.
func (q *Queue) fill(ctx context.Context, after uint64) error {
	j := q.journal
	j.reading.Lock()
	defer j.reading.Unlock()
	s, ok := j.begin(after)
	if !ok {
		return nil
	}
	page, all, err := q.store.reading.page(ctx, j.queue, s.from, s.to)
	if err != nil {
		j.install(s, nil, s.from)
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
	j.install(s, records, min(end, s.to))
	return nil
}

// decode returns the entries of a row that were not removed.
func (j *journal) decode(r *row, offset int64) (left []record, err error) {
	records, err := decode(r.entries, r.count, offset)
	if err != nil {
		return nil, err
	}
	for i, e := range records {
		if !r.gone.has(i) {
			e.ID = entryID(r.id) + uint64(i)
			e.MessageID = j.messageID(e)
			left = append(left, e)
		}
	}
	return left, nil
}

// install adds entries that were read to the window, except those that were removed meanwhile.
func (j *journal) install(s span, records []record, end uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	gone := j.watch
	j.watch = nil
	w := &j.window
	if w.to != s.from { // the queue was deleted
		return
	}
	for _, ids := range [][]uint64{j.removing, j.removed} {
		for _, id := range ids {
			gone[id] = struct{}{}
		}
	}
	var bytes int64
	for _, r := range records {
		bytes += cost(r.Entry)
	}
	w.shrink(bytes)
	for _, r := range records {
		if _, was := gone[r.ID]; !was && r.ID >= s.from {
			w.grow(r.Entry)
		}
	}
	w.to = end
}

// discard has the committer delete a damaged row.
func (q *Queue) discard(id int64) {
	q.store.do(func(c *committer) {
		err := c.transact(func(tx *transaction) error {
			if q.journal.buried {
				return nil
			}
			ch := tx.change(q.journal)
			rows, err := tx.list(q.journal, entryID(id), 1)
			if err != nil || len(rows) == 0 || rows[0].id != id {
				return err
			}
			if _, err := rows[0].block(); err != nil {
				tx.dispose(ch, rows[0], err)
			}
			return nil
		})
		if err != nil {
			c.log.Warn("damaged messages of a bridge could not be deleted", "err", err)
		}
	})
}
