package store

import (
	"strconv"

	"signalbox/broker/bridges"
)

// full tells whether a queue with some messages more, and bytes, is beyond its
// bounds. A bound of 0 is none.
func full(b bridges.Bounds, messages, bytes int64) bool {
	return b.Messages > 0 && messages > b.Messages || b.Bytes > 0 && bytes > b.Bytes
}

// put stores what was handed over of a queue, as far as its bounds let it.
func (tx *transaction) put(ch *change) error {
	items := tx.admit(ch)
	if len(items) > 0 && ch.bounds.DropOldest {
		var err error
		if items, err = tx.makeRoom(ch, items); err != nil {
			return err
		}
	}
	return tx.write(ch, items)
}

// admit leaves out what has no room: beyond what there may be in all, by itself
// larger than the queue and, where the newest go, beyond the queue's bounds.
func (tx *transaction) admit(ch *change) []item {
	fit := ch.items[:0:0]
	var bytes int64
	for _, i := range ch.items {
		n := int64(len(fit)) + 1
		switch {
		case tx.max > 0 && tx.bytes+bytes+i.size > tx.max,
			full(ch.bounds, 1, i.size),
			!ch.bounds.DropOldest && full(ch.bounds, ch.tally.messages+n, ch.tally.bytes+bytes+i.size):
			ch.dropped++
		default:
			fit = append(fit, i)
			bytes += i.size
		}
	}
	return fit
}

// makeRoom takes out the oldest entries, and leaves out the oldest items, until
// the others are within the queue's bounds.
func (tx *transaction) makeRoom(ch *change, items []item) ([]item, error) {
	var bytes int64
	first := len(items)
	for first > 0 && !full(ch.bounds, int64(len(items)-first+1), bytes+items[first-1].size) {
		first--
		bytes += items[first].size
	}
	ch.dropped += int64(first)
	items = items[first:]
	return items, tx.evict(ch, func() bool { // what is older than an item that went goes, too
		return first > 0 || full(ch.bounds, ch.tally.messages+int64(len(items)), ch.tally.bytes+bytes)
	})
}

// write stores items in blocks and gives them their IDs.
func (tx *transaction) write(ch *change, items []item) error {
	enc := &tx.encoder
	var b *block
	for _, i := range items {
		if b == nil || !enc.fits(int(i.size)) {
			if err := tx.flush(ch, b); err != nil {
				return err
			}
			enc.reset()
			b = &block{first: ch.tally.next}
		}
		e := i.record.Entry
		e.ID = ch.tally.next
		e.MessageID = ch.journal.messageID(i.record)
		ch.tally.next++
		enc.add(i.record)
		b.sizes = append(b.sizes, uint32(i.size))
		ch.entries = append(ch.entries, e)
		tx.count(ch, 1, i.size)
	}
	return tx.flush(ch, b)
}

// flush stores the block that was filled.
func (tx *transaction) flush(ch *change, b *block) error {
	if b == nil {
		return nil
	}
	var bytes int64
	for _, size := range b.sizes {
		bytes += int64(size)
	}
	ch.stored = append(ch.stored, b)
	return tx.exec(putBlock, rowID(ch.journal.queue, b.first), int64(len(b.sizes)), bytes, tx.encoder.seal())
}

// messageID gives what identifies the message of a record everywhere.
func (j *journal) messageID(r record) string {
	id := r.origin
	if id == 0 {
		id = r.ID
	}
	return j.prefix + strconv.FormatUint(id, 36)
}

// prefix is what the IDs of the messages of a queue begin with.
func (s *Store) prefix(queue int64) string {
	return s.identity + "-" + strconv.FormatInt(queue, 36) + "-"
}
