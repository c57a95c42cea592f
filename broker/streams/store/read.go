package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// reader reads blocks, concurrently with the committer.
type reader struct {
	db       *sql.DB
	first    *sql.Stmt // the first block in a range of ids
	forward  *sql.Stmt
	backward *sql.Stmt
	sum      *sql.Stmt
	list     *sql.Stmt // blocks without their messages
}

// Bounds of a read. It stops after the row that exceeds pageBytes.
const (
	pageRows  = 1024
	pageBytes = 1 << 20
)

func openReader(ctx context.Context, db *sql.DB) (*reader, error) {
	r := &reader{db: db}
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
		{&r.list, `
			SELECT id, first_at, last_at, count, bytes FROM block
			WHERE id >= ? AND id < ?
			ORDER BY id LIMIT ?`},
		{&r.sum, `SELECT coalesce(sum(count), 0) FROM block WHERE id >= ? AND id < ?`},
	} {
		var err error
		if *s.stmt, err = db.PrepareContext(ctx, s.text); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *reader) close() (err error) {
	for _, s := range []*sql.Stmt{r.first, r.forward, r.backward, r.sum, r.list} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return errors.Join(err, r.db.Close())
}

// firstBlock returns the first block with an id in [from, to), or
// sql.ErrNoRows.
func (r *reader) firstBlock(ctx context.Context, from, to int64) (b block, err error) {
	err = r.first.QueryRowContext(ctx, from, to).Scan(&b.id, &b.firstAt, &b.lastAt, &b.count, &b.bytes)
	return b, err
}

// seek returns the id of the first block in [from, to) for which found holds,
// or to. If found holds for a block, it must hold for all blocks after it.
func (r *reader) seek(ctx context.Context, from, to int64, found func(block) bool) (int64, error) {
	at, end := to, to
	for from < end {
		middle := from + (end-from)/2
		b, err := r.firstBlock(ctx, middle, end)
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

// page is a sequence of blocks with their encoded messages.
type page struct {
	blocks []block
	bodies [][]byte
}

// read fills a page with at most limit blocks with ids in [from, to), from the
// end if reverse. No transaction stays open.
func (r *reader) read(ctx context.Context, p *page, from, to int64, reverse bool, limit int) (err error) {
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

// blockRange is a part of a log: the messages of a time range in the blocks
// with ids in [from, to).
type blockRange struct {
	streams.Range
	from, to int64
}

// locate returns the blocks that may hold messages of a range which are not too
// old.
func (l *Log) locate(ctx context.Context, r streams.Range) (s blockRange, err error) {
	t, ttl := l.stored.read()
	if ttl > 0 {
		r.From = max(r.From, l.store.now().UnixMilli()-2*ttl+1)
	}
	id := l.stored.stream
	s = blockRange{r, blockID(id, 0), blockID(id, t.next)}
	if t.oldest.count == 0 || r.From > r.To {
		s.to = s.from
		return s, nil
	}
	s.from = t.oldest.id
	if r.From > t.oldest.firstAt {
		if s.from, err = l.store.reader.seek(ctx, s.from, s.to, func(b block) bool { return b.lastAt >= r.From }); err != nil {
			return s, err
		}
	}
	if r.To < t.lastAt {
		s.to, err = l.store.reader.seek(ctx, s.from, s.to, func(b block) bool { return b.firstAt > r.To })
	}
	return s, err
}

// Read reads messages; see streams.Log. It skips damaged blocks.
func (l *Log) Read(ctx context.Context, r streams.Range, reverse bool, yield func(messaging.Message) bool) error {
	shift := l.store.timeline.Shift() // the same for all messages, because a replay keeps the intervals between them
	s, err := l.locate(ctx, rangeToServiceTime(r, shift))
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
		if err := l.store.reader.read(ctx, &p, s.from, s.to, reverse, pageRows); err != nil {
			return fmt.Errorf("read messages: %w", err)
		}
		for i, b := range p.blocks {
			if messages, err = l.decode(ctx, messages[:0], b, p.bodies[i]); err != nil {
				return err
			}
			if !yieldRange(s.Range, messages, reverse, out) {
				return nil
			}
		}
		s.advance(&p, reverse)
	}
	return nil
}

// advance removes the blocks of a page from the range.
func (s *blockRange) advance(p *page, reverse bool) {
	switch {
	case len(p.blocks) == 0:
		s.from = s.to
	case reverse:
		s.to = p.blocks[len(p.blocks)-1].id
	default:
		s.from = p.blocks[len(p.blocks)-1].id + 1
	}
}

// yieldRange calls yield with the messages that are in a range. It reports
// false when yield did.
func yieldRange(r streams.Range, messages []messaging.Message, reverse bool, yield func(messaging.Message) bool) bool {
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

// decode decodes a block. A damaged block has no messages, and the committer is
// asked to delete it.
func (l *Log) decode(ctx context.Context, dst []messaging.Message, b block, body []byte) ([]messaging.Message, error) {
	messages, err := decode(dst, body)
	if err == nil {
		return messages, nil
	}
	if err := l.do(ctx, func() {}, func(c *committer) { c.deleteIfDamaged(l.stored, b.id) }); err != nil && !errors.Is(err, errLogClosed) && !errors.Is(err, errClosed) {
		return nil, err
	}
	return messages[:0], nil
}

// Count returns the number of messages in a range.
func (l *Log) Count(ctx context.Context, r streams.Range) (int64, error) {
	r = rangeToServiceTime(r, l.store.timeline.Shift())
	t, ttl := l.stored.read()
	hidden := ttl > 0 && t.oldest.firstAt <= l.store.now().UnixMilli()-2*ttl
	if !hidden && r.From <= t.oldest.firstAt && r.To >= t.lastAt {
		return t.messages, nil
	}
	s, err := l.locate(ctx, r)
	if err != nil {
		return 0, fmt.Errorf("find messages: %w", err)
	}
	n, err := l.count(ctx, s)
	if err != nil {
		return 0, fmt.Errorf("count messages: %w", err)
	}
	return n, nil
}

// count sums up the blocks of a range, and decodes those at its ends if
// necessary.
func (l *Log) count(ctx context.Context, s blockRange) (n int64, err error) {
	var first, last page
	if err := l.store.reader.read(ctx, &first, s.from, s.to, false, 1); err != nil || len(first.blocks) == 0 {
		return 0, err
	}
	if err := l.store.reader.read(ctx, &last, first.blocks[0].id+1, s.to, true, 1); err != nil {
		return 0, err
	}
	if len(last.blocks) > 0 {
		if err := l.store.reader.sum.QueryRowContext(ctx, first.blocks[0].id+1, last.blocks[0].id).Scan(&n); err != nil {
			return 0, err
		}
	}
	for _, p := range []*page{&first, &last} {
		partial, err := l.countPage(ctx, s.Range, p)
		if err != nil {
			return 0, err
		}
		n += partial
	}
	return n, nil
}

// countPage counts the messages of a page that are in a range.
func (l *Log) countPage(ctx context.Context, r streams.Range, p *page) (n int64, err error) {
	for i, b := range p.blocks {
		if r.From <= b.firstAt && b.lastAt <= r.To {
			n += b.count
			continue
		}
		messages, err := l.decode(ctx, nil, b, p.bodies[i])
		if err != nil {
			return 0, err
		}
		yieldRange(r, messages, false, func(messaging.Message) bool { n++; return true })
	}
	return n, nil
}
