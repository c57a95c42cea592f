-- +goose Up

-- Up to where the changes of a log that several brokers share are in the
-- messages. No row, or 0: the broker changes them by itself.
CREATE TABLE message_log (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	applied INTEGER NOT NULL
) STRICT;
