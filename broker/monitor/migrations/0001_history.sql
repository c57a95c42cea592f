-- +goose Up

-- A broker with a history. Its number is short, since it is in every row below.
CREATE TABLE broker (
	number INTEGER PRIMARY KEY,
	id     TEXT NOT NULL UNIQUE
) STRICT;

-- What a broker reported in an interval of a length, which is step seconds. A row is
-- replaced when its slot comes round again, so there is a fixed number of rows per
-- broker and step. Values are thousandths, NULL if unknown: the means, and the highest
-- ones, which are NULL for the shortest step, as they are the same.
CREATE TABLE sample (
	broker            INTEGER NOT NULL REFERENCES broker (number) ON DELETE CASCADE,
	step              INTEGER NOT NULL,
	slot              INTEGER NOT NULL,
	at                INTEGER NOT NULL, -- when the interval began, epoch seconds
	connected         INTEGER,
	subscriptions     INTEGER,
	retained          INTEGER,
	messages_in       INTEGER, -- per second, as all that follow
	messages_out      INTEGER,
	bytes_in          INTEGER,
	bytes_out         INTEGER,
	dropped           INTEGER,
	connected_max     INTEGER,
	subscriptions_max INTEGER,
	retained_max      INTEGER,
	messages_in_max   INTEGER,
	messages_out_max  INTEGER,
	bytes_in_max      INTEGER,
	bytes_out_max     INTEGER,
	dropped_max       INTEGER,
	PRIMARY KEY (broker, step, slot)
) STRICT, WITHOUT ROWID;
