-- +goose Up

-- A token belongs to a user, with whose membership of the project it ends, and
-- may have been made by another token, with which it ends too. One without an
-- owner opens nothing.
ALTER TABLE tokens ADD COLUMN owner_id TEXT REFERENCES users (id) ON DELETE CASCADE;
ALTER TABLE tokens ADD COLUMN parent_id TEXT REFERENCES tokens (id) ON DELETE CASCADE;
CREATE INDEX tokens_by_owner ON tokens (owner_id);
CREATE INDEX tokens_by_parent ON tokens (parent_id);

-- Who made a token was stored as a name only. A user of that name is its owner,
-- if there is exactly one: first among those who may do something in the
-- project, then among all, whose tokens open nothing while they are no members.
CREATE TEMPORARY TABLE token_makers AS
SELECT t.id AS token_id, u.id AS user_id, u.root = 1 OR m.user_id IS NOT NULL AS may
FROM tokens t
JOIN users u ON t.issuer = CASE WHEN trim(u.first_name || ' ' || u.last_name) = '' THEN u.email
	ELSE trim(u.first_name || ' ' || u.last_name) END
LEFT JOIN members m ON m.project_id = t.project_id AND m.user_id = u.id;

UPDATE tokens SET owner_id = coalesce(
	(SELECT max(user_id) FROM token_makers WHERE token_id = tokens.id AND may HAVING count(*) = 1),
	(SELECT max(user_id) FROM token_makers WHERE token_id = tokens.id HAVING count(*) = 1));

-- Else it was made by an older token of that name with the role admin, if there
-- is exactly one, and has the owner of the first in the chain.
UPDATE tokens SET parent_id = (
	SELECT max(p.id) FROM tokens p
	WHERE p.project_id = tokens.project_id AND p.name = tokens.issuer AND p.role = 'admin'
		AND (p.issued_at, p.id) < (tokens.issued_at, tokens.id)
	HAVING count(*) = 1)
WHERE id NOT IN (SELECT token_id FROM token_makers);

-- Else the project's owner has it.
UPDATE tokens SET owner_id = (SELECT p.owner_id FROM projects p WHERE p.id = tokens.project_id)
WHERE owner_id IS NULL AND parent_id IS NULL;

WITH RECURSIVE chain (id, owner_id) AS (
	SELECT id, owner_id FROM tokens WHERE parent_id IS NULL
	UNION ALL
	SELECT t.id, c.owner_id FROM tokens t JOIN chain c ON t.parent_id = c.id)
UPDATE tokens SET owner_id = (SELECT c.owner_id FROM chain c WHERE c.id = tokens.id)
WHERE owner_id IS NULL;

DROP TABLE token_makers;
