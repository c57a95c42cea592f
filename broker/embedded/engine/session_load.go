package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"signalbox/broker/mqtt/packet"
)

// Bounds of reading messages from the store: bytes and messages of one read, and concurrent
// reads.
const (
	loadBytes    = 1 << 20
	loadMessages = 2048
	loadsAtOnce  = 4
)

// errMissing reports a message that the store should have and does not.
var errMissing = errors.New("a queued message is missing in the broker's database")

// load reads the next messages to be sent from the store, on another goroutine, which
// flushes the connection afterwards. It reports whether they are being read. mu is held.
func (s *Session) load() bool {
	if s.out.loading || s.conn == nil || s.generation.isOver() {
		return s.out.loading
	}
	s.out.loading = true
	c := s.conn
	s.engine.tasks.Go(func() {
		err := s.fetch(c)
		s.mu.Lock()
		s.out.loading = false
		now := s.conn
		s.mu.Unlock()
		if err != nil {
			s.engine.config.Log.Error("queued messages of a client could not be read; the client is disconnected, and they stay queued",
				"clientid", s.clientID, "error", err)
			c.end(packet.ReasonImplementationSpecific, false)
		}
		if now != nil {
			now.flush()
		}
	})
	return true
}

// fetch reads messages of the queue into memory, unless the connection has lost the session
// meanwhile. It chooses the messages after lockLoading, so that waiting sessions hold
// nothing.
func (s *Session) fetch(c *Conn) error {
	if s.engine.lockLoading(s.generation.ctx) != nil {
		return nil // the generation is over
	}
	defer s.engine.unlockLoading()
	want := s.next(c)
	stubs := make([]Stub, len(want))
	for i := range want {
		stubs[i] = want[i].Stub
	}
	found, err := s.engine.readNow(s.generation.ctx, stubs)
	if s.generation.isOver() { // the store may have another server's state
		return nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c || !s.stored {
		return nil
	}
	var missing []uint64
	for _, w := range want {
		e := s.out.get(w.seq)
		switch m := found[w.ID]; {
		case e == nil || e.message != nil || !e.wanted():
		case m == nil:
			missing = append(missing, w.seq)
		default:
			s.out.loaded(e, m)
		}
	}
	s.dropMissing(missing)
	return nil
}

// next returns the messages to be read for a connection, none if it has lost the session.
// They are few while all queues together take more than QueueMemory.
func (s *Session) next(c *Conn) []stubbed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return nil
	}
	bytes := int64(loadBytes)
	if s.engine.queuedMemory.Load() > s.engine.config.QueueMemory {
		bytes = leastMemory
	}
	return s.out.absentFrom(s.out.place, bytes)
}

// dropMissing drops messages that the store does not have, which only damage to the file can
// cause. mu is held.
func (s *Session) dropMissing(seqs []uint64) {
	var gone []QueueRecord
	for _, seq := range seqs {
		if e := s.out.get(seq); e != nil {
			gone = append(gone, s.abandon(e))
		}
	}
	if len(gone) > 0 {
		s.drop(DropNotStored, len(gone))
		s.engine.config.Log.Error("queued messages of a client were dropped",
			"clientid", s.clientID, "messages", len(gone), "error", errMissing)
	}
	s.forget(gone)
}

// dropAbsent drops the messages that are in the store only, because the store no longer has
// this engine's state. mu is held.
func (s *Session) dropAbsent() {
	var absent []uint64
	for e := range s.out.all() {
		if e.message == nil && e.wanted() {
			absent = append(absent, e.seq)
		}
	}
	for _, seq := range absent {
		s.out.finish(s.out.get(seq))
	}
	s.drop(DropNotStored, len(absent))
}

// stubbed is a queued message that is in the store only.
type stubbed struct {
	seq uint64
	Stub
}

func (e *entry) stub() Stub {
	return Stub{ID: e.id, ExpiresAt: e.expires, Size: e.size, Stamp: e.stamp, Serial: e.serial}
}

// absentFrom returns messages that are in the store only, from a place in the queue on: as
// many as one read may have and within a number of bytes, but at least one.
func (o *outgoingQueue) absentFrom(place int, most int64) (found []stubbed) {
	bytes := int64(0)
	for i := place; i < o.kept.len() && len(found) < loadMessages; i++ {
		e := o.kept.at(i)
		if e.message != nil || !e.wanted() {
			continue
		}
		if bytes += e.memory(); bytes > most && len(found) > 0 {
			break
		}
		found = append(found, stubbed{e.seq, e.stub()})
	}
	return found
}

// lockLoading waits until fewer than loadsAtOnce callers read from the store.
func (e *Engine) lockLoading(ctx context.Context) error {
	select {
	case e.loading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *Engine) unlockLoading() { <-e.loading }

// read returns messages from the store, by ID. It may wait for other readers.
func (e *Engine) read(ctx context.Context, want []Stub) (map[uint64]*Message, error) {
	if err := e.lockLoading(ctx); err != nil {
		return nil, err
	}
	defer e.unlockLoading()
	return e.readNow(ctx, want)
}

// readNow is read, called between lockLoading and unlockLoading.
func (e *Engine) readNow(ctx context.Context, want []Stub) (map[uint64]*Message, error) {
	ids, stubs := make([]uint64, len(want)), make(map[uint64]Stub, len(want))
	for i, w := range want {
		ids[i] = w.ID
		stubs[w.ID] = w
	}
	slices.Sort(ids)
	list, err := e.store.Messages(ctx, slices.Compact(ids))
	if err != nil {
		return nil, fmt.Errorf("read queued messages: %w", err)
	}
	found := make(map[uint64]*Message, len(list))
	for _, m := range list {
		m.Stamp = stubs[m.ID].Stamp
		m.serial.Store(stubs[m.ID].Serial)
		found[m.ID] = m
	}
	return found, nil
}

// complete reads the messages of records that have only a Stub. A record whose message is
// missing is left out and dropped from the queue. mu is not held.
func (s *Session) complete(records []QueueRecord) ([]QueueRecord, error) {
	var want []Stub
	for i := range records {
		if records[i].Message == nil {
			want = append(want, records[i].Stub)
		}
	}
	if len(want) == 0 {
		return records, nil
	}
	found, err := s.engine.read(s.generation.ctx, want)
	if err != nil {
		return nil, err
	}
	var missing []uint64
	records = slices.DeleteFunc(records, func(r QueueRecord) bool {
		lost := r.Message == nil && found[r.Stub.ID] == nil
		if lost {
			missing = append(missing, r.Seq)
		}
		return lost
	})
	for i := range records {
		if records[i].Message == nil {
			records[i].Message = found[records[i].Stub.ID]
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropMissing(missing)
	return records, nil
}

// portion returns how many records, from the first on, one call of complete should read.
func portion(records []QueueRecord) int {
	bytes := 0
	for i := range records {
		stub := records[i].stub()
		if bytes += int(stub.Size) + entryMemory; i > 0 && bytes > loadBytes {
			return i
		}
	}
	return len(records)
}

// loadSame reads the queued messages that are in the store only and have a sequence number
// of a message in parts. It returns them by sequence number.
func (s *Session) loadSame(parts []*StoredSession) (map[uint64]*Message, error) {
	found := map[uint64]*Message{}
	for _, p := range parts {
		for same := s.same(p.Queue); len(same) > 0; {
			n := portion(same)
			read, err := s.complete(same[:n])
			if err != nil {
				return nil, err
			}
			for _, r := range read {
				found[r.Seq] = r.Message
			}
			same = same[n:]
		}
	}
	return found, nil
}

// same returns the queued messages that are in the store only and have a sequence number of
// one of records.
func (s *Session) same(records []QueueRecord) (found []QueueRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range records {
		if e := s.out.get(records[i].Seq); e != nil && e.message == nil {
			found = append(found, QueueRecord{Seq: e.seq, Stub: e.stub()})
		}
	}
	return found
}
