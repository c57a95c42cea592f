-- +goose Up

-- What holds for the broker as a whole. The one row comes into being with the
-- first change; its presence says that the broker was set up.
CREATE TABLE access_settings (
	id                     INTEGER PRIMARY KEY CHECK (id = 1),
	publish_client_send    INTEGER NOT NULL CHECK (publish_client_send IN (0, 1)),
	publish_client_receive INTEGER NOT NULL CHECK (publish_client_receive IN (0, 1)),
	subscribe              INTEGER NOT NULL CHECK (subscribe IN (0, 1)),
	unsubscribe            INTEGER NOT NULL CHECK (unsubscribe IN (0, 1)),
	anonymous_group        TEXT REFERENCES access_groups (groupname) ON DELETE SET NULL,
	change_index           INTEGER NOT NULL
) STRICT;

-- A role with its rules, which are read and written together and never asked
-- for one by one: a JSON array in order of evaluation.
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

-- The encoded hash of a client's password; no row, no log-in. Apart from the
-- clients, so that a start need not read the hashes.
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
