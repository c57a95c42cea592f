-- +goose Up

-- The nodes whose subscriptions are stored completely.
CREATE TABLE node (
	id INTEGER PRIMARY KEY
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
