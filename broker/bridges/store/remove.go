package store

import (
	"database/sql/driver"
	"errors"
	"slices"
)

// loadRows and loadBytes bound how many blocks are read at once to learn their contents.
const (
	loadRows  = 64
	loadBytes = 1 << 20
)

// errStop ends a query early.
var errStop = errors.New("enough was read")

// row is a row of selectBlocks.
type row struct {
	id, count, bytes int64
	entries          []byte
	removed          gaps
}

// rowOf converts the columns of a row.
func rowOf(v []driver.Value) (r row) {
	r.id, r.count, r.bytes = v[0].(int64), v[1].(int64), v[2].(int64)
	r.entries, _ = v[3].([]byte)
	r.removed.count, _ = v[4].(int64) // NULL if nothing was removed
	r.removed.bytes, _ = v[5].(int64)
	r.removed.bitmap, _ = v[6].([]byte)
	return r
}

// end returns the ID after the row.
func (r *row) end() uint64 { return entryID(r.id) + uint64(max(r.count, 1)) }

// list returns some rows from the last one that begins at or before an ID. That row may end
// before the ID.
func (tx *transaction) list(j *queueState, id uint64, limit int) (rows []row, err error) {
	bytes := int64(0)
	err = tx.query(listBlocks, 7, func(v []driver.Value) error {
		r := rowOf(v)
		rows = append(rows, r)
		if r.end() > id {
			bytes += r.bytes
		}
		if bytes >= loadBytes {
			return errStop
		}
		return nil
	}, rowID(j.queue, 0), rowID(j.queue, id), rowID(j.queue+1, 0), int64(limit))
	if errors.Is(err, errStop) {
		err = nil
	}
	return rows, err
}

// cacheBlocks caches the blocks from the one that contains an ID, or the next one, and returns that;
// nil if there is none.
func (tx *transaction) cacheBlocks(ch *change, id uint64) (first *blockChange, err error) {
	rows, err := tx.list(ch.state, id, loadRows)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if r.end() <= id {
			continue
		}
		c := ch.blocks[entryID(r.id)]
		if c == nil {
			b, err := r.cached()
			if err != nil {
				c = tx.deleteDamaged(ch, r, err)
			} else if ch.state.blocks.cache(b); first == nil {
				c = newBlockChange(b)
				ch.blocks[b.first] = c
			}
		}
		if first == nil {
			first = c
		}
	}
	return first, nil
}

// cached returns the cached state of a row.
func (r *row) cached() (*block, error) {
	records, err := decode(r.entries, r.count, 0)
	if err != nil {
		return nil, err
	}
	b := &block{first: entryID(r.id), sizes: make([]uint32, len(records)), removed: r.removed, hasRemovedRow: r.removed.bitmap != nil}
	for i, e := range records {
		b.sizes[i] = uint32(e.Size())
	}
	return b, nil
}

// deleteDamaged deletes a row that cannot be read. As its count may be wrong too, the queue is
// summed up again.
func (tx *transaction) deleteDamaged(ch *change, r row, cause error) *blockChange {
	b := &block{first: entryID(r.id), sizes: make([]uint32, min(max(r.count, 1), blockEntries)), removed: r.removed, hasRemovedRow: true}
	left := r.count - r.removed.count
	c := &blockChange{block: b, removed: r.removed, changed: true, damaged: true}
	ch.blocks[b.first] = c
	tx.count(ch, -left, -(r.bytes - r.removed.bytes))
	ch.dropped += left
	ch.recount = true
	tx.damaged = append(tx.damaged, damage{r.id, left, cause})
	return c
}

// next returns the block that contains an ID, or the next one, nil if there is none.
func (tx *transaction) next(ch *change, id uint64) (*blockChange, error) {
	if b := ch.state.blocks.find(id); b != nil {
		c := ch.blocks[b.first]
		if c == nil {
			c = newBlockChange(b)
			ch.blocks[b.first] = c
		}
		return c, nil
	}
	if id >= ch.state.sums.next {
		return nil, nil
	}
	return tx.cacheBlocks(ch, id)
}

// eachEntry calls f with those of some IDs that are in a readable block, in order.
func (tx *transaction) eachEntry(ch *change, ids []uint64, f func(*blockChange, uint64) error) (err error) {
	var c *blockChange
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if id < ch.state.front {
			continue
		}
		if c == nil || id >= c.end() {
			if c, err = tx.next(ch, id); err != nil {
				return err
			}
		}
		if c == nil {
			return nil // there is no block after it either
		}
		if c.holds(id) && !c.damaged {
			if err := f(c, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes entries. Those that were removed before are ignored.
func (tx *transaction) remove(ch *change, ids []uint64) error {
	return tx.eachEntry(ch, ids, func(c *blockChange, id uint64) error {
		tx.removeEntry(ch, c, id)
		return nil
	})
}

// removeEntry removes an entry from its block. It reports false if that was removed before.
func (tx *transaction) removeEntry(ch *change, c *blockChange, id uint64) bool {
	size, ok := c.remove(int(id - c.first))
	if ok {
		tx.count(ch, -1, -size)
		ch.removed = append(ch.removed, id)
	}
	return ok
}

// evict removes the oldest entries while there are any and full returns true.
func (tx *transaction) evict(ch *change, full func() bool) error {
	for id := max(ch.state.front, 1); ch.sums.messages > 0 && full(); {
		c, err := tx.next(ch, id)
		if err != nil {
			return err
		}
		if c == nil { // only if the file holds less than the sums say
			ch.recount = true
			return nil
		}
		for id = max(id, c.first); id < c.end() && !c.damaged && full(); id++ {
			if tx.removeEntry(ch, c, id) {
				ch.dropped++
			}
		}
		if c.empty() {
			id = c.end()
		}
		ch.front = id
	}
	return nil
}
