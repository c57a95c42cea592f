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
	err := tx.each(ch, ids, func(c *cut, id uint64) (err error) {
		if c.gone.has(int(id - c.first)) {
			return nil
		}
		if c.first != first {
			if records, err = tx.fetch(ch, c); err != nil {
				return err
			}
			first = c.first
		}
		if records == nil { // the block was deleted, or is damaged
			return nil
		}
		tx.takeOut(ch, c, id)
		return tx.keepDead(ch, records[id-c.first], why[id])
	})
	if err != nil {
		return err
	}
	return tx.trimDead(ch)
}

// fetch reads a block.
func (tx *transaction) fetch(ch *change, c *cut) ([]record, error) {
	rows, err := tx.list(ch.journal, c.first, 1)
	if err != nil || len(rows) == 0 || entryID(rows[0].id) != c.first {
		return nil, err
	}
	records, err := decode(rows[0].entries, rows[0].count, tx.encoder.offset)
	if err != nil {
		tx.dispose(ch, rows[0], err)
		return nil, nil
	}
	return records, nil
}

// keepDead stores a dead letter, unless the bound is 0.
func (tx *transaction) keepDead(ch *change, r record, why bridges.Rejection) error {
	if ch.bounds.DeadLetters <= 0 {
		ch.lost++
		return nil
	}
	if r.origin == 0 {
		r.origin = why.ID
	}
	reason := joinAnswer(why.Reason, why.Answer)
	size := int64(r.Size() + len(reason))
	tx.encoder.reset()
	tx.encoder.add(r)
	tx.countDead(ch, 1, size)
	return tx.exec(putDead, rowID(ch.journal.queue, why.ID), why.At.UnixMilli(), int64(why.Attempts), size, reason, tx.encoder.seal())
}

// trimDead deletes the oldest dead letters until their number is within its bound and their size
// within that of the queue.
func (tx *transaction) trimDead(ch *change) error {
	for full(bridges.Bounds{Messages: ch.bounds.DeadLetters, Bytes: ch.bounds.Bytes}, ch.tally.dead, ch.tally.deadBytes) {
		rows, err := tx.sum(sumDead, ch.journal, 0, rowID(ch.journal.queue+1, 0))
		if err != nil {
			return err
		}
		n := 0
		for n < len(rows) && full(bridges.Bounds{Messages: ch.bounds.DeadLetters, Bytes: ch.bounds.Bytes}, ch.tally.dead, ch.tally.deadBytes) {
			tx.countDead(ch, -1, -rows[n].bytes)
			n++
		}
		if n == 0 { // only if the file holds less than the sums say
			tx.countDead(ch, -ch.tally.dead, -ch.tally.deadBytes)
			return nil
		}
		ch.lost += int64(n)
		if err := tx.exec(deleteDead, rows[0].id, rows[n-1].id); err != nil {
			return err
		}
	}
	return nil
}

// span is a range of IDs, from inclusive, to exclusive.
type span struct{ from, to uint64 }

// deleteDead deletes a portion of the dead letters in some ranges. It returns their number and
// the remaining ranges.
func (tx *transaction) deleteDead(ch *change, spans []span) (n int, rest []span, err error) {
	for work := int64(0); len(spans) > 0 && work < portion; {
		rows, err := tx.sum(sumDead, ch.journal, spans[0].from, rowID(ch.journal.queue, spans[0].to))
		if err != nil {
			return n, nil, err
		}
		if len(rows) == 0 {
			spans, work = spans[1:], work+rowWork
			continue
		}
		last := rows[len(rows)-1].id
		if err := tx.exec(deleteDead, rows[0].id, last); err != nil {
			return n, nil, err
		}
		for _, r := range rows {
			tx.countDead(ch, -1, -r.bytes)
			work += r.bytes + rowWork
		}
		n += len(rows)
		spans[0].from = entryID(last) + 1
	}
	return n, spans, nil
}

// Bounds of a portion of retried dead letters.
const (
	retryRows  = 256
	retryBytes = 4 << 20
)

// retry puts a portion of the dead letters in some ranges into the queue, as far as they fit. It
// returns their number and the remaining ranges.
func (tx *transaction) retry(ch *change, spans []span) (n int, rest []span, err error) {
	letters, rest, err := tx.letters(ch, spans)
	if err != nil {
		return 0, nil, err
	}
	var items []item
	var bytes int64
	for _, l := range letters {
		records, err := decode(l.entries, 1, tx.encoder.offset)
		if err != nil {
			tx.damaged = append(tx.damaged, damage{l.id, 1, err})
			ch.lost++
		} else {
			size := int64(records[0].Size())
			if full(ch.bounds, ch.tally.messages+int64(len(items))+1, ch.tally.bytes+bytes+size) {
				rest = nil
				break
			}
			records[0].Attempts = 0
			items, bytes = append(items, item{record: records[0], size: size}), bytes+size
		}
		if err := tx.exec(deleteDead, l.id, l.id); err != nil {
			return 0, nil, err
		}
		tx.countDead(ch, -1, -l.bytes)
	}
	return len(items), rest, tx.write(ch, items)
}

// letters reads a portion of the dead letters in some ranges, and returns the remaining ranges.
func (tx *transaction) letters(ch *change, spans []span) (rows []row, rest []span, err error) {
	bytes := int64(0)
	for len(spans) > 0 && len(rows) < retryRows && bytes < retryBytes {
		before := len(rows)
		err := tx.query(listDead, 3, func(v []driver.Value) error {
			r := row{id: v[0].(int64), bytes: v[1].(int64)}
			r.entries, _ = v[2].([]byte)
			rows = append(rows, r)
			spans[0].from = entryID(r.id) + 1
			if bytes += r.bytes; bytes >= retryBytes {
				return errEnough
			}
			return nil
		}, rowID(ch.journal.queue, spans[0].from), rowID(ch.journal.queue, spans[0].to), int64(retryRows-before))
		if err != nil && !errors.Is(err, errEnough) {
			return nil, nil, err
		}
		if len(rows) == before {
			spans = spans[1:]
		}
	}
	return rows, spans, nil
}
