package store

import (
	"database/sql/driver"
	"errors"

	"signalbox/broker/bridges"
)

// maxReason is the maximum length of a stored reason in bytes.
const maxReason = 1000

// reject makes dead letters from entries. Entries that were removed are ignored.
func (tx *transaction) reject(ch *change, list []bridges.Rejection) error {
	why, ids := map[uint64]bridges.Rejection{}, []uint64(nil)
	for _, r := range list {
		why[r.ID], ids = r, append(ids, r.ID)
	}
	var first uint64
	var records []record
	err := tx.eachEntry(ch, ids, func(c *blockChange, id uint64) (err error) {
		if c.removed.has(int(id - c.first)) {
			return nil
		}
		if c.first != first {
			if records, err = tx.readBlock(ch, c); err != nil {
				return err
			}
			first = c.first
		}
		if records == nil { // the block was deleted, or is damaged
			return nil
		}
		tx.removeEntry(ch, c, id)
		return tx.putDeadLetter(ch, records[id-c.first], why[id])
	})
	if err != nil {
		return err
	}
	return tx.trimDeadLetters(ch)
}

// readBlock reads a block.
func (tx *transaction) readBlock(ch *change, c *blockChange) ([]record, error) {
	rows, err := tx.list(ch.state, c.first, 1)
	if err != nil || len(rows) == 0 || entryID(rows[0].id) != c.first {
		return nil, err
	}
	records, err := decode(rows[0].entries, rows[0].count, tx.encoder.offset)
	if err != nil {
		tx.deleteDamaged(ch, rows[0], err)
		return nil, nil
	}
	return records, nil
}

// putDeadLetter stores a dead letter, unless the bound is 0.
func (tx *transaction) putDeadLetter(ch *change, r record, why bridges.Rejection) error {
	if ch.bounds.DeadLetters <= 0 {
		ch.lostDeadLetters++
		return nil
	}
	if r.origin == 0 {
		r.origin = why.ID
	}
	reason := joinResponse(why.Reason, why.Response)
	size := int64(r.Size() + len(reason))
	tx.encoder.reset()
	tx.encoder.add(r)
	tx.countDeadLetters(ch, 1, size)
	return tx.exec(putDead, rowID(ch.state.queue, why.ID), why.At.UnixMilli(), int64(why.Attempts), size, reason, tx.encoder.seal())
}

// trimDeadLetters deletes the oldest dead letters until their number is within its bound and
// their size within that of the queue.
func (tx *transaction) trimDeadLetters(ch *change) error {
	for full(bridges.Bounds{Messages: ch.bounds.DeadLetters, Bytes: ch.bounds.Bytes}, ch.sums.dead, ch.sums.deadBytes) {
		rows, err := tx.sum(sumDead, ch.state, 0, rowID(ch.state.queue+1, 0))
		if err != nil {
			return err
		}
		n := 0
		for n < len(rows) && full(bridges.Bounds{Messages: ch.bounds.DeadLetters, Bytes: ch.bounds.Bytes}, ch.sums.dead, ch.sums.deadBytes) {
			tx.countDeadLetters(ch, -1, -rows[n].bytes)
			n++
		}
		if n == 0 { // only if the file holds less than the sums say
			tx.countDeadLetters(ch, -ch.sums.dead, -ch.sums.deadBytes)
			return nil
		}
		ch.lostDeadLetters += int64(n)
		if err := tx.exec(deleteDead, rows[0].id, rows[n-1].id); err != nil {
			return err
		}
	}
	return nil
}

// idRange is a range of IDs, from inclusive, to exclusive.
type idRange struct{ from, to uint64 }

// deleteDead deletes a portion of the dead letters in some ranges. It returns their number and
// the remaining ranges.
func (tx *transaction) deleteDead(ch *change, ranges []idRange) (n int, rest []idRange, err error) {
	for work := int64(0); len(ranges) > 0 && work < portion; {
		rows, err := tx.sum(sumDead, ch.state, ranges[0].from, rowID(ch.state.queue, ranges[0].to))
		if err != nil {
			return n, nil, err
		}
		if len(rows) == 0 {
			ranges, work = ranges[1:], work+rowWork
			continue
		}
		last := rows[len(rows)-1].id
		if err := tx.exec(deleteDead, rows[0].id, last); err != nil {
			return n, nil, err
		}
		for _, r := range rows {
			tx.countDeadLetters(ch, -1, -r.bytes)
			work += r.bytes + rowWork
		}
		n += len(rows)
		ranges[0].from = entryID(last) + 1
	}
	return n, ranges, nil
}

// Bounds of a portion of retried dead letters.
const (
	retryRows  = 256
	retryBytes = 4 << 20
)

// retry puts a portion of the dead letters in some ranges into the queue, as far as they fit. It
// returns their number and the remaining ranges.
func (tx *transaction) retry(ch *change, ranges []idRange) (n int, rest []idRange, err error) {
	letters, rest, err := tx.readDeadLetters(ch, ranges)
	if err != nil {
		return 0, nil, err
	}
	var items []*item
	var bytes int64
	for _, l := range letters {
		records, err := decode(l.entries, 1, tx.encoder.offset)
		if err != nil {
			tx.damaged = append(tx.damaged, damage{l.id, 1, err})
			ch.lostDeadLetters++
		} else {
			size := int64(records[0].Size())
			if full(ch.bounds, ch.sums.messages+int64(len(items))+1, ch.sums.bytes+bytes+size) {
				rest = nil
				break
			}
			records[0].Attempts = 0
			items, bytes = append(items, &item{record: records[0], size: size}), bytes+size
		}
		if err := tx.exec(deleteDead, l.id, l.id); err != nil {
			return 0, nil, err
		}
		tx.countDeadLetters(ch, -1, -l.bytes)
	}
	return len(items), rest, tx.write(ch, items)
}

// readDeadLetters reads a portion of the dead letters in some ranges, and returns the remaining
// ranges.
func (tx *transaction) readDeadLetters(ch *change, ranges []idRange) (rows []row, rest []idRange, err error) {
	bytes := int64(0)
	for len(ranges) > 0 && len(rows) < retryRows && bytes < retryBytes {
		before := len(rows)
		err := tx.query(listDead, 3, func(v []driver.Value) error {
			r := row{id: v[0].(int64), bytes: v[1].(int64)}
			r.entries, _ = v[2].([]byte)
			rows = append(rows, r)
			ranges[0].from = entryID(r.id) + 1
			if bytes += r.bytes; bytes >= retryBytes {
				return errStop
			}
			return nil
		}, rowID(ch.state.queue, ranges[0].from), rowID(ch.state.queue, ranges[0].to), int64(retryRows-before))
		if err != nil && !errors.Is(err, errStop) {
			return nil, nil, err
		}
		if len(rows) == before {
			ranges = ranges[1:]
		}
	}
	return rows, ranges, nil
}
