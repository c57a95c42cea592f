-- +goose Up

-- SHA-256 of the only certificate that a broker may present; '' = its authority counts.
ALTER TABLE brokers ADD COLUMN server_fingerprint TEXT NOT NULL DEFAULT '';
