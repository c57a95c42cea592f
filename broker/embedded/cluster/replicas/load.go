package replicas

import (
	"fmt"
	"slices"

	"signalbox/broker/embedded/engine"
)

// loader sends the sessions of a snapshot that have their replicas at the node of a stream.
type loader struct {
	stream *stream
	number uint64 // of batches sent
	c      engine.Changes
	bytes  int // estimated, of c
}

// rowBytes is estimated for a row in addition to its texts.
const rowBytes = 64

// session adds a session with its queue, and sends what is a batch.
func (l *loader) session(s *engine.StoredSession) error {
	if choose(hashOf(s.ClientID), l.stream.nodes) != l.stream.node {
		return nil
	}
	l.c.PutSessions = append(l.c.PutSessions, s.SessionRecord)
	l.c.Subscribed = append(l.c.Subscribed, s.Subscriptions...)
	for _, id := range s.Incoming {
		l.c.Received = append(l.c.Received, engine.IncomingRecord{SessionID: s.ID, PacketID: id})
	}
	l.bytes += rowBytes * (1 + len(s.Subscriptions) + len(s.Incoming))
	for _, r := range s.Subscriptions {
		l.bytes += len(r.Filter)
	}
	if s.Will != nil {
		l.bytes += len(s.Will.Payload) + len(s.Will.Properties)
	}
	for rest := s.Queue; len(rest) > 0; {
		n := l.fitting(rest)
		if err := l.queued(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
		if err := l.flushFull(); err != nil {
			return err
		}
	}
	return l.flushFull()
}

// fitting returns how many messages, at least one, are still part of the batch.
func (l *loader) fitting(records []engine.QueueRecord) int {
	bytes := l.bytes
	for i := range records {
		if bytes += rowBytes + int(records[i].Stub.Size); bytes > batchBytes || i == batchChanges {
			return max(i, 1)
		}
	}
	return len(records)
}

// queued adds queued messages, which it reads. Those that are not stored any more are left out: that they were
// dequeued follows.
func (l *loader) queued(records []engine.QueueRecord) error {
	ids := make([]uint64, 0, len(records))
	for i := range records {
		ids = append(ids, records[i].Stub.ID)
	}
	slices.Sort(ids)
	messages, err := l.stream.r.Messages(l.stream.ctx, slices.Compact(ids))
	if err != nil {
		return fmt.Errorf("read queued messages for a replica: %w", err)
	}
	found := make(map[uint64]*engine.Message, len(messages))
	for _, m := range messages {
		found[m.ID] = m
	}
	for _, q := range records {
		if q.Message = found[q.Stub.ID]; q.Message != nil {
			l.c.Enqueued = append(l.c.Enqueued, q)
			l.bytes += rowBytes + int(q.Stub.Size)
		}
	}
	return nil
}

// flushFull sends the batch if it is full.
func (l *loader) flushFull() error {
	if l.bytes < batchBytes {
		return nil
	}
	return l.flush()
}

// flush sends the batch.
func (l *loader) flush() error {
	if l.bytes == 0 {
		return nil
	}
	l.number++
	b := batch{first: l.number, changes: [][]byte{encodeChanges(&l.c)}}
	l.c, l.bytes = engine.Changes{}, 0
	return l.stream.request(kindLoad, b.encode())
}
