-- +goose Up

-- The last entries of the log that have changed the content, so that one which is in the log twice,
-- because its copy did not learn whether the first was applied, has its effect once.
CREATE TABLE shared_entries (
	version INTEGER PRIMARY KEY, -- of the content after the entry
	id      TEXT NOT NULL UNIQUE
) STRICT;
