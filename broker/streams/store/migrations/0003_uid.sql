-- +goose Up

-- What distinguishes a stream from others that had its name, at all nodes that have it; 0 = it was created before.
ALTER TABLE stream ADD COLUMN uid INTEGER NOT NULL DEFAULT 0;
