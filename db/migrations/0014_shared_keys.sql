-- +goose Up

-- The keys with which the secrets of the content are sealed, and were or will be, as far as this copy has
-- them. It belongs to this copy.
CREATE TABLE shared_keys (
	id    TEXT PRIMARY KEY, -- made from the hash of the key
	key   BLOB NOT NULL,    -- itself sealed by the caller, for this machine
	since INTEGER NOT NULL  -- ms; the time of this machine at which it was stored or, later, replaced by another one
) STRICT;
ALTER TABLE shared_state ADD COLUMN key_id TEXT NOT NULL DEFAULT ''; -- of the key with which the secrets are sealed; '' = the caller's own
ALTER TABLE shared_state ADD COLUMN key_since INTEGER NOT NULL DEFAULT 0; -- index of the log: no member was removed between it and the making of the key; -1 = others know the key
ALTER TABLE local_state DROP COLUMN key;
