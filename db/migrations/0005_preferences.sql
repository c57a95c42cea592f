-- +goose Up

-- How a user wants the console shown. A user without a row has the defaults; the
-- values are checked by the caller, so that a new one needs no migration.
CREATE TABLE preferences (
	user_id               TEXT PRIMARY KEY NOT NULL REFERENCES users (id) ON DELETE CASCADE,
	theme                 TEXT NOT NULL,
	language              TEXT NOT NULL, -- '' = as the browser
	time_zone             TEXT NOT NULL, -- '' = as the browser
	density               TEXT NOT NULL,
	page_size             INTEGER NOT NULL CHECK (page_size > 0),
	shortcuts             INTEGER NOT NULL CHECK (shortcuts IN (0, 1)),
	first_steps_dismissed INTEGER NOT NULL CHECK (first_steps_dismissed IN (0, 1)),
	columns               TEXT NOT NULL CHECK (json_valid(columns)) -- {"table": ["column", …]}
) STRICT, WITHOUT ROWID;
