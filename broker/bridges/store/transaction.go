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
	conn    *storage.Conn
	bytes   int64 // of all queues that are not deleted
	max     int64 // bound of bytes; 0 for none
	changes map[*journal]*change
	order   []*change // of changes
	encoder encoder
	damaged []damage
}

// damage is an unreadable row.
type damage struct {
	row, messages int64
	cause         error
}

// change is what a transaction changes in a journal.
type change struct {
	journal *journal
	bounds  bridges.Bounds
	tally   tally
	touched bool // the tally has changed

	front   uint64          // nothing is left before it; 0 if unknown
	cuts    map[uint64]*cut // by the first ID of their blocks
	removed []uint64        // removed entries
	items   []item          // to be put
	stored  []*block        // new blocks
	entries []*bridges.Entry

	reaped        bool // includes all removals of the journal
	recount       bool // the sums may differ from the file
	dropped, lost int64
}

// transact runs write as one transaction and then applies its changes to the journals.
func (c *committer) transact(write func(*transaction) error) error {
	tx := &transaction{conn: c.conn, bytes: c.books.bytes, max: c.options.MaxBytes, changes: map[*journal]*change{}, encoder: c.encoder}
	err := c.conn.Transact(context.Background(), func() error {
		if err := write(tx); err != nil {
			return err
		}
		for _, ch := range tx.order {
			if err := tx.save(ch); err != nil {
				return err
			}
		}
		return nil
	})
	c.encoder = tx.encoder
	if err == nil {
		c.apply(tx)
	}
	return err
}

// change returns the transaction's change of a journal.
func (tx *transaction) change(j *journal) *change {
	ch := tx.changes[j]
	if ch == nil {
		t, b := j.look()
		ch = &change{journal: j, bounds: b, tally: t, cuts: map[uint64]*cut{}}
		tx.changes[j] = ch
		tx.order = append(tx.order, ch)
	}
	return ch
}

// exec executes a statement. Its error names only the statement, because the values belong to
// users.
func (tx *transaction) exec(s statement, values ...driver.Value) error {
	if err := tx.conn.Exec(int(s), values...); err != nil {
		return fmt.Errorf("%s: %w", names[s], err)
	}
	return nil
}

// query executes a statement that returns rows with that many columns.
func (tx *transaction) query(s statement, columns int, row func([]driver.Value) error, values ...driver.Value) error {
	places := make([]driver.Value, columns)
	err := tx.conn.Query(int(s), places, func() error { return row(places) }, values...)
	if err != nil {
		return fmt.Errorf("%s: %w", names[s], err)
	}
	return nil
}

// count adds to the sums of a queue.
func (tx *transaction) count(ch *change, messages, bytes int64) {
	ch.touched = true
	ch.tally.messages += messages
	ch.tally.bytes += bytes
	if !ch.journal.buried {
		tx.bytes += bytes
	}
}

// countDead adds to the sums of the dead letters.
func (tx *transaction) countDead(ch *change, letters, bytes int64) {
	ch.touched = true
	ch.tally.dead += letters
	ch.tally.deadBytes += bytes
	if !ch.journal.buried {
		tx.bytes += bytes
	}
}

// save stores the removals from blocks and the sums of a queue.
func (tx *transaction) save(ch *change) error {
	cuts := slices.SortedFunc(maps.Values(ch.cuts), func(a, b *cut) int { return cmp.Compare(a.first, b.first) })
	for len(cuts) > 0 {
		n := run(cuts)
		if n > 0 {
			if err := tx.deleteRun(ch.journal, cuts[:n]); err != nil {
				return err
			}
		} else if n = 1; cuts[0].changed {
			if err := tx.mark(ch.journal, cuts[0]); err != nil {
				return err
			}
		}
		cuts = cuts[n:]
	}
	if ch.recount {
		if err := tx.recount(ch); err != nil {
			return err
		}
	}
	if t := &ch.tally; ch.touched && !ch.journal.buried {
		return tx.exec(setQueue, t.messages, t.bytes, int64(t.next), t.dead, t.deadBytes, ch.journal.queue)
	}
	return nil
}

// recount sums up what is stored of a queue.
func (tx *transaction) recount(ch *change) error {
	var messages, bytes int64
	queue := ch.journal.queue
	err := tx.query(sumQueue, 2, func(v []driver.Value) error {
		messages, bytes = v[0].(int64), v[1].(int64)
		return nil
	}, rowID(queue, 0), rowID(queue+1, 0))
	tx.count(ch, messages-ch.tally.messages, bytes-ch.tally.bytes)
	return err
}

// run returns how many of the first blocks are empty and adjacent.
func run(cuts []*cut) (n int) {
	for n < len(cuts) && cuts[n].empty() && (n == 0 || cuts[n-1].end() == cuts[n].first) {
		n++
	}
	return n
}

func (tx *transaction) deleteRun(j *journal, cuts []*cut) error {
	first, last := rowID(j.queue, cuts[0].first), rowID(j.queue, cuts[len(cuts)-1].first)
	if slices.ContainsFunc(cuts, func(c *cut) bool { return c.marked }) {
		if err := tx.exec(deleteRemoved, first, last); err != nil {
			return err
		}
	}
	return tx.exec(deleteBlocks, first, last)
}

func (tx *transaction) mark(j *journal, c *cut) error {
	return tx.exec(setRemoved, rowID(j.queue, c.first), c.gone.count, c.gone.bytes, c.gone.which)
}

// apply applies a committed transaction.
func (c *committer) apply(tx *transaction) {
	c.books.bytes = tx.bytes
	for _, ch := range tx.order {
		ch.settleBlocks()
		ch.journal.apply(ch)
	}
	for _, d := range tx.damaged {
		c.log.Error("messages of a bridge are damaged and were deleted", slog.Int64("queue", d.row>>idBits),
			slog.Uint64("entry", entryID(d.row)), slog.Int64("messages", d.messages), slog.Any("err", d.cause))
	}
	c.logDropped(tx)
}

// settleBlocks updates the block cache.
func (ch *change) settleBlocks() {
	j := ch.journal
	for _, c := range ch.cuts {
		if c.changed && !c.empty() {
			c.block.gone, c.marked = c.gone, true
		}
	}
	j.front = max(j.front, ch.front, 1)
	j.blocks = slices.DeleteFunc(j.blocks, func(b *block) bool {
		c := ch.cuts[b.first]
		if c == nil || !c.empty() {
			return false
		}
		if b.holds(j.front) {
			j.front = b.end()
		}
		return true
	})
	for _, b := range ch.stored {
		j.blocks.learn(b)
	}
}

// apply makes the committed change visible to readers.
func (j *journal) apply(ch *change) {
	j.dropped.Add(ch.dropped)
	j.lost.Add(ch.lost)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tally = ch.tally
	if ch.reaped {
		j.removed = nil
	}
	for _, id := range ch.removed {
		j.window.remove(id)
		if j.watch != nil {
			j.watch[id] = struct{}{}
		}
	}
	j.extend(ch)
	if ch.tally.messages == 0 {
		j.window.restart(ch.tally.next)
		j.window.from = 1
	}
	if len(ch.entries) > 0 {
		j.ring()
	}
}

// extend adds stored entries to the window if it reaches to them and has space.
func (j *journal) extend(ch *change) {
	w := &j.window
	if len(ch.entries) == 0 || w.to != ch.entries[0].ID {
		return
	}
	for _, e := range ch.entries {
		if !w.takes(cost(e)) {
			return
		}
		w.grow(e)
		w.to = e.ID + 1
	}
}
