-- +goose Up

-- As that of brokers, for a node of a cluster with a connection of its own.
ALTER TABLE cluster_nodes ADD COLUMN server_fingerprint TEXT NOT NULL DEFAULT '';
