CREATE TABLE entry (
	idx         INTEGER PRIMARY KEY,
	term        INTEGER NOT NULL,
	type        INTEGER NOT NULL,
	data        BLOB NOT NULL,
	extensions  BLOB NOT NULL,
	appended_at INTEGER NOT NULL -- nanoseconds since 1970 by the leader's clock, 0 where that is not known
) STRICT;

CREATE TABLE kept (
	name  TEXT PRIMARY KEY,
	value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

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

