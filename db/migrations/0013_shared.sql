-- +goose Up

-- The nodes of a cluster have the same content of this database, but for probe, audit_sinks,
-- data_directory and local_state.
CREATE TABLE shared_state (
	id            INTEGER PRIMARY KEY CHECK (id = 1),
	version       INTEGER NOT NULL, -- raised by each entry of the log that changes the content
	applied       INTEGER NOT NULL, -- index of the last entry applied; 0 = none, the content is this node's own
	reserved_by   TEXT NOT NULL,    -- origin that alone may change the content; '' = any
	reserved_left INTEGER NOT NULL  -- for how many entries
) STRICT;
INSERT INTO shared_state (id, version, applied, reserved_by, reserved_left) VALUES (1, 0, 0, '', 0);

-- What belongs to this copy.
CREATE TABLE local_state (
	id     INTEGER PRIMARY KEY CHECK (id = 1),
	origin TEXT NOT NULL, -- the name of this copy, a random text
	key    BLOB           -- of all secrets, itself sealed by the caller; NULL = the caller's own key seals them
) STRICT;
INSERT INTO local_state (id, origin) VALUES (1, '');

-- The copy whose process has begun the operation.
ALTER TABLE audit_open ADD COLUMN origin TEXT NOT NULL DEFAULT '';
