package handlers

import (
	"context"
	"errors"
	"strings"
	"time"

	"signalbox/db"
	"signalbox/handlers/auth"
)

// PageQuery selects a page of users.
type PageQuery struct {
	Page     int `query:"page" default:"0" min:"0" max:"1000000" doc:"Number of the page; 0 is the first."`
	PageSize int `query:"pageSize" default:"20" min:"1" max:"500" doc:"Entries per page."`
}

// UserPath names a user.
type UserPath struct {
	UserID string `path:"userId" doc:"Id of the user."`

	user db.UserSummary
}

// Resolve finds the user.
func (p *UserPath) Resolve(ctx context.Context, a *API) error {
	user, err := a.DB.GetUser(ctx, p.UserID)
	p.user = user
	return notFound(err, "there is no user with this id")
}

// UserRecord is a user of the platform. The figures of billing are always 0.
type UserRecord struct {
	ID             string    `json:"id"`
	Name           string    `json:"name"`
	Email          string    `json:"email"`
	CreatedAt      time.Time `json:"created_at"`
	TrialFlow      bool      `json:"trial_flow"`
	ProjectCount   int       `json:"project_count"`
	BrokerCount    int       `json:"broker_count"`
	MonthlyRevenue float64   `json:"monthly_revenue"`
	YearlyRevenue  float64   `json:"yearly_revenue"`
	TotalRevenue   float64   `json:"total_revenue"`
	Onboarding     float64   `json:"onboarding"`
	Bookings       any       `json:"bookings"`
}

func userRecord(u db.UserSummary) UserRecord {
	return UserRecord{ID: u.ID, Name: u.Name(), Email: u.Email, CreatedAt: u.CreatedAt.UTC(),
		ProjectCount: u.ProjectCount, BrokerCount: u.BrokerCount}
}

// ListUsersRequest asks for a page of users.
type ListUsersRequest struct{ PageQuery }

// UserList is a page of users.
type UserList struct {
	Total     int          `json:"total"`
	Page      int          `json:"page"`
	PageSize  int          `json:"pageSize"`
	SortField string       `json:"sortField"`
	SortOrder string       `json:"sortOrder"`
	Data      []UserRecord `json:"data"`
}

// ListUsers lists the users, the oldest first.
func (a *API) ListUsers(ctx context.Context, r *ListUsersRequest) (UserList, error) {
	total, users, err := a.DB.ListUsers(ctx, r.Page*r.PageSize, r.PageSize)
	list := UserList{Total: total, Page: r.Page, PageSize: r.PageSize,
		SortField: "created_at", SortOrder: "asc", Data: make([]UserRecord, 0, len(users))}
	for _, u := range users {
		list.Data = append(list.Data, userRecord(u))
	}
	return list, err
}

// GetUserRequest names a user.
type GetUserRequest struct{ UserPath }

// GetUser gives a user.
func (a *API) GetUser(_ context.Context, r *GetUserRequest) (UserRecord, error) {
	return userRecord(r.user), nil
}

// CreateUserRequest describes a new user.
type CreateUserRequest struct {
	Body struct {
		FirstName string `json:"firstname"`
		LastName  string `json:"lastname"`
		Email     string `json:"email" required:"true" format:"email"`
		Password  string `json:"password" minlen:"8" doc:"Required unless ssoType is given."`
		Verified  *bool  `json:"verified" doc:"False keeps the user from logging in; default true."`
		SSOType   string `json:"ssoType" enum:"ldap|sso" doc:"The user is authenticated elsewhere; no local password is accepted."`
	}
}

// Validate asks for a password, or for where else the user is authenticated.
func (r *CreateUserRequest) Validate() []FieldError {
	if r.Body.Password == "" && r.Body.SSOType == "" {
		return []FieldError{{"body.password", "is required (at least 8 characters) unless ssoType is given"}}
	}
	return nil
}

// Identifier is the id of what was created.
type Identifier struct {
	ID string `json:"id"`
}

// CreateUser creates a user.
func (a *API) CreateUser(ctx context.Context, r *CreateUserRequest) (Identifier, error) {
	b, now := r.Body, a.Now()
	u := db.User{ID: newID(), Email: b.Email, FirstName: b.FirstName, LastName: b.LastName, SSOType: b.SSOType,
		Verified: b.Verified == nil || *b.Verified, CreatedAt: now, UpdatedAt: now}
	if u.SSOType == "" {
		hash, err := a.Auth.HashPassword(ctx, b.Password)
		if err != nil {
			return Identifier{}, err
		}
		u.PasswordHash = hash
	}
	err := a.DB.CreateUser(ctx, u)
	return Identifier{ID: u.ID}, exists(err, "a user with this email address exists already")
}

// UpdateUserRequest holds what changes of a user.
type UpdateUserRequest struct {
	UserPath
	Body struct {
		FirstName *string `json:"firstname"`
		LastName  *string `json:"lastname"`
		Email     *string `json:"email" format:"email"`
		Verified  *bool   `json:"verified"`
		Password  *string `json:"password" minlen:"8" doc:"A new password ends the user's sessions."`
	}
}

// Validate refuses a local password for a user who is authenticated elsewhere.
func (r *UpdateUserRequest) Validate() []FieldError {
	if r.Body.Password != nil && r.user.SSOType != "" {
		return []FieldError{{"body.password", "this user is authenticated elsewhere and has no local password"}}
	}
	return nil
}

// UpdateUser changes what is given of a user.
func (a *API) UpdateUser(ctx context.Context, r *UpdateUserRequest) error {
	change := db.UserUpdate{ID: r.UserID, FirstName: r.Body.FirstName, LastName: r.Body.LastName,
		Email: r.Body.Email, Verified: r.Body.Verified, UpdatedAt: a.Now()}
	if r.Body.Password != nil {
		hash, err := a.Auth.HashPassword(ctx, *r.Body.Password)
		if err != nil {
			return err
		}
		change.PasswordHash = &hash
	}
	return exists(a.DB.UpdateUser(ctx, change), "a user with this email address exists already")
}

// DeleteUserRequest names a user.
type DeleteUserRequest struct{ UserPath }

// DeleteUser deletes a user who owns no project.
func (a *API) DeleteUser(ctx context.Context, r *DeleteUserRequest) error {
	err := a.DB.DeleteUser(ctx, r.UserID)
	if errors.Is(err, db.ErrInUse) {
		return conflict("the user owns projects; delete these first")
	}
	return err
}

// ListAdminsRequest asks for a page of administrators.
type ListAdminsRequest struct{ PageQuery }

// AdminList is a page of platform administrators.
type AdminList struct {
	Total int           `json:"total"`
	Roots []AdminRecord `json:"roots"`
}

// AdminRecord is a platform administrator. The last one is not removable.
type AdminRecord struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Email       string `json:"email"`
	IsRemovable bool   `json:"isRemovable"`
}

// ListAdmins lists the platform administrators.
func (a *API) ListAdmins(ctx context.Context, r *ListAdminsRequest) (AdminList, error) {
	total, users, err := a.DB.ListRoots(ctx, r.Page*r.PageSize, r.PageSize)
	list := AdminList{Total: total, Roots: make([]AdminRecord, 0, len(users))}
	for _, u := range users {
		list.Roots = append(list.Roots, AdminRecord{ID: u.ID, Name: u.Name(), Email: u.Email, IsRemovable: total > 1})
	}
	return list, err
}

// AddAdminRequest names a user by email address.
type AddAdminRequest struct {
	Email string `query:"email" required:"true" minlen:"1"`
}

// AddAdmin makes a user a platform administrator.
func (a *API) AddAdmin(ctx context.Context, r *AddAdminRequest) error {
	err := a.DB.SetRoot(ctx, r.Email, true, a.Now())
	return notFound(err, "there is no user with this email address; create the user first")
}

// RemoveAdminRequest names a user by email address.
type RemoveAdminRequest struct {
	Email string `query:"email" required:"true" minlen:"1"`
}

// RemoveAdmin makes a platform administrator an ordinary user.
func (a *API) RemoveAdmin(ctx context.Context, r *RemoveAdminRequest) error {
	err := a.DB.SetRoot(ctx, r.Email, false, a.Now())
	return notFound(err, "there is no user with this email address")
}

// projectsOf gives the projects that a caller sees, with the role in each.
func (a *API) projectsOf(ctx context.Context, p *auth.Principal) ([]db.ProjectRole, error) {
	switch {
	case p.Token != nil:
		project, err := a.DB.GetProject(ctx, p.Token.ProjectID)
		return []db.ProjectRole{{Project: project, Role: auth.TokenRole(*p.Token).String()}}, err
	case !p.Root:
		return a.DB.ProjectsOf(ctx, p.ID)
	}
	all, err := a.DB.AllProjects(ctx)
	roles := make([]db.ProjectRole, 0, len(all))
	for _, project := range all {
		roles = append(roles, db.ProjectRole{Project: project, Role: strings.ToLower(auth.Admin.String())})
	}
	return roles, err
}
