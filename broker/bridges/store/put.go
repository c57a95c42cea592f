package store

import (
	"strconv"

	"signalbox/broker/bridges"
)

// full reports whether a queue with these sums exceeds its bounds. A bound of 0 is no bound.
func full(b bridges.Bounds, messages, bytes int64) bool {
	return b.Messages > 0 && messages > b.Messages || b.Bytes > 0 && bytes > b.Bytes
}

// put stores the items of a queue that its bounds allow.
func (tx *transaction) put(ch *change) error {
	items := tx.admit(ch)
	if len(items) > 0 && ch.bounds.DropOldest {
		var err error
		if items, err = tx.dropOldest(ch, items); err != nil {
			return err
		}
	}
	return tx.write(ch, items)
}

// admit drops items that are not early and do not fit: beyond the bound of the store, alone larger
// than the queue and, if the newest are dropped, beyond the queue's bounds.
func (tx *transaction) admit(ch *change) []*item {
	fit := ch.items[:0:0]
	var bytes int64
	for _, i := range ch.items {
		n := int64(len(fit)) + 1
		switch {
		case i.early:
			fit = append(fit, i)
			bytes += i.size
			tx.early -= i.size
		case tx.max > 0 && tx.bytes+tx.early+bytes+i.size > tx.max,
			full(ch.bounds, 1, i.size),
			!ch.bounds.DropOldest && full(ch.bounds, ch.sums.messages+n, ch.sums.bytes+bytes+i.size):
			ch.dropped++
		default:
			fit = append(fit, i)
			bytes += i.size
		}
	}
	return fit
}

// dropOldest evicts the oldest entries, and drops the oldest items, until the rest is within the
// queue's bounds.
func (tx *transaction) dropOldest(ch *change, items []*item) ([]*item, error) {
	var bytes int64
	first := len(items)
	for first > 0 && !full(ch.bounds, int64(len(items)-first+1), bytes+items[first-1].size) {
		first--
		bytes += items[first].size
	}
	ch.dropped += int64(first)
	for _, i := range items[:first] {
		if i.early {
			ch.removed = append(ch.removed, i.record.ID)
		}
	}
	items = items[first:]
	return items, tx.evict(ch, func() bool { // entries that are older than a dropped item are evicted too
		return first > 0 || full(ch.bounds, ch.sums.messages+int64(len(items)), ch.sums.bytes+bytes)
	})
}

// write stores items in blocks, and assigns IDs to those that are not early.
func (tx *transaction) write(ch *change, items []*item) error {
	enc := &tx.encoder
	var b *block
	for _, i := range items {
		e := i.record.Entry
		if !i.early {
			e.ID = max(ch.sums.next, ch.next)
			e.MessageID = ch.state.messageID(i.record)
			ch.sums.next = e.ID + 1
		}
		if b == nil || b.end() != e.ID || !enc.fits(int(i.size)) {
			if err := tx.flush(ch, b); err != nil {
				return err
			}
			enc.reset()
			b = &block{first: e.ID}
		}
		enc.add(i.record)
		b.sizes = append(b.sizes, uint32(i.size))
		ch.entries = append(ch.entries, e)
		tx.count(ch, 1, i.size)
	}
	return tx.flush(ch, b)
}

// flush stores the current block.
func (tx *transaction) flush(ch *change, b *block) error {
	if b == nil {
		return nil
	}
	var bytes int64
	for _, size := range b.sizes {
		bytes += int64(size)
	}
	ch.stored = append(ch.stored, b)
	return tx.exec(putBlock, rowID(ch.state.queue, b.first), int64(len(b.sizes)), bytes, tx.encoder.seal())
}

// messageID returns the globally unique identifier of a message.
func (j *queueState) messageID(r record) string {
	id := r.origin
	if id == 0 {
		id = r.ID
	}
	return j.prefix + strconv.FormatUint(id, 36)
}

// prefix returns the prefix of the IDs of a queue's messages.
func (s *Store) prefix(queue int64) string {
	return s.identity + "-" + strconv.FormatInt(queue, 36) + "-"
}
