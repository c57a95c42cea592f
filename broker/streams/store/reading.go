package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// reading is what reads blocks, beside whoever writes.
type reading struct {
	db       *sql.DB
	first    *sql.Stmt // the block at an id or behind it
	forward  *sql.Stmt
	backward *sql.Stmt
	sum      *sql.Stmt
}

// Bounds of what is read at once. More rows than fit into pageBytes are not read
// of those that were asked for.
const (
	pageRows  = 1024
	pageBytes = 1 << 20
)

func openReading(ctx context.Context, db *sql.DB) (*reading, error) {
	r := &reading{db: db}
	for _, s := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&r.first, `
			SELECT id, first_at, last_at, count, bytes FROM block
			WHERE id >= ? AND id < ?
			ORDER BY id LIMIT 1`},
		{&r.forward, `
			SELECT id, first_at, last_at, count, bytes, messages FROM block
			WHERE id >= ? AND id < ?
			ORDER BY id LIMIT ?`},
		{&r.backward, `
			SELECT id, first_at, last_at, count, bytes, messages FROM block
			WHERE id >= ? AND id < ?
			ORDER BY id DESC LIMIT ?`},
		{&r.sum, `SELECT coalesce(sum(count), 0) FROM block WHERE id >= ? AND id < ?`},
	} {
		var err error
		if *s.stmt, err = db.PrepareContext(ctx, s.text); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *reading) close() (err error) {
	for _, s := range []*sql.Stmt{r.first, r.forward, r.backward, r.sum} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return errors.Join(err, r.db.Close())
}

// probe gives the first block at an id or behind it and before another, or
// sql.ErrNoRows.
func (r *reading) probe(ctx context.Context, from, to int64) (b block, err error) {
	err = r.first.QueryRowContext(ctx, from, to).Scan(&b.id, &b.firstAt, &b.lastAt, &b.count, &b.bytes)
	return b, err
}

// seek gives the id of the first block at an id or behind it, and before
// another, for which found holds, or the other id. Once found holds it holds for
// all blocks behind.
func (r *reading) seek(ctx context.Context, from, to int64, found func(block) bool) (int64, error) {
	at, end := to, to
	for from < end {
		middle := from + (end-from)/2
		b, err := r.probe(ctx, middle, end)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			end = middle
		case err != nil:
			return 0, err
		case found(b):
			at, end = b.id, middle
		default:
			from = b.id + 1
		}
	}
	return at, nil
}

// page is some blocks with their messages, still encoded.
type page struct {
	blocks []block
	bodies [][]byte
}

// read fills a page from the blocks at an id or behind it and before another,
// from one end or the other, with so many at most. No transaction stays open.
func (r *reading) read(ctx context.Context, p *page, from, to int64, reverse bool, limit int) (err error) {
	p.blocks, p.bodies = p.blocks[:0], p.bodies[:0]
	stmt := r.forward
	if reverse {
		stmt = r.backward
	}
	rows, err := stmt.QueryContext(ctx, from, to, limit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for bytes := int64(0); bytes < pageBytes && rows.Next(); {
		var b block
		var body []byte
		if err := rows.Scan(&b.id, &b.firstAt, &b.lastAt, &b.count, &b.bytes, &body); err != nil {
			return err
		}
		p.blocks, p.bodies = append(p.blocks, b), append(p.bodies, body)
		bytes += b.bytes
	}
	return rows.Err()
}

// span is a part of a journal: the messages of a range in the blocks from an id
// up to another.
type span struct {
	streams.Range
	from, to int64
}

// span gives where the messages of a range are that are stored and not too old.
func (l *Log) span(ctx context.Context, r streams.Range) (s span, err error) {
	t, ttl := l.journal.look()
	if ttl > 0 {
		r.From = max(r.From, l.store.now().UnixMilli()-2*ttl+1)
	}
	id := l.journal.stream
	s = span{r, blockID(id, 0), blockID(id, t.next)}
	if t.front.count == 0 || r.From > r.To {
		s.to = s.from
		return s, nil
	}
	s.from = t.front.id
	if r.From > t.front.firstAt {
		if s.from, err = l.store.reading.seek(ctx, s.from, s.to, func(b block) bool { return b.lastAt >= r.From }); err != nil {
			return s, err
		}
	}
	if r.To < t.lastAt {
		s.to, err = l.store.reading.seek(ctx, s.from, s.to, func(b block) bool { return b.firstAt > r.To })
	}
	return s, err
}

// Read reads messages; see streams.Log. A block that is damaged is left out.
func (l *Log) Read(ctx context.Context, r streams.Range, reverse bool, yield func(messaging.Message) bool) error {
	shift := l.store.timeline.Shift() // the same for all, as a replay goes by their distances
	s, err := l.span(ctx, rangeIn(r, shift))
	if err != nil {
		return fmt.Errorf("find messages: %w", err)
	}
	out := func(m messaging.Message) bool {
		m.At += shift
		return yield(m)
	}
	var p page
	var messages []messaging.Message
	for s.from < s.to {
		if err := l.store.reading.read(ctx, &p, s.from, s.to, reverse, pageRows); err != nil {
			return fmt.Errorf("read messages: %w", err)
		}
		for i, b := range p.blocks {
			if messages, err = l.decode(ctx, messages[:0], b, p.bodies[i]); err != nil {
				return err
			}
			if !pass(s.Range, messages, reverse, out) {
				return nil
			}
		}
		s.advance(&p, reverse)
	}
	return nil
}

// advance leaves out what was read.
func (s *span) advance(p *page, reverse bool) {
	switch {
	case len(p.blocks) == 0:
		s.from = s.to
	case reverse:
		s.to = p.blocks[len(p.blocks)-1].id
	default:
		s.from = p.blocks[len(p.blocks)-1].id + 1
	}
}

// pass calls yield with those messages that are in a range, until it answers
// false; so does pass then.
func pass(r streams.Range, messages []messaging.Message, reverse bool, yield func(messaging.Message) bool) bool {
	for i := range messages {
		m := &messages[i]
		if reverse {
			m = &messages[len(messages)-1-i]
		}
		if m.At >= r.From && m.At <= r.To && !yield(*m) {
			return false
		}
	}
	return true
}

// decode reads a block. One that is damaged has no messages; the committer is
// told to delete it.
func (l *Log) decode(ctx context.Context, dst []messaging.Message, b block, body []byte) ([]messaging.Message, error) {
	messages, err := decode(dst, body)
	if err == nil {
		return messages, nil
	}
	if err := l.do(ctx, func() {}, func(c *committer) { c.discard(l.journal, b.id) }); err != nil && !errors.Is(err, errLogClosed) && !errors.Is(err, errClosed) {
		return nil, err
	}
	return messages[:0], nil
}

// Count counts the messages in a range.
func (l *Log) Count(ctx context.Context, r streams.Range) (int64, error) {
	r = rangeIn(r, l.store.timeline.Shift())
	t, ttl := l.journal.look()
	hidden := ttl > 0 && t.front.firstAt <= l.store.now().UnixMilli()-2*ttl
	if !hidden && r.From <= t.front.firstAt && r.To >= t.lastAt {
		return t.messages, nil
	}
	s, err := l.span(ctx, r)
	if err != nil {
		return 0, fmt.Errorf("find messages: %w", err)
	}
	n, err := l.count(ctx, s)
	if err != nil {
		return 0, fmt.Errorf("count messages: %w", err)
	}
	return n, nil
}

// count sums up the blocks of a span, and looks into those at its ends.
func (l *Log) count(ctx context.Context, s span) (n int64, err error) {
	var first, last page
	if err := l.store.reading.read(ctx, &first, s.from, s.to, false, 1); err != nil || len(first.blocks) == 0 {
		return 0, err
	}
	if err := l.store.reading.read(ctx, &last, first.blocks[0].id+1, s.to, true, 1); err != nil {
		return 0, err
	}
	if len(last.blocks) > 0 {
		if err := l.store.reading.sum.QueryRowContext(ctx, first.blocks[0].id+1, last.blocks[0].id).Scan(&n); err != nil {
			return 0, err
		}
	}
	for _, p := range []*page{&first, &last} {
		within, err := l.within(ctx, s.Range, p)
		if err != nil {
			return 0, err
		}
		n += within
	}
	return n, nil
}

// within counts the messages of a page that are in a range.
func (l *Log) within(ctx context.Context, r streams.Range, p *page) (n int64, err error) {
	for i, b := range p.blocks {
		if r.From <= b.firstAt && b.lastAt <= r.To {
			n += b.count
			continue
		}
		messages, err := l.decode(ctx, nil, b, p.bodies[i])
		if err != nil {
			return 0, err
		}
		pass(r, messages, false, func(messaging.Message) bool { n++; return true })
	}
	return n, nil
}
