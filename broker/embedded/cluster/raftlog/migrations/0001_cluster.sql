-- +goose Up

-- The log of the consensus. Its numbers have no holes: entries are added behind
-- the last one and taken away at either end.
CREATE TABLE entry (
	idx         INTEGER PRIMARY KEY,
	term        INTEGER NOT NULL,
	type        INTEGER NOT NULL,
	data        BLOB NOT NULL,
	extensions  BLOB NOT NULL,
	appended_at INTEGER NOT NULL -- nanoseconds since 1970 by the leader's clock, 0 where that is not known
) STRICT;

-- What is kept under a name: the terms and votes of the consensus (raft/…), and
-- what the cluster's node has to remember (cluster/…).
CREATE TABLE kept (
	name  TEXT PRIMARY KEY,
	value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Snapshots that are whole. Their contents are files beside this one, named by
-- the id; a file without a row is what is left of one that was not finished.
CREATE TABLE snapshot (
	id                TEXT PRIMARY KEY,
	version           INTEGER NOT NULL,
	idx               INTEGER NOT NULL,
	term              INTEGER NOT NULL,
	configuration     BLOB NOT NULL,
	configuration_idx INTEGER NOT NULL,
	size              INTEGER NOT NULL,
	crc               INTEGER NOT NULL -- CRC-64 (ECMA) of the contents
) STRICT, WITHOUT ROWID;
