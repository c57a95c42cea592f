package store

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// maxTimelineBlocks bounds the blocks that a timeline counts.
const maxTimelineBlocks = 20_000

// Timeline counts the messages of slices; see streams.Log. It reads the sizes of blocks, and
// decodes only those that lie in more than one slice.
func (l *Log) Timeline(ctx context.Context, r streams.Range, slices int) (t streams.Timeline, err error) {
	found := false
	end := func(at *int64) func(messaging.Message) bool {
		return func(m messaging.Message) bool {
			*at, found = m.At, true
			return false
		}
	}
	if err := errors.Join(l.Read(ctx, r, false, end(&t.First)), l.Read(ctx, r, true, end(&t.Last))); err != nil || !found {
		return streams.Timeline{}, err
	}
	t.Step = (t.Last - t.First + int64(slices)) / int64(slices)
	shift := l.store.timeline.Shift()
	s, err := l.locate(ctx, rangeToServiceTime(streams.Range{From: t.First, To: t.Last}, shift))
	if err != nil {
		return t, fmt.Errorf("find messages: %w", err)
	}
	blocks, err := l.store.reader.blocks(ctx, s.from, s.to, maxTimelineBlocks+1)
	if err != nil {
		return t, fmt.Errorf("count messages: %w", err)
	}
	if len(blocks) > maxTimelineBlocks {
		return t, nil
	}
	t.Counts = make([]int64, slices)
	c := sliceCounter{t, t.First - shift}
	for _, b := range blocks {
		if err := l.countSlices(ctx, &c, s.Range, b); err != nil {
			return t, fmt.Errorf("count messages: %w", err)
		}
	}
	return t, nil
}

// sliceCounter counts messages by their time, from the time of the first one on.
type sliceCounter struct {
	streams.Timeline
	from int64
}

// slice returns the slice of a time; times before or after all are of none.
func (c *sliceCounter) slice(at int64) int {
	if at < c.from || at > c.from+c.Last-c.First {
		return -1
	}
	return int((at - c.from) / c.Step)
}

// countSlices counts the messages of a block.
func (l *Log) countSlices(ctx context.Context, c *sliceCounter, r streams.Range, b block) error {
	if i := c.slice(b.firstAt); i >= 0 && i == c.slice(b.lastAt) {
		c.Counts[i] += b.count
		return nil
	}
	var p page
	if err := l.store.reader.read(ctx, &p, b.id, b.id+1, false, 1); err != nil || len(p.blocks) == 0 {
		return err
	}
	messages, err := l.decode(ctx, nil, p.blocks[0], p.bodies[0])
	yieldRange(r, messages, false, func(m messaging.Message) bool {
		if i := c.slice(m.At); i >= 0 {
			c.Counts[i]++
		}
		return true
	})
	return err
}

// blocks returns at most limit blocks with ids in [from, to), without their messages.
func (r *reader) blocks(ctx context.Context, from, to int64, limit int) (all []block, err error) {
	rows, err := r.list.QueryContext(ctx, from, to, limit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var b block
		if err := rows.Scan(&b.id, &b.firstAt, &b.lastAt, &b.count, &b.bytes); err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, rows.Err()
}
