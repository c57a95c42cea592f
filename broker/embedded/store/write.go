package store

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// writer writes a group of changes within a transaction. After the first error, which
// it keeps, it writes nothing more.
type writer struct {
	tx     storage.Tx // valid while write runs
	plan   *plan
	writes writes
	err    error
}

// write writes a group by its plan, and the position in a shared log unless the index
// of that is 0. Rows are deleted before others are put.
func (w *writer) write(tx storage.Tx, group []*engine.Changes, at position) error {
	w.tx, w.err = tx, nil
	if at.index != 0 {
		w.exec(putApplied, at.values()...)
	}
	for _, c := range group {
		w.sessions(c)
		w.incoming(c)
	}
	for session := range w.plan.ended {
		w.exec(deleteSubscriptions, int64(session))
		w.exec(deleteAllIncoming, int64(session))
		w.exec(deleteSession, int64(session))
	}
	w.plan.writes(&w.writes)
	w.messages()
	w.queues()
	return w.err
}

// exec runs a statement. Integers must be int64. Its error names only the statement,
// because the values are users' data.
func (w *writer) exec(s statement, values ...driver.Value) {
	if w.err != nil {
		return
	}
	if err := w.tx.Exec(int(s), values...); err != nil {
		w.err = fmt.Errorf("%s: %w", names[s], err)
	}
}

// names are the statements as errors name them.
var names = [statements]string{
	putSession: "put a session", deleteSession: "delete a session",
	putSubscription: "put a subscription", deleteSubscription: "delete a subscription", deleteSubscriptions: "delete subscriptions",
	putIncoming: "put a packet identifier", deleteIncoming: "delete a packet identifier", deleteAllIncoming: "delete packet identifiers",
	putMessage: "put a message", setRetained: "retain a message", deleteMessages: "delete messages",
	putQueued: "put a queued message", setReleased: "release a message",
	deleteQueued: "delete a queued message", deleteQueues: "delete queued messages",
	putApplied: "put how far a log was applied", deleteApplied: "forget how far a log was applied",
}

func (w *writer) sessions(c *engine.Changes) {
	for i := range c.PutSessions {
		if !w.plan.hasEnded(c.PutSessions[i].ID) {
			w.session(&c.PutSessions[i])
		}
	}
	for _, r := range c.Subscribed {
		if !w.plan.hasEnded(r.SessionID) {
			w.exec(putSubscription, int64(r.SessionID), r.Filter, int64(r.Options), int64(r.ID))
		}
	}
	for _, r := range c.Unsubscribed {
		w.exec(deleteSubscription, int64(r.SessionID), r.Filter)
	}
}

func (w *writer) session(r *engine.SessionRecord) {
	will, err := encodeWill(r.Will)
	if err != nil {
		w.err = err
		return
	}
	w.exec(putSession, int64(r.ID), r.ClientID, r.Username, bit(r.Anonymous), int64(r.Version), bit(r.Clean),
		int64(r.KeepAlive), int64(r.ExpiryInterval), r.CreatedAt, r.ConnectedAt, r.DisconnectedAt,
		r.Address, will, r.WillDueAt, int64(r.SentSeq))
}

func (w *writer) incoming(c *engine.Changes) {
	for _, r := range c.Received {
		if !w.plan.hasEnded(r.SessionID) {
			w.exec(putIncoming, int64(r.SessionID), int64(r.PacketID))
		}
	}
	for _, r := range c.Forgotten {
		w.exec(deleteIncoming, int64(r.SessionID), int64(r.PacketID))
	}
}

func (w *writer) messages() {
	for _, s := range w.writes.spans {
		w.exec(deleteMessages, int64(s.from), int64(s.to))
	}
	for i := range w.writes.put {
		u, m := &w.writes.put[i], w.writes.put[i].message
		w.exec(putMessage, int64(m.ID), m.Topic, blob(m.Payload), blob(m.Properties), int64(m.QoS), bit(m.Retain), bit(u.retained > 0),
			m.CreatedAt, m.ExpiresAt, text(m.Publisher), text(m.Username))
	}
	for _, u := range w.writes.changed {
		w.exec(setRetained, bit(u.retained > 0), int64(u.id))
	}
}

// queues writes the rows of the queues. The rows of deleted messages are deleted by the
// spans of their messages.
func (w *writer) queues() {
	for _, s := range w.writes.spans {
		w.exec(deleteQueues, int64(s.from), int64(s.to))
	}
	for _, r := range w.plan.dequeued {
		if w.plan.staysStored(r.message) {
			w.exec(deleteQueued, int64(r.message), int64(r.session), int64(r.seq))
		}
	}
	for i := range w.plan.enqueued {
		if r := &w.plan.enqueued[i]; r.Message != nil {
			w.exec(putQueued, int64(r.Message.ID), int64(r.SessionID), int64(r.Seq), int64(r.QoS), bit(r.Retain), bit(r.Released),
				blob(encodeIDs(r.SubscriptionIDs)), text(r.Share))
		}
	}
	for _, r := range w.plan.released {
		w.exec(setReleased, int64(r.message), int64(r.session), int64(r.seq))
	}
}

// bit, text and blob return values as the tables store them.
func bit(b bool) driver.Value {
	if b {
		return int64(1)
	}
	return int64(0)
}

func text(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

func blob(b []byte) driver.Value {
	if len(b) == 0 {
		return nil
	}
	return b
}

func encodeWill(r *engine.WillRecord) (driver.Value, error) {
	if r == nil {
		return nil, nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode a Will: %w", err)
	}
	return string(b), nil
}
