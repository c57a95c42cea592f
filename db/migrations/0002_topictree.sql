-- +goose Up

-- Whether a topic tree may be made of a broker's messages where it keeps none.
ALTER TABLE brokers ADD COLUMN topictree INTEGER NOT NULL DEFAULT 1 CHECK (topictree IN (0, 1));
