package store

import (
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"

	"signalbox/broker/storage"
)

// transaction writes to the journals. It works on copies of their tallies, so
// there is nothing to be undone in memory where it fails.
type transaction struct {
	conn    *storage.Conn
	bytes   int64 // of all journals that are not gone
	changes map[*journal]*change
	order   []*change // of changes
	body    []byte    // of the block that is being filled, from one transaction to the next

	work, allowance int64      // what was deleted, in bytes and so many for each block, and how much may be
	dropped         []*journal // nothing is left of them
	let             int64      // messages let go of to keep within a budget
	damaged         []damage   // blocks that were deleted for it
}

// damage is why a block cannot be read.
type damage struct {
	block
	cause error
}

// change is what a transaction makes of a journal.
type change struct {
	journal          *journal
	tally            tally
	evicted, expired int64 // messages
	touched          bool
	entries          []*entry
}

// transact runs write as one transaction and takes over into the journals what
// it has changed.
func (c *committer) transact(write func(*transaction) error) error {
	tx := &transaction{conn: c.conn, bytes: c.books.bytes, changes: map[*journal]*change{}, body: c.body, allowance: portion}
	err := c.conn.Transact(context.Background(), func() error {
		if err := write(tx); err != nil {
			return err
		}
		return tx.saveTallies()
	})
	c.body = tx.body
	if err == nil {
		c.apply(tx)
	}
	return err
}

// apply takes over what was committed.
func (c *committer) apply(tx *transaction) {
	c.books.bytes = tx.bytes
	for _, ch := range tx.order {
		ch.journal.note(ch.tally)
		ch.journal.expired.Add(ch.expired)
		ch.journal.evicted.Add(ch.evicted)
	}
	for _, j := range tx.dropped {
		c.books.drop(j)
	}
	for _, d := range tx.damaged {
		c.log.Error("messages of a stream are damaged and were deleted", slog.Int64("stream", d.id>>sequenceBits),
			slog.Int64("block", sequence(d.id)), slog.Int64("messages", d.count), slog.Any("err", d.cause))
	}
	c.logEvicted(tx.let)
}

// change gives what the transaction makes of a journal.
func (tx *transaction) change(j *journal) *change {
	ch := tx.changes[j]
	if ch == nil {
		ch = &change{journal: j, tally: j.tally}
		tx.changes[j] = ch
		tx.order = append(tx.order, ch)
	}
	return ch
}

// journals gives those that the transaction has to do with.
func (tx *transaction) journals() (all []*journal) {
	for _, ch := range tx.order {
		all = append(all, ch.journal)
	}
	return all
}

// tally gives what a journal has within the transaction.
func (tx *transaction) tally(j *journal) tally {
	if ch := tx.changes[j]; ch != nil {
		return ch.tally
	}
	return j.tally
}

// exec runs a statement. Of what it failed at, only the statement is told: the
// values are users'.
func (tx *transaction) exec(s statement, values ...driver.Value) error {
	if err := tx.conn.Exec(int(s), values...); err != nil {
		return fmt.Errorf("%s: %w", names[s], err)
	}
	return nil
}

// names are what the statements are called in errors.
var names = [statements]string{
	putBlock: "put a block", setBlock: "change a block", deleteBlocks: "delete blocks", listBlocks: "list blocks", readBlock: "read a block",
	setLog: "change a log", deleteLog: "delete a log", putState: "put a state", deleteState: "delete a state",
	fill: "fill", drain: "drain",
}

// write stores entries in blocks, journal by journal.
func (tx *transaction) write(group []*entry, l limits) error {
	for _, e := range group {
		if e.holds() {
			ch := tx.change(e.journal)
			ch.entries = append(ch.entries, e)
		}
	}
	for _, ch := range tx.order {
		if err := tx.writeJournal(ch, l); err != nil {
			return err
		}
	}
	return nil
}

func (tx *transaction) writeJournal(ch *change, l limits) error {
	var state []byte
	filling := filling{tx: tx, change: ch, limits: l}
	_, filling.ttl = ch.journal.look()
	for _, e := range ch.entries {
		for i := range e.runs {
			if err := filling.add(&e.runs[i]); err != nil {
				return err
			}
		}
		if e.state != nil {
			state = e.state
		}
	}
	if err := filling.flush(); err != nil || state == nil {
		return err
	}
	return tx.exec(putState, ch.journal.stream, state)
}

// filling puts runs together to blocks.
type filling struct {
	tx     *transaction
	change *change
	limits limits
	ttl    int64
	block  block // without number; none where count is 0
}

func (f *filling) add(r *run) error {
	b := &f.block
	full := b.count+int64(r.count) > int64(f.limits.messages) || len(f.tx.body)+len(r.data) > f.limits.bytes
	if b.count > 0 && (full || spreads(b.firstAt, r.lastAt, f.ttl)) {
		if err := f.flush(); err != nil {
			return err
		}
	}
	if b.count == 0 {
		b.firstAt = r.firstAt
		f.tx.body = append(f.tx.body[:0], make([]byte, storage.BlockHeader)...)
	}
	b.lastAt = r.lastAt
	b.count += int64(r.count)
	f.tx.body = append(f.tx.body, r.data...)
	return nil
}

// flush stores the block, if there is something in it.
func (f *filling) flush() error {
	b := f.block
	if b.count == 0 {
		return nil
	}
	b.id, b.bytes = blockID(f.change.journal.stream, f.change.tally.next), int64(len(f.tx.body))
	f.block = block{}
	f.change.tally.next++
	f.change.tally.lastAt = b.lastAt
	f.tx.count(f.change, b, 1)
	return f.tx.exec(putBlock, b.id, b.firstAt, b.lastAt, b.count, b.bytes, storage.SealBlock(f.tx.body))
}

// count adds a block to the sums, or with -1 takes it away. The front is set only
// where there was none.
func (tx *transaction) count(ch *change, b block, times int64) {
	ch.touched = true
	t := &ch.tally
	if t.front.count == 0 {
		t.front = b
	}
	t.messages += times * b.count
	t.bytes += times * b.bytes
	if !ch.journal.purging {
		tx.bytes += times * b.bytes
	}
}

// saveTallies stores the sums of the journals that have changed.
func (tx *transaction) saveTallies() error {
	for _, ch := range tx.order {
		if t := &ch.tally; ch.touched {
			if err := tx.exec(setLog, t.messages, t.bytes, t.next, t.lastAt, ch.journal.stream); err != nil {
				return err
			}
		}
	}
	return nil
}
