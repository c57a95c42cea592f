-- +goose Up

-- The audit log: a chain of rows, each with the SHA-256 of the one before it and of itself.
CREATE TABLE audit (
	seq        INTEGER PRIMARY KEY CHECK (seq > 0), -- without gaps
	time       INTEGER NOT NULL,
	actor_kind TEXT NOT NULL, -- '' = not authenticated
	actor_id   TEXT NOT NULL,
	actor_name TEXT NOT NULL,
	address    TEXT NOT NULL,
	user_agent TEXT NOT NULL,
	request_id TEXT NOT NULL,
	operation  TEXT NOT NULL,
	project_id TEXT NOT NULL, -- no reference: rows outlive what they are about
	broker_id  TEXT NOT NULL,
	object     TEXT NOT NULL,
	outcome    TEXT NOT NULL,
	status     INTEGER NOT NULL,
	code       TEXT NOT NULL,
	change     TEXT NOT NULL, -- JSON; '' = none
	duration   INTEGER NOT NULL, -- microseconds
	count      INTEGER NOT NULL CHECK (count > 0),
	hash       BLOB NOT NULL
) STRICT;

CREATE INDEX audit_by_time ON audit (time);
CREATE INDEX audit_by_project ON audit (project_id) WHERE project_id <> '';
CREATE INDEX audit_by_broker ON audit (broker_id) WHERE broker_id <> '';
CREATE INDEX audit_by_actor ON audit (actor_id) WHERE actor_id <> '';
CREATE INDEX audit_by_object ON audit (object) WHERE object <> '';
CREATE INDEX audit_by_operation ON audit (operation);
CREATE INDEX audit_by_address ON audit (address) WHERE address <> '';
CREATE INDEX audit_by_request ON audit (request_id) WHERE request_id <> '';
CREATE INDEX audit_by_code ON audit (code) WHERE code <> '';
CREATE INDEX audit_by_outcome ON audit (outcome) WHERE outcome <> 'done';

-- What was begun and has not ended; its rows become part of the chain when it ends.
CREATE TABLE audit_open (
	id         TEXT PRIMARY KEY NOT NULL,
	started_at INTEGER NOT NULL,
	event      TEXT NOT NULL CHECK (json_valid(event))
) STRICT;

-- Signed states of the chain. The one that is an anchor stands for the rows that were deleted.
CREATE TABLE audit_checkpoints (
	seq    INTEGER PRIMARY KEY CHECK (seq >= 0),
	time   INTEGER NOT NULL,
	hash   BLOB NOT NULL, -- of the row seq
	note   TEXT NOT NULL, -- signed; '' = not signed
	anchor INTEGER NOT NULL CHECK (anchor IN (0, 1))
) STRICT;

-- The keys that signed the checkpoints; the newest one signs.
CREATE TABLE audit_keys (
	id         TEXT PRIMARY KEY NOT NULL, -- the name of the key
	public     TEXT NOT NULL,             -- as golang.org/x/mod/sumdb/note writes it
	secrets    BLOB,                      -- sealed by the caller; NULL = replaced
	created_at INTEGER NOT NULL
) STRICT;
