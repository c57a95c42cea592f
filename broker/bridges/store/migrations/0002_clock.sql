-- +goose Up

-- The time by which all times in this file are meant (milliseconds of an epoch), and
-- what the machine's clocks showed then: the time of day, and which boot of the machine
-- it was with the milliseconds since. No row: the times are the time of day.
CREATE TABLE clock (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	service INTEGER NOT NULL,
	wall    INTEGER NOT NULL,
	boot    TEXT NOT NULL,
	booted  INTEGER NOT NULL
) STRICT;
