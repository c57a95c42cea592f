-- +goose Up

-- Up to where the changes of a log that several brokers share are in the
-- messages, which part of those the log is about (1 all, 2 what is retained), and
-- the last numbers that it gave to a message and a session. No row: the broker
-- changes them by itself.
CREATE TABLE message_log (
	id           INTEGER PRIMARY KEY CHECK (id = 1),
	applied      INTEGER NOT NULL,
	part         INTEGER NOT NULL,
	last_message INTEGER NOT NULL,
	last_session INTEGER NOT NULL
) STRICT;
