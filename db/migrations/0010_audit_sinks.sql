-- +goose Up

-- What each destination of the audit log has: the rows up to seq, and the signed states up to a
-- time.
CREATE TABLE audit_sinks (
	name            TEXT PRIMARY KEY NOT NULL,
	seq             INTEGER NOT NULL CHECK (seq >= 0),
	checkpoint_time INTEGER NOT NULL
) STRICT;

CREATE INDEX audit_checkpoints_by_time ON audit_checkpoints (time);
