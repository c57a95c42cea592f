-- +goose Up

-- The time since which a user is a member; 0 = not known, as of members from before.
ALTER TABLE members ADD COLUMN added_at INTEGER NOT NULL DEFAULT 0;

-- An owner is a member since the project was created.
UPDATE members SET added_at = (SELECT created_at FROM projects WHERE id = members.project_id)
WHERE user_id = (SELECT owner_id FROM projects WHERE id = members.project_id);
