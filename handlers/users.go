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
	ID             string     `json:"id" doc:"Id of the user." example:"0190f3c2-1a2b-7c3d-8e4f-5a6b7c8d9e0f"`
	Name           string     `json:"name" doc:"First and last name." example:"Ada Lovelace"`
	FirstName      string     `json:"firstname" doc:"First name." example:"Ada"`
	LastName       string     `json:"lastname" doc:"Last name." example:"Lovelace"`
	Verified       bool       `json:"verified" doc:"False if the user may not log in." example:"true"`
	Email          string     `json:"email" doc:"Email address, with which the user logs in." example:"ada@example.org"`
	CreatedAt      time.Time  `json:"created_at" doc:"Time of creation, RFC 3339." example:"2026-01-31T12:00:00Z"`
	LastSeen       *time.Time `json:"last_seen" nullable:"true" doc:"Time of the last log-in, change or refused request of the user that the audit log still has, RFC 3339; null if it has none." example:"2026-02-01T08:30:00Z"`
	TrialFlow      bool       `json:"trial_flow" doc:"Always false." example:"false"`
	ProjectCount   int        `json:"project_count" doc:"Number of projects that the user is a member of." example:"2"`
	BrokerCount    int        `json:"broker_count" doc:"Number of broker connections in these projects." example:"5"`
	MonthlyRevenue float64    `json:"monthly_revenue" doc:"Always 0." example:"0"`
	YearlyRevenue  float64    `json:"yearly_revenue" doc:"Always 0." example:"0"`
	TotalRevenue   float64    `json:"total_revenue" doc:"Always 0." example:"0"`
	Onboarding     float64    `json:"onboarding" doc:"Always 0." example:"0"`
	Bookings       any        `json:"bookings" doc:"Always null." example:"null"`
}

func userRecord(u db.UserSummary) UserRecord {
	r := UserRecord{ID: u.ID, Name: u.Name(), FirstName: u.FirstName, LastName: u.LastName, Verified: u.Verified, Email: u.Email, CreatedAt: u.CreatedAt.UTC(),
		ProjectCount: u.ProjectCount, BrokerCount: u.BrokerCount}
	if seen := u.LastSeenAt.UTC(); !seen.IsZero() {
		r.LastSeen = &seen
	}
	return r
}

// ListUsersRequest asks for a page of users.
type ListUsersRequest struct{ PageQuery }

// UserList is a page of users.
type UserList struct {
	Total     int          `json:"total" doc:"Number of users." example:"1"`
	Page      int          `json:"page" doc:"Number of the page, as in the request." example:"0"`
	PageSize  int          `json:"pageSize" doc:"Entries per page, as in the request." example:"20"`
	SortField string       `json:"sortField" doc:"Field by which the list is sorted: created_at." example:"created_at"`
	SortOrder string       `json:"sortOrder" doc:"Order of the list: asc, the oldest user first." example:"asc"`
	Data      []UserRecord `json:"data" doc:"Users of the page."`
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

// GetUser returns a user.
func (a *API) GetUser(_ context.Context, r *GetUserRequest) (UserRecord, error) {
	return userRecord(r.user), nil
}

// CreateUserRequest describes a new user.
type CreateUserRequest struct {
	Body struct {
		FirstName string `json:"firstname" doc:"First name; default empty." example:"Ada"`
		LastName  string `json:"lastname" doc:"Last name; default empty." example:"Lovelace"`
		Email     string `json:"email" required:"true" format:"email" doc:"Email address, with which the user logs in; unique." example:"ada@example.org"`
		Password  string `json:"password" minlen:"8" secret:"true" doc:"Password; required unless ssoType is present." example:"correct-horse-battery"`
		Verified  *bool  `json:"verified" doc:"False keeps the user from logging in; default true." example:"true"`
		SSOType   string `json:"ssoType" enum:"ldap|sso" doc:"The user is authenticated elsewhere, and no local password is accepted; default none." example:"-"`
	}
}

// Validate requires a password, or another way to authenticate the user.
func (r *CreateUserRequest) Validate() []FieldError {
	if r.Body.Password == "" && r.Body.SSOType == "" {
		return []FieldError{{"body.password", "is required (at least 8 characters) unless ssoType is given"}}
	}
	return nil
}

// Identifier is the id of a created record.
type Identifier struct {
	ID string `json:"id" doc:"Id of the new object." example:"0190f3c2-7a1e-7c3b-9a55-3f8e1d2c4b6a"`
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
	noteCreated(ctx, u.ID, "", "")
	err := a.DB.CreateUser(ctx, u)
	return Identifier{ID: u.ID}, exists(err, "a user with this email address exists already")
}

// UpdateUserRequest has the changes of a user.
type UpdateUserRequest struct {
	UserPath
	Body struct {
		NameChange
		Email    *string `json:"email" format:"email" doc:"Email address, unique; absent leaves it unchanged." example:"ada@example.org"`
		Verified *bool   `json:"verified" doc:"False keeps the user from logging in; absent leaves it unchanged." example:"true"`
		Password *string `json:"password" minlen:"8" secret:"true" doc:"New password, which ends the sessions of the user; absent leaves it unchanged. Not for a user who is authenticated elsewhere." example:"battery-staple-correct"`
	}
}

// Validate refuses a local password for a user who is authenticated elsewhere.
func (r *UpdateUserRequest) Validate() []FieldError {
	if r.Body.Password != nil && r.user.SSOType != "" {
		return []FieldError{{"body.password", "this user is authenticated elsewhere and has no local password"}}
	}
	return nil
}

// UpdateUser changes the given members of a user.
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
	Total int           `json:"total" doc:"Number of platform administrators." example:"2"`
	Roots []AdminRecord `json:"roots" doc:"Administrators of the page."`
}

// AdminRecord is a platform administrator. The last one is not removable.
type AdminRecord struct {
	ID          string `json:"id" doc:"Id of the user." example:"0190f3c2-1a2b-7c3d-8e4f-5a6b7c8d9e0f"`
	Name        string `json:"name" doc:"First and last name." example:"Ada Lovelace"`
	Email       string `json:"email" doc:"Email address." example:"ada@example.org"`
	IsRemovable bool   `json:"isRemovable" doc:"False for the last administrator, who cannot be removed." example:"true"`
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
	Email string `query:"email" required:"true" minlen:"1" doc:"Email address of the user."`
}

// AddAdmin makes a user a platform administrator.
func (a *API) AddAdmin(ctx context.Context, r *AddAdminRequest) error {
	err := a.DB.SetRoot(ctx, r.Email, true, a.Now())
	return notFound(err, "there is no user with this email address; create the user first")
}

// RemoveAdminRequest names a user by email address.
type RemoveAdminRequest struct {
	Email string `query:"email" required:"true" minlen:"1" doc:"Email address of the administrator."`
}

// RemoveAdmin makes a platform administrator an ordinary user.
func (a *API) RemoveAdmin(ctx context.Context, r *RemoveAdminRequest) error {
	err := a.DB.SetRoot(ctx, r.Email, false, a.Now())
	return notFound(err, "there is no user with this email address")
}

// projectsOf returns the projects that a caller sees, with the role in each.
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
