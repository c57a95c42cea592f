package store

import (
	"database/sql/driver"
	"fmt"
	"math"
)

// A transaction deletes about portion bytes at most beside what it writes, so
// that what is handed over meanwhile does not wait for long. A block counts for
// blockWork more than it has.
const (
	portion   = 16 << 20
	blockWork = 1 << 10
	listRows  = 256 // blocks that are looked at together
)

// spent tells whether enough was deleted.
func (tx *transaction) spent() bool { return tx.work >= tx.allowance }

// list gives some of the blocks at an id or behind it and before another.
func (tx *transaction) list(from, to int64, limit int) (blocks []block, err error) {
	row := make([]driver.Value, 5)
	err = tx.conn.Query(int(listBlocks), row, func() error {
		blocks = append(blocks, blockOf(row))
		return nil
	}, from, to, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names[listBlocks], err)
	}
	return blocks, nil
}

// blockOf reads the first columns of a row.
func blockOf(row []driver.Value) block {
	return block{row[0].(int64), row[1].(int64), row[2].(int64), row[3].(int64), row[4].(int64)}
}

// shed deletes blocks of a journal, the oldest first, while old answers true and
// not too much was deleted. It gives how many messages went.
func (tx *transaction) shed(ch *change, old func(block) bool) (messages int64, err error) {
	for t := &ch.tally; t.front.count > 0 && old(t.front) && !tx.spent(); {
		blocks, err := tx.list(t.front.id, blockID(ch.journal.stream, t.next), listRows)
		if err != nil {
			return messages, err
		}
		n := 0
		for n < len(blocks) && old(blocks[n]) && !tx.spent() {
			messages += blocks[n].count
			tx.take(ch, blocks[n])
			n++
		}
		if n == 0 { // only where the file holds something else than is known
			return messages, tx.face(ch, t.front.id)
		}
		if err := tx.remove(ch, blocks[:n]); err != nil {
			return messages, err
		}
	}
	return messages, nil
}

// take leaves a block that is deleted out of the sums.
func (tx *transaction) take(ch *change, b block) {
	tx.count(ch, b, -1)
	tx.work += b.bytes + blockWork
}

// remove deletes blocks between which there is no other.
func (tx *transaction) remove(ch *change, blocks []block) error {
	if len(blocks) == 0 {
		return nil
	}
	first, last := blocks[0].id, blocks[len(blocks)-1].id
	if err := tx.exec(deleteBlocks, first, last); err != nil {
		return err
	}
	return tx.face(ch, first)
}

// face finds the oldest block anew after one that may have been it has changed.
func (tx *transaction) face(ch *change, changed int64) error {
	if changed > ch.tally.front.id {
		return nil
	}
	blocks, err := tx.list(changed, blockID(ch.journal.stream, ch.tally.next), 1)
	if err != nil {
		return err
	}
	ch.tally.front = block{}
	if len(blocks) > 0 {
		ch.tally.front = blocks[0]
	}
	return nil
}

// expire deletes the blocks of a journal whose messages all came before a time.
func (tx *transaction) expire(j *journal, before int64) error {
	ch := tx.change(j)
	n, err := tx.shed(ch, func(b block) bool { return b.lastAt < before })
	ch.expired += n
	return err
}

// purge deletes some of the blocks of a journal whose stream is deleted, and
// with the last ones what there is beside them.
func (tx *transaction) purge(j *journal) error {
	ch := tx.change(j)
	if _, err := tx.shed(ch, func(block) bool { return true }); err != nil || ch.tally.front.count > 0 {
		return err
	}
	if err := tx.exec(deleteState, j.stream); err != nil {
		return err
	}
	tx.dropped = append(tx.dropped, j)
	return tx.exec(deleteLog, j.stream)
}

// evict deletes the oldest blocks of some journals until each is within the
// budget of a stream, and then those of all, until that is kept. The newest block
// stays.
func (tx *transaction) evict(b *books, o Options, wide []*journal) error {
	for _, j := range wide {
		ch := tx.change(j)
		if err := tx.evictFrom(ch, func(b block) bool { return o.beyond(ch.tally, b) }); err != nil {
			return err
		}
	}
	for o.MaxBytes > 0 && tx.bytes > o.MaxBytes && !tx.spent() {
		j, next := tx.oldest(b)
		if j == nil || tx.tally(j).front.bytes == tx.bytes {
			return nil
		}
		if err := tx.evictFrom(tx.change(j), func(b block) bool {
			return tx.bytes > o.MaxBytes && b.bytes < tx.bytes && b.lastAt <= next
		}); err != nil {
			return err
		}
	}
	return nil
}

func (tx *transaction) evictFrom(ch *change, old func(block) bool) error {
	n, err := tx.shed(ch, old)
	ch.evicted += n
	tx.let += n
	return err
}

// oldest gives the journal with the oldest block, and when the next one of
// another journal ends.
func (tx *transaction) oldest(b *books) (j *journal, next int64) {
	first := int64(math.MaxInt64)
	next = math.MaxInt64
	for candidate := range b.all() {
		front := tx.tally(candidate).front
		if front.count == 0 || candidate.purging {
			continue
		}
		at := front.lastAt
		if j == nil || at < first {
			j, first, next = candidate, at, first
		} else {
			next = min(next, at)
		}
	}
	return j, next
}
