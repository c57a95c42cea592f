-- +goose Up

CREATE TABLE clusters (
	id         TEXT PRIMARY KEY NOT NULL,
	project_id TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
	name       TEXT NOT NULL,
	sync_mode  TEXT NOT NULL CHECK (sync_mode IN ('full', 'dynsec', 'hp')),
	created_at INTEGER NOT NULL,
	UNIQUE (project_id, name)
) STRICT;

CREATE INDEX clusters_by_project ON clusters (project_id, created_at, id);

-- A node is reached by a broker connection of the project, or by what the row
-- itself says (own). A connection that is deleted leaves the node behind.
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
	client_cert    TEXT NOT NULL,
	UNIQUE (cluster_id, node_id),
	UNIQUE (cluster_id, address, port)
) STRICT;

CREATE UNIQUE INDEX cluster_nodes_by_connection ON cluster_nodes (broker_id) WHERE own = 0;
