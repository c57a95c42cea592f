package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"signalbox/broker/embedded/engine"
)

// loader reads all tables in the order of their keys, once each, and puts
// together what belongs together.
type loader struct {
	conn     *sql.Conn
	snapshot *engine.Snapshot
	books    *ledger
	sessions map[uint64]*engine.StoredSession
	messages []*engine.Message // in order of their numbers
	at       int               // in messages, where the queues' rows have come to
	retained map[string]*engine.Message
	dropped  dropped
}

// dropped counts the rows that refer to nothing, or that nothing refers to.
// Other ones are of subscriptions and packet identifiers.
type dropped struct{ messages, queued, other int }

func (k disk) load(ctx context.Context) (*loader, error) {
	l := &loader{
		conn: k.SQL(), snapshot: &engine.Snapshot{}, books: newLedger(),
		sessions: map[uint64]*engine.StoredSession{}, retained: map[string]*engine.Message{},
	}
	for _, step := range []struct {
		what string
		read func(context.Context) error
	}{
		{"sessions", l.readSessions}, {"subscriptions", l.readSubscriptions}, {"packet identifiers", l.readIncoming},
		{"messages", l.readMessages}, {"queues", l.readQueues},
	} {
		if err := step.read(ctx); err != nil {
			return nil, fmt.Errorf("read %s: %w", step.what, err)
		}
	}
	l.finish()
	if l.dropped != (dropped{}) {
		if err := k.clean(ctx); err != nil {
			return nil, fmt.Errorf("delete what refers to nothing: %w", err)
		}
	}
	return l, nil
}

func (l *loader) readSessions(ctx context.Context) error {
	const q = `
		SELECT id, clientid, username, anonymous, version, clean, keep_alive, expiry_interval,
			created_at, connected_at, disconnected_at, address, will, will_due_at, sent_seq
		FROM session ORDER BY id`
	var r engine.SessionRecord
	var will sql.NullString
	err := each(ctx, l.conn, q, func() (err error) {
		record := r
		if record.Will, err = decodeWill(will); err != nil {
			return err
		}
		l.snapshot.Sessions = append(l.snapshot.Sessions, engine.StoredSession{SessionRecord: record})
		l.snapshot.LastSessionID = r.ID
		return nil
	}, &r.ID, &r.ClientID, &r.Username, &r.Anonymous, &r.Version, &r.Clean, &r.KeepAlive, &r.ExpiryInterval,
		&r.CreatedAt, &r.ConnectedAt, &r.DisconnectedAt, &r.Address, &will, &r.WillDueAt, &r.SentSeq)
	for i := range l.snapshot.Sessions {
		s := &l.snapshot.Sessions[i]
		l.sessions[s.ID] = s
	}
	return err
}

func decodeWill(text sql.NullString) (*engine.WillRecord, error) {
	if !text.Valid {
		return nil, nil
	}
	w := &engine.WillRecord{}
	if err := json.Unmarshal([]byte(text.String), w); err != nil {
		return nil, fmt.Errorf("decode a Will: %w", err)
	}
	return w, nil
}

func (l *loader) readSubscriptions(ctx context.Context) error {
	const q = `SELECT session, filter, options, id FROM subscription ORDER BY session, filter`
	var r engine.SubscriptionRecord
	return each(ctx, l.conn, q, func() error {
		if s := l.sessions[r.SessionID]; s != nil {
			s.Subscriptions = append(s.Subscriptions, r)
		} else {
			l.dropped.other++
		}
		return nil
	}, &r.SessionID, &r.Filter, &r.Options, &r.ID)
}

func (l *loader) readIncoming(ctx context.Context) error {
	const q = `SELECT session, packet_id FROM incoming ORDER BY session, packet_id`
	var r engine.IncomingRecord
	return each(ctx, l.conn, q, func() error {
		if s := l.sessions[r.SessionID]; s != nil {
			s.Incoming = append(s.Incoming, r.PacketID)
		} else {
			l.dropped.other++
		}
		return nil
	}, &r.SessionID, &r.PacketID)
}

// readMessages also finds what is retained. Of two messages for one topic, which
// only damage can bring about, the newer one counts.
func (l *loader) readMessages(ctx context.Context) error {
	const q = `
		SELECT id, topic, payload, properties, qos, retain, retained, created_at, expires_at,
			coalesce(publisher, ''), coalesce(username, '')
		FROM message ORDER BY id`
	var m engine.Message
	var retained bool
	return each(ctx, l.conn, q, func() error {
		kept := &engine.Message{
			ID: m.ID, Topic: m.Topic, Payload: m.Payload, Properties: m.Properties, QoS: m.QoS, Retain: m.Retain,
			CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt, Publisher: m.Publisher, Username: m.Username,
		}
		l.messages = append(l.messages, kept)
		l.snapshot.LastMessageID = kept.ID
		if retained {
			l.retained[kept.Topic] = kept
		}
		return nil
	}, &m.ID, &m.Topic, &m.Payload, &m.Properties, &m.QoS, &m.Retain, &retained, &m.CreatedAt, &m.ExpiresAt,
		&m.Publisher, &m.Username)
}

func (l *loader) readQueues(ctx context.Context) error {
	const q = `
		SELECT message, session, seq, qos, retain, released, subscription_ids, coalesce(share, '')
		FROM queue ORDER BY message, session, seq`
	var r engine.QueueRecord
	var message uint64
	var ids []byte
	return each(ctx, l.conn, q, func() (err error) {
		s, m := l.sessions[r.SessionID], l.find(message)
		if s == nil || m == nil {
			l.dropped.queued++
			return nil
		}
		record := r
		record.Message = m
		if record.SubscriptionIDs, err = decodeIDs(ids); err != nil {
			return err
		}
		s.Queue = append(s.Queue, record)
		l.books.refs[m.ID]++
		return nil
	}, &message, &r.SessionID, &r.Seq, &r.QoS, &r.Retain, &r.Released, &ids, &r.Share)
}

// find gives a message or nil. It must be asked in order.
func (l *loader) find(id uint64) *engine.Message {
	for ; l.at < len(l.messages) && l.messages[l.at].ID <= id; l.at++ {
		if l.messages[l.at].ID == id {
			return l.messages[l.at]
		}
	}
	return nil
}

// finish puts the queues and the retained messages in order and counts what
// nothing refers to.
func (l *loader) finish() {
	for i := range l.snapshot.Sessions {
		s := &l.snapshot.Sessions[i]
		slices.SortFunc(s.Queue, func(a, b engine.QueueRecord) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, r := range s.Queue {
			l.books.enqueue(s.ID, r.Seq, r.Message.ID)
		}
	}
	for topic, m := range l.retained {
		l.books.retained[topic] = m.ID
		l.books.refs[m.ID]++
		l.snapshot.Retained = append(l.snapshot.Retained, m)
	}
	slices.SortFunc(l.snapshot.Retained, func(a, b *engine.Message) int { return cmp.Compare(a.ID, b.ID) })
	l.dropped.messages = len(l.messages) - len(l.books.refs)
}

// clean deletes what load dropped.
func (k disk) clean(ctx context.Context) error {
	return k.Transact(ctx, func() error {
		for _, q := range []string{
			`DELETE FROM subscription WHERE session NOT IN (SELECT id FROM session)`,
			`DELETE FROM incoming WHERE session NOT IN (SELECT id FROM session)`,
			`DELETE FROM queue WHERE session NOT IN (SELECT id FROM session) OR message NOT IN (SELECT id FROM message)`,
			`UPDATE message SET retained = 0 WHERE retained AND id NOT IN (SELECT max(id) FROM message WHERE retained GROUP BY topic)`,
			`DELETE FROM message WHERE NOT retained AND id NOT IN (SELECT message FROM queue)`,
		} {
			if err := k.Run(q); err != nil {
				return err
			}
		}
		return nil
	})
}

// each runs a query and calls f for each row, with its columns in places.
func each(ctx context.Context, conn *sql.Conn, q string, f func() error, places ...any) (err error) {
	rows, err := conn.QueryContext(ctx, q)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}
