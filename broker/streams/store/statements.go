package store

// statement names a prepared statement of the committer.
type statement int

const (
	putBlock statement = iota
	setBlock
	deleteBlocks
	listBlocks
	readBlock
	setLog
	deleteLog
	putState
	deleteState
	fill
	drain

	statements // how many there are
)

var texts = [statements]string{
	putBlock: `INSERT INTO block (id, first_at, last_at, count, bytes, messages) VALUES (?, ?, ?, ?, ?, ?)`,
	setBlock: `UPDATE block SET first_at = ?, last_at = ?, count = ?, bytes = ?, messages = ? WHERE id = ?`,

	deleteBlocks: `DELETE FROM block WHERE id BETWEEN ? AND ?`,

	listBlocks: `
		SELECT id, first_at, last_at, count, bytes FROM block
		WHERE id >= ? AND id < ?
		ORDER BY id LIMIT ?`,
	readBlock: `SELECT messages FROM block WHERE id = ?`,

	setLog:    `UPDATE log SET messages = ?, bytes = ?, next = ?, last_at = ? WHERE stream = ?`,
	deleteLog: `DELETE FROM log WHERE stream = ?`,

	putState: `
		INSERT INTO state (stream, state) VALUES (?, ?)
		ON CONFLICT (stream) DO UPDATE SET state = excluded.state`,
	deleteState: `DELETE FROM state WHERE stream = ?`,

	// What is put to see whether there is room, under a number that no stream has.
	// If it is left behind, the next attempt takes it away.
	fill:  `INSERT INTO state (stream, state) VALUES (0, zeroblob(?))`,
	drain: `DELETE FROM state WHERE stream = 0`,
}
