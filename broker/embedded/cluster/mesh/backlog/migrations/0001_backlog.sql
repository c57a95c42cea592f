-- +goose Up

-- The cluster of the nodes.
CREATE TABLE cluster (
	uuid TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- The nodes, in which generation, and whether their subscriptions were stored completely once.
CREATE TABLE node (
	id         INTEGER PRIMARY KEY,
	generation INTEGER NOT NULL,
	complete   INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What the clients of a node have subscribed to with sessions that outlive their connections.
CREATE TABLE route (
	node     INTEGER NOT NULL,
	filter   TEXT NOT NULL,
	interest INTEGER NOT NULL,
	PRIMARY KEY (node, filter)
) STRICT, WITHOUT ROWID;

-- Messages that wait for a node. The id is the number of the node, shifted by 47 bits, and the
-- number of the message.
CREATE TABLE message (
	id   INTEGER PRIMARY KEY,
	data BLOB NOT NULL
) STRICT;
