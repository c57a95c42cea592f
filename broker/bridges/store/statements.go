package store

// statement identifies a prepared statement of the committer.
type statement int

const (
	putBlock statement = iota
	deleteBlocks
	listBlocks
	setRemoved
	deleteRemoved
	setQueue
	deleteQueue
	sumBlocks
	sumQueue
	putDead
	listDead
	sumDead
	deleteDead
	fill
	drain

	statements // number of statements
)

var texts = [statements]string{
	putBlock:     `INSERT INTO block (id, count, bytes, entries) VALUES (?, ?, ?, ?)`,
	deleteBlocks: `DELETE FROM block WHERE id BETWEEN ? AND ?`,
	listBlocks:   selectBlocks,

	setRemoved: `
		INSERT INTO removed (block, count, bytes, which) VALUES (?, ?, ?, ?)
		ON CONFLICT (block) DO UPDATE SET count = excluded.count, bytes = excluded.bytes, which = excluded.which`,
	deleteRemoved: `DELETE FROM removed WHERE block BETWEEN ? AND ?`,

	setQueue:    `UPDATE queue SET messages = ?, bytes = ?, next = ?, dead = ?, dead_bytes = ? WHERE id = ?`,
	deleteQueue: `DELETE FROM queue WHERE id = ?`,
	sumBlocks:   `SELECT id, bytes FROM block WHERE id >= ? AND id < ? ORDER BY id LIMIT ?`,

	sumQueue: `
		SELECT coalesce(sum(block.count - coalesce(removed.count, 0)), 0), coalesce(sum(block.bytes - coalesce(removed.bytes, 0)), 0)
		FROM block LEFT JOIN removed ON removed.block = block.id
		WHERE block.id >= ? AND block.id < ?`,

	putDead: `
		INSERT INTO dead (id, rejected_at, attempts, bytes, reason, entry) VALUES (?, ?, ?, ?, ?, ?)`,
	listDead: `
		SELECT id, bytes, entry FROM dead
		WHERE id >= ? AND id < ?
		ORDER BY id LIMIT ?`,
	sumDead:    `SELECT id, bytes FROM dead WHERE id >= ? AND id < ? ORDER BY id LIMIT ?`,
	deleteDead: `DELETE FROM dead WHERE id BETWEEN ? AND ?`,

	// A filler that was left behind is deleted by the next attempt.
	fill:  `INSERT INTO probe (id, filler) VALUES (0, zeroblob(?))`,
	drain: `DELETE FROM probe`,
}

// names are the statements' names in errors.
var names = [statements]string{
	putBlock: "put a block", deleteBlocks: "delete blocks", listBlocks: "list blocks",
	setRemoved: "note what was removed", deleteRemoved: "forget what was removed",
	setQueue: "change a queue", deleteQueue: "delete a queue", sumBlocks: "sum up blocks", sumQueue: "sum up a queue",
	putDead: "put a dead letter", listDead: "list dead letters", sumDead: "sum up dead letters", deleteDead: "delete dead letters",
	fill: "fill", drain: "drain",
}

// selectBlocks selects blocks from the last one that begins at or before an entry, up to a row
// number. The parameters are the queue's first number, the entry's and the end.
const selectBlocks = `
	SELECT block.id, block.count, block.bytes, block.entries, removed.count, removed.bytes, removed.which
	FROM block LEFT JOIN removed ON removed.block = block.id
	WHERE block.id >= coalesce((SELECT max(id) FROM block WHERE id BETWEEN ?1 AND ?2), ?2) AND block.id < ?3
	ORDER BY block.id LIMIT ?4`
