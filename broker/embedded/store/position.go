package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"signalbox/broker/embedded/engine"
)

// position is how far a shared log is applied, and what that log is about. The
// index is 0 where there is none.
//
// The last numbers are those that the log ever gave, though what had them may be
// gone. Without them a broker that begins to serve could give them again, and
// where several groups are applied at once, what had a number and what has it now
// would be taken for the same.
type position struct {
	index uint64
	part  Part
	last  lastIDs
}

// lastIDs are the last ones of a message and a session.
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

// values are the position as its table holds it.
func (at position) values() []driver.Value {
	return []driver.Value{int64(at.index), int64(at.part), int64(at.last.message), int64(at.last.session)}
}

// advance goes on to where a group ends.
func (at *position) advance(index uint64, group []*engine.Changes) {
	at.index = index
	for _, c := range group {
		at.last.add(c)
	}
}

// add takes notice of the numbers that changes give.
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

// readLastIDs reads the last numbers that were given up to a position: those of the log,
// and those of what was there before.
func readLastIDs(ctx context.Context, conn *sql.Conn, at position) (lastIDs, error) {
	const q = `SELECT coalesce((SELECT max(id) FROM message), 0), coalesce((SELECT max(id) FROM session), 0)`
	var stored lastIDs
	err := conn.QueryRowContext(ctx, q).Scan(&stored.message, &stored.session)
	return lastIDs{max(stored.message, at.last.message), max(stored.session, at.last.session)}, err
}
