-- +goose Up

-- Who may not come in, whatever the credentials. Times are milliseconds; 0 for
-- one that never ends.
CREATE TABLE ban (
	kind       TEXT NOT NULL,
	value      TEXT NOT NULL,
	reason     TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	created_by TEXT NOT NULL,
	expires_at INTEGER NOT NULL,
	PRIMARY KEY (kind, value)
) STRICT, WITHOUT ROWID;
