CREATE TABLE block (
	id      INTEGER PRIMARY KEY, -- queue << 43 | ID of the first entry
	count   INTEGER NOT NULL,
	bytes   INTEGER NOT NULL, -- as messages count against bounds
	entries BLOB NOT NULL
) STRICT;

CREATE TABLE clock (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	service INTEGER NOT NULL,
	wall    INTEGER NOT NULL,
	boot    TEXT NOT NULL,
	booted  INTEGER NOT NULL
) STRICT;

CREATE TABLE config (
	broker_id TEXT NOT NULL,
	bridge_id TEXT NOT NULL,
	document  BLOB NOT NULL,
	PRIMARY KEY (broker_id, bridge_id)
) STRICT;

CREATE TABLE dead (
	id          INTEGER PRIMARY KEY, -- queue << 43 | ID that the entry had
	rejected_at INTEGER NOT NULL,
	attempts    INTEGER NOT NULL,
	bytes       INTEGER NOT NULL,
	reason      TEXT NOT NULL,
	entry       BLOB NOT NULL -- a block of one
) STRICT;

CREATE TABLE identity (
	name TEXT NOT NULL
) STRICT;

CREATE TABLE probe (
	id     INTEGER PRIMARY KEY,
	filler BLOB NOT NULL
) STRICT;

CREATE TABLE queue (
	id         INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 1048575),
	broker_id  TEXT NOT NULL,
	bridge_id  TEXT NOT NULL,
	connection TEXT NOT NULL,
	gone       INTEGER NOT NULL DEFAULT 0 CHECK (gone IN (0, 1)),
	messages   INTEGER NOT NULL DEFAULT 0,
	bytes      INTEGER NOT NULL DEFAULT 0,
	next       INTEGER NOT NULL DEFAULT 1 CHECK (next BETWEEN 1 AND 8796093022207), -- the ID of the next entry
	dead       INTEGER NOT NULL DEFAULT 0, -- dead letters
	dead_bytes INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE removed (
	block INTEGER PRIMARY KEY,
	count INTEGER NOT NULL,
	bytes INTEGER NOT NULL,
	which BLOB NOT NULL -- a bit for each entry
) STRICT;

CREATE UNIQUE INDEX queue_connection ON queue (broker_id, bridge_id, connection) WHERE gone = 0;

