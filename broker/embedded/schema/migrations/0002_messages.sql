-- +goose Up

-- A message that somebody waits for, or that is retained under its topic: once,
-- however many wait. Times are milliseconds; an empty text or blob is NULL. One
-- that nobody refers to any longer is deleted together with its last reference.
CREATE TABLE message (
	id         INTEGER PRIMARY KEY,
	topic      TEXT NOT NULL,
	payload    BLOB,
	properties BLOB,
	qos        INTEGER NOT NULL,
	retain     INTEGER NOT NULL,
	retained   INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL,
	publisher  TEXT,
	username   TEXT
) STRICT;

CREATE TABLE session (
	id              INTEGER PRIMARY KEY,
	clientid        TEXT NOT NULL,
	username        TEXT NOT NULL,
	anonymous       INTEGER NOT NULL,
	version         INTEGER NOT NULL,
	clean           INTEGER NOT NULL,
	keep_alive      INTEGER NOT NULL,
	expiry_interval INTEGER NOT NULL,
	created_at      INTEGER NOT NULL,
	connected_at    INTEGER NOT NULL,
	disconnected_at INTEGER NOT NULL,
	address         TEXT NOT NULL,
	will            TEXT,
	will_due_at     INTEGER NOT NULL,
	sent_seq        INTEGER NOT NULL -- up to here the queue was sent, once at least
) STRICT;

CREATE TABLE subscription (
	session INTEGER NOT NULL,
	filter  TEXT NOT NULL,
	options INTEGER NOT NULL,
	id      INTEGER NOT NULL,
	PRIMARY KEY (session, filter)
) STRICT, WITHOUT ROWID;

-- What waits for a session. The message comes first in the key, so that all who
-- wait for one are neighbours and the newest rows are together at the end,
-- whoever they are for. There are no foreign keys: the program keeps count.
CREATE TABLE queue (
	message          INTEGER NOT NULL,
	session          INTEGER NOT NULL,
	seq              INTEGER NOT NULL,
	qos              INTEGER NOT NULL,
	retain           INTEGER NOT NULL,
	released         INTEGER NOT NULL,
	subscription_ids BLOB,
	share            TEXT,
	PRIMARY KEY (message, session, seq)
) STRICT, WITHOUT ROWID;

-- Packet identifiers of QoS 2 messages that a client has sent and not released.
CREATE TABLE incoming (
	session   INTEGER NOT NULL,
	packet_id INTEGER NOT NULL,
	PRIMARY KEY (session, packet_id)
) STRICT, WITHOUT ROWID;
