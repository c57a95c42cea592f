package store

// statement identifies a prepared statement of the committer.
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
	probeInsert
	probeDelete

	statements // number of statements
)

var statementTexts = [statements]string{
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

	// The probe for free space, under an id that no stream has. A probe that
	// was left behind is deleted by the next one.
	probeInsert: `INSERT INTO state (stream, state) VALUES (0, zeroblob(?))`,
	probeDelete: `DELETE FROM state WHERE stream = 0`,
}
