package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"signalbox/broker"
)

// DeadLetters returns a page of the dead letters, oldest first, and their total number. Damaged
// ones are omitted.
func (q *Queue) DeadLetters(ctx context.Context, offset, count int) (total int, list []broker.DeadLetter, err error) {
	const text = `
		SELECT id, rejected_at, attempts, reason, entry FROM dead
		WHERE id >= ? AND id < ?
		ORDER BY id LIMIT ? OFFSET ?`
	t, _ := q.state.snapshot()
	if q.state.deleted.Load() {
		return 0, nil, nil
	}
	queue := q.state.queue
	rows, err := q.store.reader.db.QueryContext(ctx, text, rowID(queue, 0), rowID(queue+1, 0), max(count, 0), max(offset, 0))
	if err != nil {
		return 0, nil, fmt.Errorf("read dead letters: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, at int64
		var d broker.DeadLetter
		var entry []byte
		if err := rows.Scan(&id, &at, &d.Attempts, &d.Reason, &entry); err != nil {
			return 0, nil, fmt.Errorf("read a dead letter: %w", err)
		}
		records, err := decode(entry, 1, -q.store.timeline.Shift())
		if err != nil {
			continue
		}
		d.Reason, d.Answer = splitResponse(d.Reason)
		d.ID, d.RejectedAt = strconv.FormatUint(entryID(id), 10), timeOf(at)
		describe(&d, records[0])
		list = append(list, d)
	}
	return int(t.dead), list, rows.Err()
}

// describe sets the fields that describe the message.
func describe(d *broker.DeadLetter, r record) {
	d.Topic, d.QoS, d.Mapping, d.ReceivedAt = r.Topic, int(r.QoS), r.Mapping, timeOf(r.At)
	d.Size = len(r.Payload)
	d.Payload, d.Encoding, d.Truncated = broker.ShowPayload(r.Payload, broker.PreviewLimit)
}

// RetryDeadLetters puts dead letters into the queue, as far as they fit; see bridges.Queue.
func (q *Queue) RetryDeadLetters(ctx context.Context, ids []string) (int, error) {
	n, err := q.eachDeadLetter(ctx, ids, (*transaction).retry)
	if err != nil {
		return n, fmt.Errorf("retry dead letters: %w", err)
	}
	return n, nil
}

// DeleteDeadLetters deletes dead letters; see bridges.Queue.
func (q *Queue) DeleteDeadLetters(ctx context.Context, ids []string) (int, error) {
	n, err := q.eachDeadLetter(ctx, ids, (*transaction).deleteDead)
	if err != nil {
		return n, fmt.Errorf("delete dead letters: %w", err)
	}
	return n, nil
}

// eachDeadLetter applies step to the dead letters with some IDs, or all, in portions, and returns
// their number.
func (q *Queue) eachDeadLetter(ctx context.Context, ids []string, step func(*transaction, *change, []idRange) (int, []idRange, error)) (total int, err error) {
	t, _ := q.state.snapshot()
	ranges := rangesOf(ids, t.next)
	for len(ranges) > 0 {
		n, rest := 0, []idRange(nil)
		q.state.addLate(1) // as those that are put into the queue get IDs
		if err := q.do(ctx, func(c *committer) error {
			defer q.state.addLate(-1)
			return c.change(q.state, func(tx *transaction, ch *change) (err error) {
				n, rest, err = step(tx, ch, slices.Clone(ranges))
				return err
			})
		}); err != nil {
			return total, err
		}
		total, ranges = total+n, rest
	}
	return total, nil
}

// rangesOf returns the ranges of some IDs, sorted, or the range of all IDs before next. Texts that
// are not IDs are ignored, as no dead letter has them.
func rangesOf(ids []string, next uint64) (ranges []idRange) {
	if len(ids) == 0 {
		return []idRange{{0, next}}
	}
	for _, s := range ids {
		if id, err := strconv.ParseUint(s, 10, idBits); err == nil && id < next {
			ranges = append(ranges, idRange{id, id + 1})
		}
	}
	slices.SortFunc(ranges, func(a, b idRange) int { return cmp.Compare(a.from, b.from) })
	return slices.Compact(ranges)
}
