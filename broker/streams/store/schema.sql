CREATE TABLE block (
	id       INTEGER PRIMARY KEY, -- stream << 40 | sequence number
	first_at INTEGER NOT NULL,
	last_at  INTEGER NOT NULL,
	count    INTEGER NOT NULL,
	bytes    INTEGER NOT NULL, -- of messages
	messages BLOB NOT NULL
) STRICT;

CREATE TABLE clock (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	service INTEGER NOT NULL,
	wall    INTEGER NOT NULL,
	boot    TEXT NOT NULL,
	booted  INTEGER NOT NULL
) STRICT;

CREATE TABLE log (
	stream   INTEGER PRIMARY KEY,
	messages INTEGER NOT NULL,
	bytes    INTEGER NOT NULL,
	next     INTEGER NOT NULL, -- the sequence number of the next block
	last_at  INTEGER NOT NULL  -- when the last message came that was ever stored
) STRICT;

CREATE TABLE state (
	stream INTEGER PRIMARY KEY,
	state  BLOB NOT NULL
) STRICT;

CREATE TABLE stream (
	id              INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 8388607),
	broker_id       TEXT NOT NULL,
	streamname      TEXT NOT NULL,
	sourcetopic     TEXT NOT NULL,
	targettopic     TEXT NOT NULL,
	targetqos       INTEGER NOT NULL,
	ttl             INTEGER NOT NULL,
	active          INTEGER NOT NULL CHECK (active IN (0, 1)),
	process         INTEGER NOT NULL CHECK (process IN (0, 1)),
	persist         INTEGER NOT NULL CHECK (persist IN (0, 1)),
	key             TEXT NOT NULL,
	textname        TEXT NOT NULL,
	textdescription TEXT NOT NULL,
	query           TEXT NOT NULL, uid INTEGER NOT NULL DEFAULT 0,
	UNIQUE (broker_id, streamname)
) STRICT;

