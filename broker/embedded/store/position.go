package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// position is the position in a shared log up to which it is applied, and the part of
// the messages that the log covers. The index is 0 without a log.
//
// The last IDs are the greatest that the log ever assigned, though their message or
// session may be deleted. Without them a broker that begins to serve could assign them
// again. Then, with several groups applied at once, the old message of an ID would be
// taken for the new one, and the result would depend on how the log is grouped.
type position struct {
	index uint64
	part  Part
	last  lastIDs
}

// lastIDs are the greatest IDs of a message and of a session.
type lastIDs struct{ message, session uint64 }

// readPosition reads the stored position.
func readPosition(ctx context.Context, conn *sql.Conn) (at position, err error) {
	const q = `SELECT applied, part, last_message, last_session FROM message_log`
	err = conn.QueryRowContext(ctx, q).Scan(&at.index, &at.part, &at.last.message, &at.last.session)
	if errors.Is(err, sql.ErrNoRows) {
		return position{part: Everything}, nil
	}
	return at, err
}

// values returns the position as a row of its table.
func (at position) values() []driver.Value {
	return []driver.Value{int64(at.index), int64(at.part), int64(at.last.message), int64(at.last.session)}
}

// put stores the position.
func (at position) put(tx storage.Tx) error { return tx.Exec(int(putApplied), at.values()...) }

// advance moves the position to the end of a group.
func (at *position) advance(index uint64, group []*engine.Changes) {
	at.index = index
	for _, c := range group {
		at.last.add(c)
	}
}

// add raises the IDs to those that changes assign.
func (n *lastIDs) add(c *engine.Changes) {
	for i := range c.PutSessions {
		n.session = max(n.session, c.PutSessions[i].ID)
	}
	for _, m := range c.Messages {
		n.message = max(n.message, m.ID)
	}
	for i := range c.Enqueued {
		n.message = max(n.message, c.Enqueued[i].Message.ID)
	}
	for _, r := range c.Retained {
		if r.Message != nil {
			n.message = max(n.message, r.Message.ID)
		}
	}
}

// readLastIDs returns the greatest IDs up to a position: those of the log, and those of
// what was stored before it.
func readLastIDs(ctx context.Context, conn *sql.Conn, at position) (lastIDs, error) {
	const q = `SELECT coalesce((SELECT max(id) FROM message), 0), coalesce((SELECT max(id) FROM session), 0)`
	var stored lastIDs
	err := conn.QueryRowContext(ctx, q).Scan(&stored.message, &stored.session)
	return lastIDs{max(stored.message, at.last.message), max(stored.session, at.last.session)}, err
}
