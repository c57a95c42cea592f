package handlers

import (
	"context"
	"errors"
	"strings"
	"time"

	"signalbox/db"
	"signalbox/handlers/auth"
)

// ProjectRecord is a project as its members see it.
type ProjectRecord struct {
	ID          string       `json:"id" doc:"Id of the project." example:"0190f3c2-5b21-7d0f-8c4e-91a2b3c4d5e6"`
	Name        string       `json:"name" doc:"Name of the project." example:"Plant"`
	Description string       `json:"description" doc:"Description; may be empty." example:"Brokers of the plant"`
	Owner       ProjectOwner `json:"owner" doc:"Owner of the project."`
	Role        string       `json:"role" enum:"admin|editor|viewer" doc:"Role of the caller in the project." example:"admin"`
}

// ProjectOwner is who owns a project.
type ProjectOwner struct {
	UserID         string `json:"userId,omitempty" doc:"Id of the user who owns the project; absent if an organization does." example:"0190f3c2-1a2b-7c3d-8e4f-5a6b7c8d9e0f"`
	OrganizationID string `json:"organizationId,omitempty" doc:"Id of the organization that owns the project; absent if a user does." example:"-"`
	Name           string `json:"name" doc:"Name of the owner." example:"Ada Lovelace"`
}

func projectRecord(p db.ProjectRole) ProjectRecord {
	return ProjectRecord{ID: p.ID, Name: p.Name, Description: p.Description, Role: p.Role,
		Owner: ProjectOwner{UserID: p.OwnerID, OrganizationID: p.OrganizationID, Name: p.OwnerName}}
}

// ListedProject is a project in the list of projects.
type ListedProject struct {
	ProjectRecord
	Members *int `json:"members,omitempty" doc:"Number of members, the owner included. Absent unless counts is true." example:"3"`
	Brokers *int `json:"brokers,omitempty" doc:"Number of broker connections, the embedded broker included; for a restricted token only of its own. Absent unless counts is true." example:"2"`
}

// ListProjectsRequest asks for the caller's projects.
type ListProjectsRequest struct {
	Counts bool `query:"counts" default:"false" doc:"True returns the number of members and brokers of each project, too."`
}

// ListProjects lists the projects that the caller owns or is a member of; a
// platform administrator sees all.
func (a *API) ListProjects(ctx context.Context, r *ListProjectsRequest) (List[ListedProject], error) {
	projects, err := a.projectsOf(ctx, auth.From(ctx))
	records := make([]ListedProject, 0, len(projects))
	for _, p := range projects {
		records = append(records, ListedProject{ProjectRecord: projectRecord(p)})
	}
	if err == nil && r.Counts {
		err = a.countIn(ctx, records)
	}
	return listOf(records), err
}

// countIn sets the numbers of what the caller sees in each project.
func (a *API) countIn(ctx context.Context, projects []ListedProject) error {
	ids := make([]string, len(projects))
	for i, p := range projects {
		ids[i] = p.ID
	}
	list, err := a.DB.CountInProjects(ctx, ids)
	if err != nil {
		return err
	}
	counts := make(map[string]db.ProjectCounts, len(list))
	for _, c := range list {
		counts[c.ProjectID] = c
	}
	for i := range projects {
		c := counts[projects[i].ID] // 0 of one that was deleted meanwhile
		if auth.From(ctx).Restricted() {
			visible, err := a.visibleBrokers(ctx, c.ProjectID)
			if err != nil {
				return err
			}
			c.Brokers = len(visible)
		}
		projects[i].Members, projects[i].Brokers = &c.Members, &c.Brokers
	}
	return nil
}

// CreateProjectRequest describes a new project.
type CreateProjectRequest struct {
	Body struct {
		Name        string      `json:"name" required:"true" minlen:"1" doc:"Name of the project." example:"Plant"`
		Description Opt[string] `json:"description" nullable:"true" doc:"Description; default empty." example:"Brokers of the plant"`
	}
}

// CreateProject creates a project; the caller owns it and is its admin.
func (a *API) CreateProject(ctx context.Context, r *CreateProjectRequest) (ProjectRecord, error) {
	caller := auth.From(ctx)
	now := a.Now()
	p := db.Project{ID: newID(), Name: r.Body.Name, Description: r.Body.Description.Value,
		OwnerID: caller.ID, OwnerName: caller.Name, CreatedAt: now, UpdatedAt: now}
	noteCreated(ctx, p.ID, p.ID, "")
	if err := a.DB.CreateProject(ctx, p); err != nil {
		return ProjectRecord{}, err
	}
	return projectRecord(db.ProjectRole{Project: p, Role: "admin"}), nil
}

// GetProjectRequest names a project.
type GetProjectRequest struct{ ProjectPath }

// GetProject returns a project.
func (a *API) GetProject(ctx context.Context, r *GetProjectRequest) (ProjectRecord, error) {
	p, err := a.DB.GetProject(ctx, r.ProjectID)
	if err != nil {
		return ProjectRecord{}, err
	}
	role, err := a.Auth.RoleIn(ctx, auth.From(ctx), r.ProjectID)
	return projectRecord(db.ProjectRole{Project: p, Role: min(role, auth.Admin).String()}), err
}

// UpdateProjectRequest has the changes of a project.
type UpdateProjectRequest struct {
	ProjectPath
	Body struct {
		Name        *string     `json:"name" minlen:"1" doc:"Name of the project; absent leaves it unchanged." example:"Plant"`
		Description Opt[string] `json:"description" nullable:"true" doc:"Description; null clears it, absent leaves it unchanged." example:"Brokers of the plant"`
	}
}

// UpdateProject changes the given members of a project; null clears.
func (a *API) UpdateProject(ctx context.Context, r *UpdateProjectRequest) error {
	change := db.ProjectUpdate{ID: r.ProjectID, Name: r.Body.Name, UpdatedAt: a.Now()}
	if r.Body.Description.Set {
		change.Description = &r.Body.Description.Value
	}
	return a.DB.UpdateProject(ctx, change)
}

// DeleteProjectRequest names a project.
type DeleteProjectRequest struct {
	ProjectPath
	Purge bool `query:"purge" default:"false" doc:"True also deletes the clusters and broker connections of the project. Clusters are dissolved; the record of one that cannot be dissolved is deleted, and its nodes stay together."`
}

// DeleteProject deletes a project with its members and tokens.
func (a *API) DeleteProject(ctx context.Context, r *DeleteProjectRequest) error {
	rows, err := a.DB.ListBrokers(ctx, r.ProjectID)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.ID == a.Embedded() {
			return conflict("the project holds the embedded broker; switch that off first (broker.enabled)")
		}
	}
	if err := a.dissolveClusters(ctx, r.ProjectID, r.Purge); err != nil {
		return err
	}
	err = a.DB.DeleteProject(ctx, r.ProjectID, r.Purge)
	if errors.Is(err, db.ErrInUse) {
		return conflict("the project has broker connections; delete these first, or delete with purge=true")
	}
	if err != nil {
		return err
	}
	for _, row := range rows {
		a.drop(ctx, row.ID)
	}
	return nil
}

// dissolveClusters dissolves the clusters of a project to be deleted, or refuses that and
// names them.
func (a *API) dissolveClusters(ctx context.Context, projectID string, purge bool) error {
	rows, err := a.DB.ListClusters(ctx, projectID)
	if err != nil || len(rows) == 0 {
		return err
	}
	if !purge {
		names := make([]string, len(rows))
		for i, row := range rows {
			names[i] = row.Name
		}
		return conflict("the project has clusters (" + strings.Join(names, ", ") + "); delete these first, or delete with purge=true")
	}
	results, err := a.Clusters.DeleteClusters(ctx, projectID, true)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}

// MemberRecord is a member of a project.
type MemberRecord struct {
	UserID  string    `json:"userId" doc:"Id of the user." example:"0190f3c2-1a2b-7c3d-8e4f-5a6b7c8d9e0f"`
	Name    string    `json:"name" doc:"Name of the user." example:"Ada Lovelace"`
	Email   string    `json:"email" doc:"Email address of the user." example:"ada@example.org"`
	Role    string    `json:"role" enum:"admin|editor|viewer" doc:"Role of the member in the project." example:"editor"`
	AddedAt time.Time `json:"added_at,omitzero" doc:"Time since which the user is a member, RFC 3339; a change of the role leaves it. Absent if it is not known, as of members that were added before it was stored." example:"2026-01-31T12:00:00Z"`
}

// ListMembersRequest names a project.
type ListMembersRequest struct{ ProjectPath }

// ListMembers lists the members of a project.
func (a *API) ListMembers(ctx context.Context, r *ListMembersRequest) (List[MemberRecord], error) {
	members, err := a.DB.ListMembers(ctx, r.ProjectID)
	records := make([]MemberRecord, 0, len(members))
	for _, m := range members {
		records = append(records, MemberRecord{UserID: m.UserID, Name: m.Name, Email: m.Email, Role: m.Role, AddedAt: m.AddedAt})
	}
	return listOf(records), err
}

// MemberPath names a user within a project.
type MemberPath struct {
	ProjectPath
	UserPath
}

// PutMemberRequest has the role of a user in a project.
type PutMemberRequest struct {
	MemberPath
	Body struct {
		Role string `json:"role" required:"true" enum:"admin|editor|viewer" doc:"Role of the member in the project. A higher role includes the lower ones: viewer, editor, admin." example:"editor"`
	}
}

// PutMember makes a user a member, or changes the member's role.
func (a *API) PutMember(ctx context.Context, r *PutMemberRequest) error {
	return ownerStays(a.DB.PutMember(ctx, r.ProjectID, r.UserID, r.Body.Role, a.Now()))
}

// DeleteMemberRequest names a member.
type DeleteMemberRequest struct{ MemberPath }

// DeleteMember removes a user from a project.
func (a *API) DeleteMember(ctx context.Context, r *DeleteMemberRequest) error {
	err := a.DB.DeleteMember(ctx, r.ProjectID, r.UserID)
	return notFound(ownerStays(err), "the user is not a member of the project")
}

func ownerStays(err error) error {
	if errors.Is(err, db.ErrInUse) {
		return conflict("the owner of a project remains its admin")
	}
	return err
}
