-- +goose Up

-- Up to where the changes of a log that several brokers share are in the access
-- control. No row, or 0: the broker changes it by itself.
CREATE TABLE access_log (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	applied INTEGER NOT NULL
) STRICT;
