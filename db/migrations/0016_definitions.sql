-- +goose Up

-- The streams and bridges that the program runs for broker connections. Their messages are in other files.
CREATE TABLE definitions (
	id        TEXT PRIMARY KEY NOT NULL, -- kind/broker_id/name
	kind      TEXT NOT NULL CHECK (kind IN ('stream', 'bridge')),
	broker_id TEXT NOT NULL REFERENCES brokers (id) ON DELETE CASCADE,
	name      TEXT NOT NULL,    -- of the stream, or the id of the bridge
	rev       INTEGER NOT NULL, -- another one after each change
	document  BLOB NOT NULL     -- of a bridge: sealed by the caller
) STRICT;
CREATE INDEX definitions_broker ON definitions (broker_id, kind, name);

-- Whether what this machine has stored of them elsewhere is among them.
ALTER TABLE local_state ADD COLUMN imported INTEGER NOT NULL DEFAULT 0 CHECK (imported IN (0, 1));

-- The copy at whose node they run, by its origin. '' = at the node whose own the content is; 'left' = other nodes, with
-- which this one has shared them, go on with them.
ALTER TABLE shared_state ADD COLUMN host TEXT NOT NULL DEFAULT '';

-- The name with which bridges connect to other brokers, at whichever node they run; '' = that of this machine.
ALTER TABLE shared_state ADD COLUMN bridge_owner TEXT NOT NULL DEFAULT '';

-- What distinguishes the client ids with which they connect to the brokers from those of other nodes that go on with them.
ALTER TABLE shared_state ADD COLUMN client_suffix TEXT NOT NULL DEFAULT '';
