-- +goose Up

-- The streams and bridges of the embedded brokers of a cluster belong to no connection: broker_id is NULL.
CREATE TABLE all_definitions (
	id        TEXT PRIMARY KEY NOT NULL, -- kind/broker_id/name
	kind      TEXT NOT NULL CHECK (kind IN ('stream', 'bridge')),
	broker_id TEXT REFERENCES brokers (id) ON DELETE CASCADE,
	name      TEXT NOT NULL,    -- of the stream, or the id of the bridge
	rev       INTEGER NOT NULL, -- another one after each change
	document  BLOB NOT NULL     -- of a bridge: sealed by the caller
) STRICT;
INSERT INTO all_definitions (id, kind, broker_id, name, rev, document) SELECT id, kind, broker_id, name, rev, document FROM definitions;
DROP TABLE definitions;
ALTER TABLE all_definitions RENAME TO definitions;
CREATE INDEX definitions_broker ON definitions (broker_id, kind, name);

-- Whether those of the embedded broker of this machine are among them; else they are stored elsewhere.
ALTER TABLE local_state ADD COLUMN embedded INTEGER NOT NULL DEFAULT 0 CHECK (embedded IN (0, 1));

-- Of which content the messages are that this machine stores elsewhere for those of the embedded broker: a random name; '' = the first one.
ALTER TABLE local_state ADD COLUMN embedded_content TEXT NOT NULL DEFAULT '';
