-- What the migrations make of an empty file. Written by go test -update.

PRAGMA application_id = 1399276152;

CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);

CREATE TABLE users (
	id            TEXT PRIMARY KEY NOT NULL,
	email         TEXT NOT NULL,
	email_key     TEXT NOT NULL UNIQUE, -- the address with its letters folded
	first_name    TEXT NOT NULL,
	last_name     TEXT NOT NULL,
	password_hash TEXT NOT NULL,        -- PHC string; '' = no local password
	sso_type      TEXT NOT NULL,        -- '' = signs in here
	verified      INTEGER NOT NULL CHECK (verified IN (0, 1)),
	root          INTEGER NOT NULL CHECK (root IN (0, 1)),
	created_at    INTEGER NOT NULL,
	updated_at    INTEGER NOT NULL
) STRICT;

CREATE INDEX users_by_age ON users (created_at, id);

CREATE INDEX users_roots ON users (created_at, id) WHERE root = 1;

CREATE TABLE sessions (
	hash       TEXT PRIMARY KEY NOT NULL, -- SHA-256 of the session token, hex
	user_id    TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
	created_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL
, address TEXT NOT NULL DEFAULT '', user_agent TEXT NOT NULL DEFAULT '') STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_user ON sessions (user_id);

CREATE INDEX sessions_by_expiry ON sessions (expires_at);

CREATE TABLE projects (
	id              TEXT PRIMARY KEY NOT NULL,
	name            TEXT NOT NULL,
	description     TEXT NOT NULL,
	owner_id        TEXT NOT NULL REFERENCES users (id),
	organization_id TEXT NOT NULL,
	created_at      INTEGER NOT NULL,
	updated_at      INTEGER NOT NULL
) STRICT;

CREATE INDEX projects_by_owner ON projects (owner_id);

CREATE INDEX projects_by_age ON projects (created_at, id);

CREATE TABLE members (
	project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
	user_id    TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
	role       TEXT NOT NULL CHECK (role IN ('viewer', 'editor', 'admin')), added_at INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (project_id, user_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX members_by_user ON members (user_id);

CREATE TABLE brokers (
	id               TEXT PRIMARY KEY NOT NULL,
	project_id       TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
	rev              INTEGER NOT NULL, -- raised by every update
	type             TEXT NOT NULL CHECK (type IN ('cloud', 'self-hosted', 'on-premise-setup')),
	name             TEXT NOT NULL,
	description      TEXT NOT NULL,
	url              TEXT NOT NULL,
	username         TEXT NOT NULL,
	secrets          BLOB,             -- sealed by the caller; NULL = none
	has_password     INTEGER NOT NULL CHECK (has_password IN (0, 1)),
	has_client_key   INTEGER NOT NULL CHECK (has_client_key IN (0, 1)),
	verify_ca_cert   INTEGER NOT NULL CHECK (verify_ca_cert IN (0, 1)),
	metrics_enabled  INTEGER NOT NULL CHECK (metrics_enabled IN (0, 1)),
	ha               INTEGER NOT NULL CHECK (ha IN (0, 1)),
	cluster_mode     TEXT NOT NULL CHECK (cluster_mode IN ('', 'full', 'dynsec', 'hp')),
	ca_cert          TEXT NOT NULL,
	ca_cert_file     TEXT NOT NULL,
	client_cert      TEXT NOT NULL,
	client_cert_file TEXT NOT NULL,
	client_key_file  TEXT NOT NULL,
	details          TEXT CHECK (details IS NULL OR json_valid(details)),
	created_at       INTEGER NOT NULL,
	updated_at       INTEGER NOT NULL
, topictree INTEGER NOT NULL DEFAULT 1 CHECK (topictree IN (0, 1)), server_fingerprint TEXT NOT NULL DEFAULT '') STRICT;

CREATE INDEX brokers_by_project ON brokers (project_id, created_at, id);

CREATE TABLE tokens (
	id           TEXT PRIMARY KEY NOT NULL,
	project_id   TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
	issuer       TEXT NOT NULL,
	name         TEXT NOT NULL,
	hash         TEXT NOT NULL UNIQUE, -- SHA-256 of the token, hex
	role         TEXT NOT NULL CHECK (role IN ('viewer', 'editor', 'admin')),
	type         TEXT NOT NULL CHECK (type IN ('restricted', 'unrestricted')),
	issued_at    INTEGER NOT NULL,
	valid_until  INTEGER NOT NULL,     -- 0 = for ever
	last_used_at INTEGER NOT NULL      -- 0 = never
, owner_id TEXT REFERENCES users (id) ON DELETE CASCADE, parent_id TEXT REFERENCES tokens (id) ON DELETE CASCADE) STRICT;

CREATE INDEX tokens_by_project ON tokens (project_id, issued_at, id);

CREATE TABLE token_brokers (
	token_id  TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
	broker_id TEXT NOT NULL REFERENCES brokers (id) ON DELETE CASCADE,
	position  INTEGER NOT NULL,
	PRIMARY KEY (token_id, broker_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX token_brokers_by_broker ON token_brokers (broker_id);

CREATE TABLE probe (
	id     INTEGER PRIMARY KEY CHECK (id = 1),
	writes INTEGER NOT NULL
) STRICT;

CREATE TABLE clusters (
	id         TEXT PRIMARY KEY NOT NULL,
	project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
	name       TEXT NOT NULL,
	sync_mode  TEXT NOT NULL CHECK (sync_mode IN ('full', 'dynsec', 'hp')),
	created_at INTEGER NOT NULL,
	UNIQUE (project_id, name)
) STRICT;

CREATE INDEX clusters_by_project ON clusters (project_id, created_at, id);

CREATE TABLE cluster_nodes (
	id             TEXT PRIMARY KEY NOT NULL,
	cluster_id     TEXT NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
	node_id        INTEGER NOT NULL CHECK (node_id > 0),
	broker_id      TEXT NOT NULL,
	name           TEXT NOT NULL,
	address        TEXT NOT NULL,
	port           INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
	own            INTEGER NOT NULL CHECK (own IN (0, 1)),
	url            TEXT NOT NULL,
	username       TEXT NOT NULL,
	secrets        BLOB,             -- sealed by the caller; NULL = none
	verify_ca_cert INTEGER NOT NULL CHECK (verify_ca_cert IN (0, 1)),
	ca_cert        TEXT NOT NULL,
	client_cert    TEXT NOT NULL, server_fingerprint TEXT NOT NULL DEFAULT '',
	UNIQUE (cluster_id, node_id),
	UNIQUE (cluster_id, address, port)
) STRICT;

CREATE UNIQUE INDEX cluster_nodes_by_connection ON cluster_nodes (broker_id) WHERE own = 0;

CREATE INDEX tokens_by_owner ON tokens (owner_id);

CREATE INDEX tokens_by_parent ON tokens (parent_id);

CREATE TABLE preferences (
	user_id               TEXT PRIMARY KEY NOT NULL REFERENCES users (id) ON DELETE CASCADE,
	theme                 TEXT NOT NULL,
	language              TEXT NOT NULL, -- '' = as the browser
	time_zone             TEXT NOT NULL, -- '' = as the browser
	density               TEXT NOT NULL,
	page_size             INTEGER NOT NULL CHECK (page_size > 0),
	shortcuts             INTEGER NOT NULL CHECK (shortcuts IN (0, 1)),
	first_steps_dismissed INTEGER NOT NULL CHECK (first_steps_dismissed IN (0, 1)),
	columns               TEXT NOT NULL CHECK (json_valid(columns)) -- {"table": ["column", …]}
) STRICT, WITHOUT ROWID;

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

CREATE TABLE audit_open (
	id         TEXT PRIMARY KEY NOT NULL,
	started_at INTEGER NOT NULL,
	event      TEXT NOT NULL CHECK (json_valid(event))
, origin TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE audit_checkpoints (
	seq    INTEGER PRIMARY KEY CHECK (seq >= 0),
	time   INTEGER NOT NULL,
	hash   BLOB NOT NULL, -- of the row seq
	note   TEXT NOT NULL, -- signed; '' = not signed
	anchor INTEGER NOT NULL CHECK (anchor IN (0, 1))
) STRICT;

CREATE TABLE audit_keys (
	id         TEXT PRIMARY KEY NOT NULL, -- the name of the key
	public     TEXT NOT NULL,             -- as golang.org/x/mod/sumdb/note writes it
	secrets    BLOB,                      -- sealed by the caller; NULL = replaced
	created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX audit_by_project ON audit (project_id, time) WHERE project_id <> '';

CREATE INDEX audit_by_broker ON audit (broker_id, time) WHERE broker_id <> '';

CREATE INDEX audit_by_actor ON audit (actor_id, time) WHERE actor_id <> '';

CREATE INDEX audit_by_kind ON audit (actor_kind, time) WHERE actor_kind <> 'user';

CREATE INDEX audit_by_object ON audit (object, time) WHERE object <> '';

CREATE INDEX audit_by_operation ON audit (operation, time);

CREATE INDEX audit_by_address ON audit (address, time) WHERE address <> '';

CREATE INDEX audit_by_request ON audit (request_id) WHERE request_id <> '';

CREATE INDEX audit_by_code ON audit (code, time) WHERE code <> '';

CREATE INDEX audit_by_outcome ON audit (outcome, time) WHERE outcome <> 'done';

CREATE TABLE audit_sinks (
	name            TEXT PRIMARY KEY NOT NULL,
	seq             INTEGER NOT NULL CHECK (seq >= 0),
	checkpoint_time INTEGER NOT NULL
) STRICT;

CREATE INDEX audit_checkpoints_by_time ON audit_checkpoints (time);

CREATE TABLE shared_state (
	id            INTEGER PRIMARY KEY CHECK (id = 1),
	version       INTEGER NOT NULL, -- raised by each entry of the log that changes the content
	applied       INTEGER NOT NULL, -- index of the last entry applied; 0 = none, the content is this node's own
	reserved_by   TEXT NOT NULL,    -- origin that alone may change the content; '' = any
	reserved_left INTEGER NOT NULL  -- for how many entries
, key_id TEXT NOT NULL DEFAULT '', key_since INTEGER NOT NULL DEFAULT 0, host TEXT NOT NULL DEFAULT '', bridge_owner TEXT NOT NULL DEFAULT '', client_suffix TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE local_state (
	id     INTEGER PRIMARY KEY CHECK (id = 1),
	origin TEXT NOT NULL, imported INTEGER NOT NULL DEFAULT 0 CHECK (imported IN (0, 1)), embedded INTEGER NOT NULL DEFAULT 0 CHECK (embedded IN (0, 1)), embedded_content TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE shared_keys (
	id    TEXT PRIMARY KEY, -- made from the hash of the key
	key   BLOB NOT NULL,    -- itself sealed by the caller, for this machine
	since INTEGER NOT NULL  -- ms; the time of this machine at which it was stored or, later, replaced by another one
) STRICT;

CREATE TABLE shared_entries (
	version INTEGER PRIMARY KEY, -- of the content after the entry
	id      TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE "definitions" (
	id        TEXT PRIMARY KEY NOT NULL, -- kind/broker_id/name
	kind      TEXT NOT NULL CHECK (kind IN ('stream', 'bridge')),
	broker_id TEXT REFERENCES brokers (id) ON DELETE CASCADE,
	name      TEXT NOT NULL,    -- of the stream, or the id of the bridge
	rev       INTEGER NOT NULL, -- another one after each change
	document  BLOB NOT NULL     -- of a bridge: sealed by the caller
) STRICT;

CREATE INDEX definitions_broker ON definitions (broker_id, kind, name);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (1, 0, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (10, 9, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (11, 10, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (12, 11, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (13, 12, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (14, 13, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (15, 14, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (16, 15, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (17, 16, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (18, 17, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (2, 1, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (3, 2, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (4, 3, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (5, 4, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (6, 5, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (7, 6, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (8, 7, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (9, 8, 1);

INSERT INTO local_state (id, origin, imported, embedded, embedded_content) VALUES (1, '', 0, 0, '');

INSERT INTO probe (id, writes) VALUES (1, 0);

INSERT INTO shared_state (id, version, applied, reserved_by, reserved_left, key_id, key_since, host, bridge_owner, client_suffix) VALUES (1, 0, 0, '', 0, '', 0, '', '', '');
