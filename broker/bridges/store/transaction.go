package store

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"signalbox/broker/bridges"
	"signalbox/broker/storage"
)

// transaction writes to queues. It works on copies of their sums, so a failure needs no undo in
// memory.
type transaction struct {
	storage.Tx
	bytes   int64 // of all queues that are not deleted
	early   int64 // bytes of early entries that are not stored
	max     int64 // bound of bytes; 0 for none
	changes map[*queueState]*change
	order   []*change // of changes
	encoder encoder
	damaged []damage

	reserves bool // it is as durable as entries, and may reserve IDs
}

// damage is an unreadable row.
type damage struct {
	row, messages int64
	cause         error
}

// change is what a transaction changes in a queue.
type change struct {
	state       *queueState
	bounds      bridges.Bounds
	sums        sums
	sumsChanged bool
	next        uint64 // the least ID for an entry that is not early
	reserved    uint64

	front    uint64                  // nothing is left before it; 0 if unknown
	blocks   map[uint64]*blockChange // by the first ID of their blocks
	removals []uint64                // to be removed
	removed  []uint64                // removed entries
	items    []*item                 // to be put
	early    sums                    // messages and bytes of early ones, also elided ones
	late     int                     // number of others
	stored   []*block                // new blocks
	entries  []*bridges.Entry

	allRemoved               bool // includes all removals that the queue requested
	recount                  bool // the sums may differ from the file
	dropped, lostDeadLetters int64
}

// begin begins the changes of a transaction.
func (c *committer) begin(t storage.Tx) *transaction {
	c.tx = &transaction{Tx: t, bytes: c.queues.bytes, early: c.queues.early.Load(), max: c.options.MaxBytes, changes: map[*queueState]*change{}, encoder: c.encoder}
	return c.tx
}

// inTransaction runs a transaction between two groups.
func (c *committer) inTransaction(write func(*transaction) error) error {
	return c.commits.Transact(context.Background(), func(t storage.Tx) error {
		tx := c.begin(t)
		if err := write(tx); err != nil {
			return err
		}
		return tx.saveAll()
	})
}

// after applies the changes of a transaction that was committed.
func (c *committer) after(committed bool) {
	tx := c.tx
	if tx == nil { // it did not begin
		return
	}
	c.tx, c.encoder = nil, tx.encoder
	if committed {
		c.apply(tx)
	}
}

// change returns the transaction's change of a queue.
func (tx *transaction) change(j *queueState) *change {
	ch := tx.changes[j]
	if ch == nil {
		ch = j.begin()
		tx.changes[j] = ch
		tx.order = append(tx.order, ch)
	}
	return ch
}

// exec executes a statement. Its error names only the statement, because the values belong to
// users.
func (tx *transaction) exec(s statement, values ...driver.Value) error {
	if err := tx.Exec(int(s), values...); err != nil {
		return fmt.Errorf("%s: %w", names[s], err)
	}
	return nil
}

// query executes a statement that returns rows with that many columns.
func (tx *transaction) query(s statement, columns int, row func([]driver.Value) error, values ...driver.Value) error {
	places := make([]driver.Value, columns)
	err := tx.Query(int(s), places, func() error { return row(places) }, values...)
	if err != nil {
		return fmt.Errorf("%s: %w", names[s], err)
	}
	return nil
}

// count adds to the sums of a queue.
func (tx *transaction) count(ch *change, messages, bytes int64) {
	ch.sumsChanged = true
	ch.sums.messages += messages
	ch.sums.bytes += bytes
	if !ch.state.purging {
		tx.bytes += bytes
	}
}

// countDeadLetters adds to the sums of the dead letters.
func (tx *transaction) countDeadLetters(ch *change, letters, bytes int64) {
	ch.sumsChanged = true
	ch.sums.dead += letters
	ch.sums.deadBytes += bytes
	if !ch.state.purging {
		tx.bytes += bytes
	}
}

// saveAll stores what is left to store of all queues.
func (tx *transaction) saveAll() error {
	for _, ch := range tx.order {
		if err := tx.save(ch); err != nil {
			return err
		}
	}
	return nil
}

// save stores the removals from blocks and the sums of a queue.
func (tx *transaction) save(ch *change) error {
	blocks := slices.SortedFunc(maps.Values(ch.blocks), func(a, b *blockChange) int { return cmp.Compare(a.first, b.first) })
	for len(blocks) > 0 {
		n := emptyRun(blocks)
		if n > 0 {
			if err := tx.deleteRun(ch.state, blocks[:n]); err != nil {
				return err
			}
		} else if n = 1; blocks[0].changed {
			if err := tx.saveRemoved(ch.state, blocks[0]); err != nil {
				return err
			}
		}
		blocks = blocks[n:]
	}
	if ch.recount {
		if err := tx.recount(ch); err != nil {
			return err
		}
	}
	if t := &ch.sums; ch.sumsChanged && !ch.state.purging {
		if tx.reserves && t.next+reservation/2 > ch.reserved {
			ch.reserved = t.next + reservation
		}
		return tx.exec(setQueue, t.messages, t.bytes, int64(max(t.next, ch.reserved)), t.dead, t.deadBytes, ch.state.queue)
	}
	return nil
}

// recount sums up what is stored of a queue.
func (tx *transaction) recount(ch *change) error {
	var messages, bytes int64
	queue := ch.state.queue
	err := tx.query(sumQueue, 2, func(v []driver.Value) error {
		messages, bytes = v[0].(int64), v[1].(int64)
		return nil
	}, rowID(queue, 0), rowID(queue+1, 0))
	tx.count(ch, messages-ch.sums.messages, bytes-ch.sums.bytes)
	return err
}

// emptyRun returns how many of the first blocks are empty and adjacent.
func emptyRun(blocks []*blockChange) (n int) {
	for n < len(blocks) && blocks[n].empty() && (n == 0 || blocks[n-1].end() == blocks[n].first) {
		n++
	}
	return n
}

func (tx *transaction) deleteRun(j *queueState, blocks []*blockChange) error {
	first, last := rowID(j.queue, blocks[0].first), rowID(j.queue, blocks[len(blocks)-1].first)
	if slices.ContainsFunc(blocks, func(c *blockChange) bool { return c.hasRemovedRow }) {
		if err := tx.exec(deleteRemoved, first, last); err != nil {
			return err
		}
	}
	return tx.exec(deleteBlocks, first, last)
}

func (tx *transaction) saveRemoved(j *queueState, c *blockChange) error {
	return tx.exec(setRemoved, rowID(j.queue, c.first), c.removed.count, c.removed.bytes, c.removed.bitmap)
}

// apply applies a committed transaction.
func (c *committer) apply(tx *transaction) {
	c.queues.bytes = tx.bytes
	c.queues.stored.Store(tx.bytes)
	for _, ch := range tx.order {
		ch.applyBlocks()
		ch.state.apply(ch)
		c.queues.early.Add(-ch.early.bytes)
	}
	for _, d := range tx.damaged {
		c.log.Error("messages of a bridge are damaged and were deleted", slog.Int64("queue", d.row>>idBits),
			slog.Uint64("entry", entryID(d.row)), slog.Int64("messages", d.messages), slog.Any("error", d.cause))
	}
	c.logDropped(tx)
}

// logDropped logs dropped messages at a limited rate.
func (c *committer) logDropped(tx *transaction) {
	var n int64
	for _, ch := range tx.order {
		n += ch.dropped
	}
	if n := c.dropped.Add(n, c.now); n > 0 {
		c.log.Warn("messages of bridges were dropped because queues are full", slog.Int64("messages", n), slog.Int64("max_bytes", c.options.MaxBytes))
	}
}

// applyBlocks updates the block cache.
func (ch *change) applyBlocks() {
	j := ch.state
	for _, c := range ch.blocks {
		if c.changed && !c.empty() {
			c.block.removed, c.hasRemovedRow = c.removed, true
		}
	}
	j.front = max(j.front, ch.front, 1)
	j.blocks = slices.DeleteFunc(j.blocks, func(b *block) bool {
		c := ch.blocks[b.first]
		if c == nil || !c.empty() {
			return false
		}
		if b.holds(j.front) {
			j.front = b.end()
		}
		return true
	})
	for _, b := range ch.stored {
		j.blocks.cache(b)
	}
}

// apply makes the committed change visible to readers.
func (j *queueState) apply(ch *change) {
	j.dropped.Add(ch.dropped)
	j.lostDeadLetters.Add(ch.lostDeadLetters)
	j.mu.Lock()
	defer j.mu.Unlock()
	from := j.sums.next
	j.sums, j.reserved, j.next = ch.sums, ch.reserved, max(j.next, ch.sums.next)
	j.early.messages -= ch.early.messages
	j.early.bytes -= ch.early.bytes
	j.late -= ch.late
	if ch.allRemoved {
		j.takenRemovals = nil
	}
	for _, id := range ch.removed {
		j.window.remove(id)
		if j.removedDuringFill != nil {
			j.removedDuringFill[id] = struct{}{}
		}
	}
	unknown := len(ch.entries) > 0 && j.window.to < ch.sums.next // some were not early
	j.extendWindow(ch, from)
	if ch.sums.messages == 0 {
		if j.window.to <= ch.sums.next { // it has no early entries
			j.window.reset(ch.sums.next)
		}
		j.window.from = 1
	}
	if unknown {
		j.notify()
	}
}

// extendWindow adds stored entries that it does not have to the window, if it reaches to what was
// stored, from an ID on, and has space.
func (j *queueState) extendWindow(ch *change, from uint64) {
	w := &j.window
	if w.to < from {
		return
	}
	for _, e := range ch.entries {
		if e.ID < w.to { // it was early
			continue
		}
		if !w.fits(cost(e)) {
			return
		}
		w.append(e)
		w.to = e.ID + 1
	}
	w.to = max(w.to, ch.sums.next)
}
