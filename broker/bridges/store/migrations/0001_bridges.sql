-- +goose Up

-- The store's own name, made once.
CREATE TABLE identity (
	name TEXT NOT NULL
) STRICT;

-- The configuration of a broker's bridge, sealed.
CREATE TABLE config (
	broker_id TEXT NOT NULL,
	bridge_id TEXT NOT NULL,
	document  BLOB NOT NULL,
	PRIMARY KEY (broker_id, bridge_id)
) STRICT;

-- The queue of a connection, as a whole. It changes together with what it holds.
-- Its number is never given again, and small enough to be a part of the number of
-- a block. One that is gone is what is left to be deleted.
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

CREATE UNIQUE INDEX queue_connection ON queue (broker_id, bridge_id, connection) WHERE gone = 0;

-- Entries that were stored together, in order, with IDs without gaps. The columns
-- come before the entries, so that they can be read without those.
CREATE TABLE block (
	id      INTEGER PRIMARY KEY, -- queue << 43 | ID of the first entry
	count   INTEGER NOT NULL,
	bytes   INTEGER NOT NULL, -- as messages count against bounds
	entries BLOB NOT NULL
) STRICT;

-- What was taken out of a block that has others, too.
CREATE TABLE removed (
	block INTEGER PRIMARY KEY,
	count INTEGER NOT NULL,
	bytes INTEGER NOT NULL,
	which BLOB NOT NULL -- a bit for each entry
) STRICT;

-- A message that a target does not take.
CREATE TABLE dead (
	id          INTEGER PRIMARY KEY, -- queue << 43 | ID that the entry had
	rejected_at INTEGER NOT NULL,
	attempts    INTEGER NOT NULL,
	bytes       INTEGER NOT NULL,
	reason      TEXT NOT NULL,
	entry       BLOB NOT NULL -- a block of one
) STRICT;

-- What is put to see whether there is room.
CREATE TABLE probe (
	id     INTEGER PRIMARY KEY,
	filler BLOB NOT NULL
) STRICT;
