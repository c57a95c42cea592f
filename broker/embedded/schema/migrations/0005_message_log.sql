-- +goose Up

-- Up to where the changes of a log that several brokers share are in the
-- messages, and which part of those the log is about: 1 all, 2 what is retained.
-- No row: the broker changes them by itself.
CREATE TABLE message_log (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	applied INTEGER NOT NULL,
	part    INTEGER NOT NULL
) STRICT;
