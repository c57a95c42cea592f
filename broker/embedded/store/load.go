package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// loader reads each table once, in the order of its key, and merges queues with
// messages.
type loader struct {
	conn     *sql.Conn
	snapshot *engine.Snapshot
	counts   *refCounts
	sessions map[uint64]*engine.StoredSession
	messages []engine.Stub // in order of IDs
	at       int           // index in messages that the queue rows have reached
	retained []uint64      // message IDs, in order
	shares   map[string]string
	stored   int // messages
	dropped  dropped
}

// dropped counts rows that refer to a missing row, or to which no row refers. Only
// damage to the file causes them. Other counts subscriptions and packet identifiers.
type dropped struct{ messages, queued, other int }

// load reads everything that is stored, and deletes orphaned rows.
func load(ctx context.Context, conn *storage.Conn) (*loader, error) {
	l := &loader{
		conn: conn.SQL(), snapshot: &engine.Snapshot{}, counts: newRefCounts(),
		sessions: map[uint64]*engine.StoredSession{}, shares: map[string]string{},
	}
	for _, step := range []struct {
		what string
		read func(context.Context) error
	}{
		{"sessions", l.readSessions}, {"subscriptions", l.readSubscriptions}, {"packet identifiers", l.readIncoming},
		{"messages", l.readMessages}, {"retained messages", l.readRetained}, {"queues", l.readQueues},
	} {
		if err := step.read(ctx); err != nil {
			return nil, fmt.Errorf("read %s: %w", step.what, err)
		}
	}
	l.finish()
	if l.dropped != (dropped{}) {
		if err := clean(ctx, conn); err != nil {
			return nil, fmt.Errorf("delete orphaned rows: %w", err)
		}
	}
	return l, nil
}

func (l *loader) readSessions(ctx context.Context) error {
	err := eachSession(ctx, l.conn, func(r engine.SessionRecord) error {
		l.snapshot.Sessions = append(l.snapshot.Sessions, engine.StoredSession{SessionRecord: r})
		l.snapshot.LastSessionID = r.ID
		return nil
	})
	for i := range l.snapshot.Sessions {
		s := &l.snapshot.Sessions[i]
		l.sessions[s.ID] = s
	}
	return err
}

func (l *loader) readSubscriptions(ctx context.Context) error {
	return eachSubscription(ctx, l.conn, func(r engine.SubscriptionRecord) error {
		if s := l.sessions[r.SessionID]; s != nil {
			s.Subscriptions = append(s.Subscriptions, r)
		} else {
			l.dropped.other++
		}
		return nil
	})
}

func (l *loader) readIncoming(ctx context.Context) error {
	return eachIncoming(ctx, l.conn, func(r engine.IncomingRecord) error {
		if s := l.sessions[r.SessionID]; s != nil {
			s.Incoming = append(s.Incoming, r.PacketID)
		} else {
			l.dropped.other++
		}
		return nil
	})
}

// readMessages reads the stubs of all messages.
func (l *loader) readMessages(ctx context.Context) error {
	return eachStub(ctx, l.conn, func(m engine.Stub, retained bool) error {
		l.messages = append(l.messages, m)
		l.snapshot.LastMessageID = m.ID
		if retained {
			l.retained = append(l.retained, m.ID)
		}
		return nil
	})
}

// readRetained reads the retained messages. Of two for one topic, which only damage to
// the file can cause, it keeps the newer one.
func (l *loader) readRetained(ctx context.Context) error {
	all := make([]*engine.Message, 0, len(l.retained))
	l.counts.reserve(len(l.messages), len(l.retained))
	for _, s := range ranges(l.retained) {
		err := eachMessageIn(ctx, l.conn, s, func(m *engine.Message, retained bool) error {
			if retained {
				all = append(all, m)
				l.counts.retained[m.Topic] = m.ID
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(all) > len(l.counts.retained) {
		all = slices.DeleteFunc(all, func(m *engine.Message) bool { return l.counts.retained[m.Topic] != m.ID })
	}
	for _, m := range all {
		l.counts.refs[m.ID]++
	}
	l.snapshot.Retained = all
	return nil
}

func (l *loader) readQueues(ctx context.Context) error {
	return eachQueued(ctx, l.conn, func(message uint64, r engine.QueueRecord) error {
		s := l.sessions[r.SessionID]
		stub, ok := l.find(message)
		if s == nil || !ok {
			l.dropped.queued++
			return nil
		}
		r.Stub, r.Share = stub, l.intern(r.Share)
		s.Queue = append(s.Queue, r)
		l.counts.refs[message]++
		return nil
	})
}

// intern returns a shared copy of share: many queue rows name the same few shares.
func (l *loader) intern(share string) string {
	known, ok := l.shares[share]
	if !ok {
		l.shares[share], known = share, share
	}
	return known
}

// find returns the stub of a message. Its calls must be in order of IDs.
func (l *loader) find(id uint64) (engine.Stub, bool) {
	for ; l.at < len(l.messages) && l.messages[l.at].ID <= id; l.at++ {
		if l.messages[l.at].ID == id {
			return l.messages[l.at], true
		}
	}
	return engine.Stub{}, false
}

// finish sorts the queues and counts messages to which no row refers.
func (l *loader) finish() {
	for i := range l.snapshot.Sessions {
		s := &l.snapshot.Sessions[i]
		slices.SortFunc(s.Queue, func(a, b engine.QueueRecord) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, r := range s.Queue {
			l.counts.enqueue(s.ID, r.Seq, r.Stub.ID)
		}
	}
	l.dropped.messages = len(l.messages) - len(l.counts.refs)
	l.stored = len(l.messages)
	l.messages, l.retained = nil, nil
}

// clean deletes the rows that load dropped.
func clean(ctx context.Context, conn *storage.Conn) error {
	return conn.Transact(ctx, func(tx storage.Tx) error {
		for _, q := range []string{
			`DELETE FROM subscription WHERE session NOT IN (SELECT id FROM session)`,
			`DELETE FROM incoming WHERE session NOT IN (SELECT id FROM session)`,
			`DELETE FROM queue WHERE session NOT IN (SELECT id FROM session) OR message NOT IN (SELECT id FROM message)`,
			`UPDATE message SET retained = 0 WHERE retained AND id NOT IN (SELECT max(id) FROM message WHERE retained GROUP BY topic)`,
			`DELETE FROM message WHERE NOT retained AND id NOT IN (SELECT message FROM queue)`,
		} {
			if err := tx.Run(q); err != nil {
				return err
			}
		}
		return nil
	})
}
