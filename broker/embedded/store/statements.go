package store

// statement is a prepared statement. Rows are put one by one: statements for blocks of
// 4 to 64 rows were measured and gain nothing, because the driver searches all
// arguments for each parameter.
type statement int

const (
	putSession statement = iota
	deleteSession
	putSubscription
	deleteSubscription
	deleteSubscriptions
	putIncoming
	deleteIncoming
	deleteAllIncoming
	putMessage
	setRetained
	deleteMessages
	putQueued
	setReleased
	deleteQueued
	deleteQueues
	putApplied
	deleteApplied
	fill
	drain

	statements // how many there are
)

var texts = [statements]string{
	putSession: `
		INSERT INTO session (id, clientid, username, anonymous, version, clean, keep_alive, expiry_interval,
			created_at, connected_at, disconnected_at, address, will, will_due_at, sent_seq)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET clientid = excluded.clientid, username = excluded.username,
			anonymous = excluded.anonymous, version = excluded.version, clean = excluded.clean,
			keep_alive = excluded.keep_alive, expiry_interval = excluded.expiry_interval,
			created_at = excluded.created_at, connected_at = excluded.connected_at,
			disconnected_at = excluded.disconnected_at, address = excluded.address,
			will = excluded.will, will_due_at = excluded.will_due_at, sent_seq = excluded.sent_seq`,
	deleteSession: `DELETE FROM session WHERE id = ?`,

	putSubscription: `
		INSERT INTO subscription (session, filter, options, id) VALUES (?, ?, ?, ?)
		ON CONFLICT (session, filter) DO UPDATE SET options = excluded.options, id = excluded.id`,
	deleteSubscription:  `DELETE FROM subscription WHERE session = ? AND filter = ?`,
	deleteSubscriptions: `DELETE FROM subscription WHERE session = ?`,

	putIncoming:       `INSERT INTO incoming (session, packet_id) VALUES (?, ?) ON CONFLICT DO NOTHING`,
	deleteIncoming:    `DELETE FROM incoming WHERE session = ? AND packet_id = ?`,
	deleteAllIncoming: `DELETE FROM incoming WHERE session = ?`,

	putMessage: `
		INSERT INTO message (id, topic, payload, properties, qos, retain, retained, created_at, expires_at, publisher, username)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	setRetained:    `UPDATE message SET retained = ? WHERE id = ?`,
	deleteMessages: `DELETE FROM message WHERE id BETWEEN ? AND ?`,

	putQueued: `
		INSERT INTO queue (message, session, seq, qos, retain, released, subscription_ids, share)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
	setReleased:  `UPDATE queue SET released = 1 WHERE message = ? AND session = ? AND seq = ?`,
	deleteQueued: `DELETE FROM queue WHERE message = ? AND session = ? AND seq = ?`,
	deleteQueues: `DELETE FROM queue WHERE message BETWEEN ? AND ?`,

	putApplied: `
		INSERT INTO message_log (id, applied, part, last_message, last_session) VALUES (1, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET applied = excluded.applied, part = excluded.part,
			last_message = excluded.last_message, last_session = excluded.last_session`,
	deleteApplied: `DELETE FROM message_log`,

	// A probe of the free space is put under an ID that no message has. If a crash
	// leaves it, the next start deletes it, as no row refers to it.
	fill: `
		INSERT INTO message (id, topic, payload, qos, retain, retained, created_at, expires_at)
		VALUES (0, '', zeroblob(?), 0, 0, 0, 0, 0)`,
	drain: `DELETE FROM message WHERE id = 0`,
}
