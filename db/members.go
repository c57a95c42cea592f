package db

import (
	"context"
	"time"
)

// roleAdmin is what an owner is in its project. Package auth orders the names.
const roleAdmin = "admin"

// Member is a user's role ("viewer", "editor" or "admin") in a project. Name and
// Email are filled on reads. AddedAt is zero for a member from before it was stored.
type Member struct {
	ProjectID string
	UserID    string
	Name      string
	Email     string
	Role      string
	AddedAt   time.Time
}

// ListMembers lists the members of a project by address. ErrNotFound: no such project.
func (d *DB) ListMembers(ctx context.Context, projectID string) (all []Member, err error) {
	const q = `
		SELECT m.project_id, m.user_id, u.first_name, u.last_name, u.email, m.role, m.added_at
		FROM members m JOIN users u ON u.id = m.user_id
		WHERE m.project_id = ? ORDER BY u.email_key`
	// An owner is always a member, so a project without members is none.
	all, err = collect(ctx, d.ro, scanMember, q, projectID)
	if err == nil && len(all) == 0 {
		err = ErrNotFound
	}
	return all, wrap("list members", err)
}

func scanMember(row scanner) (m Member, err error) {
	var first, last string
	err = row.Scan(&m.ProjectID, &m.UserID, &first, &last, &m.Email, &m.Role, (*millis)(&m.AddedAt))
	m.Name = personName(first, last, m.Email)
	return m, err
}

// PutMember sets the role of a user in a project, who is a member since now unless it is one already.
// ErrNotFound: no such project or user. ErrInUse: the owner has to stay admin.
func (d *DB) PutMember(ctx context.Context, projectID, userID, role string, now time.Time) error {
	return d.write(ctx, "put member", func(tx *writeTx) error {
		owner, err := ownerOf(ctx, tx, projectID)
		if err != nil {
			return err
		}
		if owner == userID && role != roleAdmin {
			return ErrInUse
		}
		return putMember(ctx, tx, projectID, userID, role, now)
	})
}

func putMember(ctx context.Context, tx *writeTx, projectID, userID, role string, now time.Time) error {
	const q = `
		INSERT INTO members (project_id, user_id, role, added_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (project_id, user_id) DO UPDATE SET role = excluded.role`
	_, err := tx.ExecContext(ctx, q, projectID, userID, role, millis(now))
	return err
}

// DeleteMember takes a user out of a project and ends its tokens there. ErrNotFound: no such project or
// member. ErrInUse: the owner has to stay.
func (d *DB) DeleteMember(ctx context.Context, projectID, userID string) error {
	const q = "DELETE FROM members WHERE project_id = ? AND user_id = ?"
	return d.write(ctx, "delete member", func(tx *writeTx) error {
		owner, err := ownerOf(ctx, tx, projectID)
		if err != nil {
			return err
		}
		if owner == userID {
			return ErrInUse
		}
		if err := affected(tx.ExecContext(ctx, q, projectID, userID)); err != nil {
			return err
		}
		return endTokens(ctx, tx, userID, projectID)
	})
}

func ownerOf(ctx context.Context, tx *writeTx, projectID string) (owner string, err error) {
	const q = "SELECT owner_id FROM projects WHERE id = ?"
	err = tx.QueryRowContext(ctx, q, projectID).Scan(&owner)
	return owner, err
}

const roleOfQuery = `
	SELECT coalesce(m.role, '')
	FROM projects p LEFT JOIN members m ON m.project_id = p.id AND m.user_id = ?
	WHERE p.id = ?`

// RoleOf returns the role of a user in a project, "" if the user is not a member.
// ErrNotFound: no such project.
func (d *DB) RoleOf(ctx context.Context, projectID, userID string) (role string, err error) {
	role, err = cached(d, roleKey{projectID, userID}, func() (role string, err error) {
		err = pointRow(ctx, d.point.role, userID, projectID).Scan(&role)
		return role, err
	})
	return role, wrap("get role", err)
}
