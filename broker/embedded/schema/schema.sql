-- What the migrations make of an empty file. Written by go test -update.

CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);

CREATE TABLE access_settings (
	id                     INTEGER PRIMARY KEY CHECK (id = 1),
	publish_client_send    INTEGER NOT NULL CHECK (publish_client_send IN (0, 1)),
	publish_client_receive INTEGER NOT NULL CHECK (publish_client_receive IN (0, 1)),
	subscribe              INTEGER NOT NULL CHECK (subscribe IN (0, 1)),
	unsubscribe            INTEGER NOT NULL CHECK (unsubscribe IN (0, 1)),
	anonymous_group        TEXT REFERENCES access_groups (groupname) ON DELETE SET NULL,
	change_index           INTEGER NOT NULL
) STRICT;

CREATE TABLE access_roles (
	rolename            TEXT NOT NULL PRIMARY KEY,
	textname            TEXT,
	textdescription     TEXT,
	allow_wildcard_subs INTEGER NOT NULL CHECK (allow_wildcard_subs IN (0, 1)),
	acls                TEXT NOT NULL CHECK (json_type(acls) = 'array')
) STRICT, WITHOUT ROWID;

CREATE TABLE access_groups (
	groupname       TEXT NOT NULL PRIMARY KEY,
	textname        TEXT,
	textdescription TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE access_group_roles (
	groupname TEXT NOT NULL REFERENCES access_groups (groupname) ON DELETE CASCADE,
	rolename  TEXT NOT NULL REFERENCES access_roles (rolename) ON DELETE CASCADE,
	priority  INTEGER NOT NULL,
	PRIMARY KEY (groupname, rolename)
) STRICT, WITHOUT ROWID;

CREATE INDEX access_group_roles_by_role ON access_group_roles (rolename);

CREATE TABLE access_clients (
	username        TEXT NOT NULL PRIMARY KEY,
	clientid        TEXT NOT NULL,
	textname        TEXT,
	textdescription TEXT,
	disabled        INTEGER NOT NULL CHECK (disabled IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE TABLE access_passwords (
	username TEXT NOT NULL PRIMARY KEY REFERENCES access_clients (username) ON DELETE CASCADE,
	encoded  TEXT NOT NULL CHECK (encoded <> '')
) STRICT, WITHOUT ROWID;

CREATE TABLE access_client_roles (
	username TEXT NOT NULL REFERENCES access_clients (username) ON DELETE CASCADE,
	rolename TEXT NOT NULL REFERENCES access_roles (rolename) ON DELETE CASCADE,
	priority INTEGER NOT NULL,
	PRIMARY KEY (username, rolename)
) STRICT, WITHOUT ROWID;

CREATE INDEX access_client_roles_by_role ON access_client_roles (rolename);

CREATE TABLE access_client_groups (
	username  TEXT NOT NULL REFERENCES access_clients (username) ON DELETE CASCADE,
	groupname TEXT NOT NULL REFERENCES access_groups (groupname) ON DELETE CASCADE,
	priority  INTEGER NOT NULL,
	PRIMARY KEY (username, groupname)
) STRICT, WITHOUT ROWID;

CREATE INDEX access_client_groups_by_group ON access_client_groups (groupname);

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

CREATE TABLE incoming (
	session   INTEGER NOT NULL,
	packet_id INTEGER NOT NULL,
	PRIMARY KEY (session, packet_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE ban (
	kind       TEXT NOT NULL,
	value      TEXT NOT NULL,
	reason     TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	created_by TEXT NOT NULL,
	expires_at INTEGER NOT NULL,
	PRIMARY KEY (kind, value)
) STRICT, WITHOUT ROWID;

CREATE TABLE access_log (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	applied INTEGER NOT NULL
) STRICT;

CREATE TABLE message_log (
	id           INTEGER PRIMARY KEY CHECK (id = 1),
	applied      INTEGER NOT NULL,
	part         INTEGER NOT NULL,
	last_message INTEGER NOT NULL,
	last_session INTEGER NOT NULL
) STRICT;

CREATE TABLE clock (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	service INTEGER NOT NULL,
	wall    INTEGER NOT NULL,
	boot    TEXT NOT NULL,
	booted  INTEGER NOT NULL
) STRICT;

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (1, 0, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (2, 1, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (3, 2, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (4, 3, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (5, 4, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (6, 5, 1);

INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (7, 6, 1);
