package store

import (
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"

	"signalbox/broker/storage"
)

// transaction writes to the logs. It works on copies of their totals, so that a
// failure leaves nothing to undo in memory.
type transaction struct {
	storage.Tx
	bytes   int64 // of all logs that are not being purged
	byLog   map[*storedLog]*change
	changes []*change // in the order in which they began
	body    []byte    // of the current block; reused by the next transaction

	work, workLimit int64        // deleted bytes plus blockOverhead per block, and their limit
	purged          []*storedLog // nothing is left of them
	evicted         int64        // messages, to keep within a budget
	damaged         []damage     // blocks that were deleted because they are damaged
}

// damage is a block that cannot be read, and why.
type damage struct {
	block
	cause error
}

// change is the effect of a transaction on a log.
type change struct {
	stored           *storedLog
	totals           totals
	evicted, expired int64 // messages
	touched          bool
	entries          []*entry
}

// begin begins the changes of a transaction.
func (c *committer) begin(t storage.Tx) *transaction {
	c.tooMuch = false
	c.tx = &transaction{Tx: t, bytes: c.logs.bytes, byLog: map[*storedLog]*change{}, body: c.body, workLimit: stepBytes}
	return c.tx
}

// inTransaction runs a transaction between two groups.
func (c *committer) inTransaction(write func(*transaction) error) error {
	return c.commits.Transact(context.Background(), func(t storage.Tx) error {
		tx := c.begin(t)
		if err := write(tx); err != nil {
			return err
		}
		return tx.saveTotals()
	})
}

// after updates the logs in memory after a transaction that was committed.
func (c *committer) after(committed bool) {
	tx := c.tx
	if tx == nil { // it did not begin
		return
	}
	c.tx, c.body = nil, tx.body
	if !committed {
		return
	}
	c.apply(tx)
	if c.tooMuch {
		c.startSweep()
	}
}

// apply updates the logs in memory.
func (c *committer) apply(tx *transaction) {
	c.logs.bytes = tx.bytes
	for _, ch := range tx.changes {
		ch.stored.setTotals(ch.totals)
		ch.stored.expired.Add(ch.expired)
		ch.stored.evicted.Add(ch.evicted)
	}
	for _, sl := range tx.purged {
		c.logs.drop(sl)
	}
	for _, d := range tx.damaged {
		c.log.Error("messages of a stream are damaged and were deleted", slog.Int64("stream", d.id>>sequenceBits),
			slog.Int64("block", sequence(d.id)), slog.Int64("messages", d.count), slog.Any("error", d.cause))
	}
	c.logEvicted(tx.evicted)
}

// change returns the change of a log, which it begins if necessary.
func (tx *transaction) change(sl *storedLog) *change {
	ch := tx.byLog[sl]
	if ch == nil {
		ch = &change{stored: sl, totals: sl.totals}
		tx.byLog[sl] = ch
		tx.changes = append(tx.changes, ch)
	}
	return ch
}

// logs returns the logs that the transaction changes.
func (tx *transaction) logs() (all []*storedLog) {
	for _, ch := range tx.changes {
		all = append(all, ch.stored)
	}
	return all
}

// totals returns the totals of a log within the transaction.
func (tx *transaction) totals(sl *storedLog) totals {
	if ch := tx.byLog[sl]; ch != nil {
		return ch.totals
	}
	return sl.totals
}

// exec runs a statement. The error has the name of the statement but not the
// values, which belong to users.
func (tx *transaction) exec(s statement, values ...driver.Value) error {
	if err := tx.Exec(int(s), values...); err != nil {
		return fmt.Errorf("%s: %w", statementNames[s], err)
	}
	return nil
}

// statementNames are the names of statements in errors.
var statementNames = [statements]string{
	putBlock: "put a block", setBlock: "change a block", deleteBlocks: "delete blocks", listBlocks: "list blocks", readBlock: "read a block",
	setLog: "change a log", deleteLog: "delete a log", putState: "put a state", deleteState: "delete a state",
	probeInsert: "insert a probe", probeDelete: "delete a probe",
}

// write stores entries in blocks, log by log.
func (tx *transaction) write(group []*entry, l limits) error {
	for _, e := range group {
		if e.hasContent() {
			ch := tx.change(e.stored)
			ch.entries = append(ch.entries, e)
		}
	}
	for _, ch := range tx.changes {
		if err := tx.writeLog(ch, l); err != nil {
			return err
		}
	}
	return nil
}

func (tx *transaction) writeLog(ch *change, l limits) error {
	var state []byte
	w := blockWriter{tx: tx, change: ch, limits: l}
	_, w.ttl = ch.stored.read()
	for _, e := range ch.entries {
		for i := range e.runs {
			if err := w.add(&e.runs[i]); err != nil {
				return err
			}
		}
		if e.state != nil {
			state = e.state
		}
	}
	if err := w.flush(); err != nil || state == nil {
		return err
	}
	return tx.exec(putState, ch.stored.stream, state)
}

// blockWriter combines runs to blocks.
type blockWriter struct {
	tx     *transaction
	change *change
	limits limits
	ttl    int64
	block  block // without id; empty if count is 0
}

func (w *blockWriter) add(r *run) error {
	b := &w.block
	full := b.count+int64(r.count) > int64(w.limits.messages) || len(w.tx.body)+len(r.data) > w.limits.bytes
	if b.count > 0 && (full || tooFarApart(b.firstAt, r.lastAt, w.ttl)) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if b.count == 0 {
		b.firstAt = r.firstAt
		w.tx.body = append(w.tx.body[:0], make([]byte, storage.BlockHeader)...)
	}
	b.lastAt = r.lastAt
	b.count += int64(r.count)
	w.tx.body = append(w.tx.body, r.data...)
	return nil
}

// flush stores the block unless it is empty.
func (w *blockWriter) flush() error {
	b := w.block
	if b.count == 0 {
		return nil
	}
	b.id, b.bytes = blockID(w.change.stored.stream, w.change.totals.next), int64(len(w.tx.body))
	w.block = block{}
	w.change.totals.next++
	w.change.totals.lastAt = b.lastAt
	w.tx.count(w.change, b, 1)
	return w.tx.exec(putBlock, b.id, b.firstAt, b.lastAt, b.count, b.bytes, storage.SealBlock(w.tx.body))
}

// count adds a block to the totals, or subtracts it if times is -1. It sets the
// oldest block only if there was none.
func (tx *transaction) count(ch *change, b block, times int64) {
	ch.touched = true
	t := &ch.totals
	if t.oldest.count == 0 {
		t.oldest = b
	}
	t.messages += times * b.count
	t.bytes += times * b.bytes
	if !ch.stored.purging {
		tx.bytes += times * b.bytes
	}
}

// saveTotals stores the totals of the logs that have changed.
func (tx *transaction) saveTotals() error {
	for _, ch := range tx.changes {
		if t := &ch.totals; ch.touched {
			if err := tx.exec(setLog, t.messages, t.bytes, t.next, t.lastAt, ch.stored.stream); err != nil {
				return err
			}
		}
	}
	return nil
}
