package db

import (
	"context"
	"time"
)

// Project groups brokers, tokens and members. OwnerName is filled on reads and
// ignored on writes.
type Project struct {
	ID             string
	Name           string
	Description    string
	OwnerID        string
	OrganizationID string
	OwnerName      string
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// ProjectRole is a project and the role of one user in it.
type ProjectRole struct {
	Project
	Role string
}

// ProjectUpdate changes the members that are not nil.
type ProjectUpdate struct {
	ID          string
	Name        *string
	Description *string
	UpdatedAt   time.Time
}

const projectColumns = `p.id, p.name, p.description, p.owner_id, p.organization_id,
	p.created_at, p.updated_at, o.first_name, o.last_name, o.email`

const projectTables = " FROM projects p JOIN users o ON o.id = p.owner_id "

func scanProject(row scanner, more ...any) (p Project, err error) {
	var first, last, email string
	dest := append([]any{&p.ID, &p.Name, &p.Description, &p.OwnerID, &p.OrganizationID,
		(*millis)(&p.CreatedAt), (*millis)(&p.UpdatedAt), &first, &last, &email}, more...)
	err = row.Scan(dest...)
	p.OwnerName = personName(first, last, email)
	return p, err
}

func scanPlainProject(row scanner) (Project, error) { return scanProject(row) }

func scanProjectRole(row scanner) (r ProjectRole, err error) {
	r.Project, err = scanProject(row, &r.Role)
	return r, err
}

// CreateProject stores a project and makes its owner a member with role admin.
// ErrExists: the id is taken. ErrNotFound: no such owner.
func (d *DB) CreateProject(ctx context.Context, p Project) error {
	return d.write(ctx, "create project", func(tx *writeTx) error { return insertProject(ctx, tx, p) })
}

func insertProject(ctx context.Context, tx *writeTx, p Project) error {
	const q = `
		INSERT INTO projects (id, name, description, owner_id, organization_id, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)`
	_, err := tx.ExecContext(ctx, q, p.ID, p.Name, p.Description, p.OwnerID, p.OrganizationID,
		millis(p.CreatedAt), millis(p.UpdatedAt))
	if err != nil {
		return err
	}
	return putMember(ctx, tx, p.ID, p.OwnerID, roleAdmin, p.CreatedAt)
}

// GetProject finds a project. ErrNotFound if there is none.
func (d *DB) GetProject(ctx context.Context, id string) (Project, error) {
	const q = "SELECT " + projectColumns + projectTables + "WHERE p.id = ?"
	p, err := cached(d, projectKey{id}, func() (Project, error) {
		return scanProject(d.ro.QueryRowContext(ctx, q, id))
	})
	return p, wrap("get project", err)
}

// UpdateProject changes a project. ErrNotFound if there is none.
func (d *DB) UpdateProject(ctx context.Context, c ProjectUpdate) error {
	const q = `
		UPDATE projects SET name = coalesce(?, name), description = coalesce(?, description), updated_at = ?
		WHERE id = ?`
	return d.write(ctx, "update project", func(tx *writeTx) error {
		return affected(tx.ExecContext(ctx, q, c.Name, c.Description, millis(c.UpdatedAt), c.ID))
	})
}

// DeleteProject removes a project with its members and tokens, and with purge
// its brokers and clusters too. ErrNotFound: no such project. ErrInUse: it has
// some.
func (d *DB) DeleteProject(ctx context.Context, id string, purge bool) error {
	const isUsed = `
		SELECT EXISTS (
			SELECT 1 FROM brokers WHERE project_id = ?1
			UNION ALL SELECT 1 FROM clusters WHERE project_id = ?1)`
	return d.write(ctx, "delete project", func(tx *writeTx) error {
		if !purge {
			if used, err := exists(ctx, tx, isUsed, id); err != nil || used {
				return orInUse(err)
			}
		}
		return affected(tx.ExecContext(ctx, "DELETE FROM projects WHERE id = ?", id))
	})
}

// ProjectsOf lists the projects of which the user is a member (an owner always
// is), oldest first. The list is shared: it must not be written to.
func (d *DB) ProjectsOf(ctx context.Context, userID string) ([]ProjectRole, error) {
	const q = "SELECT " + projectColumns + ", m.role" + projectTables + `
		JOIN members m ON m.project_id = p.id
		WHERE m.user_id = ? ORDER BY p.created_at, p.id`
	all, err := cachedList(d, projectsOfKey{userID}, func() ([]ProjectRole, error) { return collect(ctx, d.ro, scanProjectRole, q, userID) })
	return all, wrap("list projects of user", err)
}

// AllProjects lists every project, oldest first. The list is shared: it must not be written to.
func (d *DB) AllProjects(ctx context.Context) ([]Project, error) {
	const q = "SELECT " + projectColumns + projectTables + "ORDER BY p.created_at, p.id"
	all, err := cachedList(d, allProjectsKey{}, func() ([]Project, error) { return collect(ctx, d.ro, scanPlainProject, q) })
	return all, wrap("list projects", err)
}

// ProjectCounts is how many members and broker connections a project has.
type ProjectCounts struct {
	ProjectID        string
	Members, Brokers int
}

func scanProjectCounts(row scanner) (c ProjectCounts, err error) {
	err = row.Scan(&c.ProjectID, &c.Members, &c.Brokers)
	return c, err
}

// CountInProjects counts what each of the projects has, oldest first. One that does not exist is
// left out.
func (d *DB) CountInProjects(ctx context.Context, projectIDs []string) ([]ProjectCounts, error) {
	return collectOf(ctx, d, "count in projects", scanProjectCounts, `
		SELECT p.id,
			(SELECT count(*) FROM members m WHERE m.project_id = p.id),
			(SELECT count(*) FROM brokers b WHERE b.project_id = p.id)
		FROM projects p
		WHERE p.id IN (SELECT value FROM json_each(?)) ORDER BY p.created_at, p.id`, projectIDs)
}
