package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"signalbox/broker/embedded/engine"
)

// eachSession reads the sessions in order of IDs.
func eachSession(ctx context.Context, conn *sql.Conn, f func(engine.SessionRecord) error) error {
	const q = `
		SELECT id, clientid, username, anonymous, version, clean, keep_alive, expiry_interval,
			created_at, connected_at, disconnected_at, address, will, will_due_at, sent_seq
		FROM session ORDER BY id`
	var r engine.SessionRecord
	var will sql.NullString
	return each(ctx, conn, q, func() (err error) {
		record := r
		if record.Will, err = decodeWill(will); err != nil {
			return err
		}
		return f(record)
	}, &r.ID, &r.ClientID, &r.Username, &r.Anonymous, &r.Version, &r.Clean, &r.KeepAlive, &r.ExpiryInterval,
		&r.CreatedAt, &r.ConnectedAt, &r.DisconnectedAt, &r.Address, &will, &r.WillDueAt, &r.SentSeq)
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

// eachSubscription reads the subscriptions, session by session.
func eachSubscription(ctx context.Context, conn *sql.Conn, f func(engine.SubscriptionRecord) error) error {
	const q = `SELECT session, filter, options, id FROM subscription ORDER BY session, filter`
	var r engine.SubscriptionRecord
	return each(ctx, conn, q, func() error { return f(r) }, &r.SessionID, &r.Filter, &r.Options, &r.ID)
}

// eachIncoming reads the packet identifiers, session by session.
func eachIncoming(ctx context.Context, conn *sql.Conn, f func(engine.IncomingRecord) error) error {
	const q = `SELECT session, packet_id FROM incoming ORDER BY session, packet_id`
	var r engine.IncomingRecord
	return each(ctx, conn, q, func() error { return f(r) }, &r.SessionID, &r.PacketID)
}

// eachMessage reads the messages of a part in order of IDs, and whether a topic retains
// each.
func eachMessage(ctx context.Context, conn *sql.Conn, part Part, f func(m *engine.Message, retained bool) error) error {
	const q = selectMessage + `WHERE retained >= ? ORDER BY id`
	rows, err := conn.QueryContext(ctx, q, part == RetainedOnly)
	if err != nil {
		return err
	}
	return scanMessages(rows, f)
}

// eachMessageIn reads the retained messages of a span, in order of IDs.
func eachMessageIn(ctx context.Context, conn *sql.Conn, s span, f func(m *engine.Message, retained bool) error) error {
	rows, err := conn.QueryContext(ctx, selectMessage+`WHERE id BETWEEN ? AND ? AND retained ORDER BY id`, s.from, s.to)
	if err != nil {
		return err
	}
	return scanMessages(rows, f)
}

const selectMessage = `
	SELECT id, topic, payload, properties, qos, retain, retained, created_at, expires_at,
		coalesce(publisher, ''), coalesce(username, '')
	FROM message `

// scanMessages calls f with each message of rows, and closes these.
func scanMessages(rows *sql.Rows, f func(m *engine.Message, retained bool) error) error {
	var m engine.Message
	var retained bool
	return scanAll(rows, func() error {
		return f(&engine.Message{
			ID: m.ID, Topic: m.Topic, Payload: m.Payload, Properties: m.Properties, QoS: m.QoS, Retain: m.Retain,
			CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt, Publisher: m.Publisher, Username: m.Username,
		}, retained)
	}, &m.ID, &m.Topic, &m.Payload, &m.Properties, &m.QoS, &m.Retain, &retained, &m.CreatedAt, &m.ExpiresAt,
		&m.Publisher, &m.Username)
}

// eachStub reads the stubs of all messages in order of IDs, and whether a topic retains
// each. SQLite takes the lengths from the headers of the records, and finds the later
// pages of a record by the pointer map that files with auto_vacuum have. So a message of
// 2 MB costs no more than a small one.
func eachStub(ctx context.Context, conn *sql.Conn, f func(m engine.Stub, retained bool) error) error {
	const q = `
		SELECT id, retained, expires_at,
			octet_length(topic) + coalesce(octet_length(payload), 0) + coalesce(octet_length(properties), 0)
		FROM message ORDER BY id`
	var m engine.Stub
	var retained bool
	return each(ctx, conn, q, func() error { return f(m, retained) }, &m.ID, &retained, &m.ExpiresAt, &m.Size)
}

// eachQueued reads the queue rows in order of message IDs, which it passes to f in
// place of the messages.
func eachQueued(ctx context.Context, conn *sql.Conn, f func(message uint64, r engine.QueueRecord) error) error {
	const q = `
		SELECT message, session, seq, qos, retain, released, subscription_ids, coalesce(share, '')
		FROM queue ORDER BY message, session, seq`
	var r engine.QueueRecord
	var message uint64
	var ids []byte
	return each(ctx, conn, q, func() (err error) {
		record := r
		if record.SubscriptionIDs, err = decodeIDs(ids); err != nil {
			return err
		}
		return f(message, record)
	}, &message, &r.SessionID, &r.Seq, &r.QoS, &r.Retain, &r.Released, &ids, &r.Share)
}

// each runs a query and calls f for each row, with its columns scanned into places.
func each(ctx context.Context, conn *sql.Conn, q string, f func() error, places ...any) error {
	rows, err := conn.QueryContext(ctx, q)
	if err != nil {
		return err
	}
	return scanAll(rows, f, places...)
}

// scanAll calls f for each row, with its columns scanned into places, and closes rows.
func scanAll(rows *sql.Rows, f func() error, places ...any) (err error) {
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
