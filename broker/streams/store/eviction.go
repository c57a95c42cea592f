package store

import (
	"database/sql/driver"
	"fmt"
	"math"
)

// A transaction deletes about stepBytes in addition to what it writes, so that
// messages do not wait long for their commit. A block counts blockOverhead more
// than its bytes.
const (
	stepBytes     = 16 << 20
	blockOverhead = 1 << 10
	listLimit     = 256 // blocks that are listed at once
)

// limitReached reports whether the transaction has deleted enough.
func (tx *transaction) limitReached() bool { return tx.work >= tx.workLimit }

// list returns at most limit blocks with ids in [from, to).
func (tx *transaction) list(from, to int64, limit int) (blocks []block, err error) {
	row := make([]driver.Value, 5)
	err = tx.Query(int(listBlocks), row, func() error {
		blocks = append(blocks, blockOf(row))
		return nil
	}, from, to, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", statementNames[listBlocks], err)
	}
	return blocks, nil
}

// blockOf converts the first columns of a row.
func blockOf(row []driver.Value) block {
	return block{row[0].(int64), row[1].(int64), row[2].(int64), row[3].(int64), row[4].(int64)}
}

// deleteOldest deletes blocks of a log, the oldest first, while old returns
// true and the limit is not reached. It returns the number of deleted messages.
func (tx *transaction) deleteOldest(ch *change, old func(block) bool) (messages int64, err error) {
	for t := &ch.totals; t.oldest.count > 0 && old(t.oldest) && !tx.limitReached(); {
		blocks, err := tx.list(t.oldest.id, blockID(ch.stored.stream, t.next), listLimit)
		if err != nil {
			return messages, err
		}
		n := 0
		for n < len(blocks) && old(blocks[n]) && !tx.limitReached() {
			messages += blocks[n].count
			tx.subtract(ch, blocks[n])
			n++
		}
		if n == 0 { // the file contradicts the totals
			return messages, tx.findOldest(ch, t.oldest.id)
		}
		if err := tx.remove(ch, blocks[:n]); err != nil {
			return messages, err
		}
	}
	return messages, nil
}

// subtract removes a deleted block from the totals and counts the work.
func (tx *transaction) subtract(ch *change, b block) {
	tx.count(ch, b, -1)
	tx.work += b.bytes + blockOverhead
}

// remove deletes adjacent blocks.
func (tx *transaction) remove(ch *change, blocks []block) error {
	if len(blocks) == 0 {
		return nil
	}
	first, last := blocks[0].id, blocks[len(blocks)-1].id
	if err := tx.exec(deleteBlocks, first, last); err != nil {
		return err
	}
	return tx.findOldest(ch, first)
}

// findOldest updates the oldest block after a change to one that may have been
// it.
func (tx *transaction) findOldest(ch *change, changed int64) error {
	if changed > ch.totals.oldest.id {
		return nil
	}
	blocks, err := tx.list(changed, blockID(ch.stored.stream, ch.totals.next), 1)
	if err != nil {
		return err
	}
	ch.totals.oldest = block{}
	if len(blocks) > 0 {
		ch.totals.oldest = blocks[0]
	}
	return nil
}

// expire deletes the blocks of a log whose messages are all older than a time.
func (tx *transaction) expire(sl *storedLog, before int64) error {
	ch := tx.change(sl)
	n, err := tx.deleteOldest(ch, func(b block) bool { return b.lastAt < before })
	ch.expired += n
	return err
}

// purge deletes blocks of a log whose stream was deleted, and after the last
// one the state and the row of the log.
func (tx *transaction) purge(sl *storedLog) error {
	ch := tx.change(sl)
	if _, err := tx.deleteOldest(ch, func(block) bool { return true }); err != nil || ch.totals.oldest.count > 0 {
		return err
	}
	if err := tx.exec(deleteState, sl.stream); err != nil {
		return err
	}
	tx.purged = append(tx.purged, sl)
	return tx.exec(deleteLog, sl.stream)
}

// evict deletes the oldest blocks of the given logs until each is within the
// budget of a stream, and then the oldest of all logs until the total budget
// holds. It keeps the newest block.
func (tx *transaction) evict(b *storedLogs, o Options, overBudget []*storedLog) error {
	for _, sl := range overBudget {
		ch := tx.change(sl)
		if err := tx.evictFrom(ch, func(b block) bool { return o.overStreamBudget(ch.totals, b) }); err != nil {
			return err
		}
	}
	for o.MaxBytes > 0 && tx.bytes > o.MaxBytes && !tx.limitReached() {
		sl, next := tx.oldestLog(b)
		if sl == nil || tx.totals(sl).oldest.bytes == tx.bytes {
			return nil
		}
		if err := tx.evictFrom(tx.change(sl), func(b block) bool {
			return tx.bytes > o.MaxBytes && b.bytes < tx.bytes && b.lastAt <= next
		}); err != nil {
			return err
		}
	}
	return nil
}

func (tx *transaction) evictFrom(ch *change, old func(block) bool) error {
	n, err := tx.deleteOldest(ch, old)
	ch.evicted += n
	tx.evicted += n
	return err
}

// oldestLog returns the log with the oldest block, and the time of the oldest
// block of all others.
func (tx *transaction) oldestLog(b *storedLogs) (sl *storedLog, next int64) {
	first := int64(math.MaxInt64)
	next = math.MaxInt64
	for candidate := range b.all() {
		front := tx.totals(candidate).oldest
		if front.count == 0 || candidate.purging {
			continue
		}
		at := front.lastAt
		if sl == nil || at < first {
			sl, first, next = candidate, at, first
		} else {
			next = min(next, at)
		}
	}
	return sl, next
}
