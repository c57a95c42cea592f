package handlers

import (
	"context"
	"errors"
	"time"

	"signalbox/handlers/auth"
)

// LoginRequest has a user's credentials. The email address is masked in the audit log, as some type
// their password in its place; the row has the address of an account as its object.
type LoginRequest struct {
	Caller    string `meta:"caller"`
	Address   string `meta:"address"`
	UserAgent string `meta:"user_agent"`
	Body      struct {
		Email    string `json:"email" required:"true" minlen:"1" masked:"true" doc:"Email address of the user." example:"ada@example.org"`
		Password string `json:"password" required:"true" minlen:"1" secret:"true" doc:"Password of the user." example:"correct-horse-battery"`
	}
}

// LoginRecord is a new session.
type LoginRecord struct {
	Token     string    `json:"token" doc:"Session token, for the header Authorization: Bearer TOKEN. It is also set as the cookie signalbox_session." example:"pVn2mC3kQ0u7bE5xJ1r8sT4wY6zA9dFh"`
	ExpiresAt time.Time `json:"expires_at" doc:"Time at which the session ends, RFC 3339; auth.session_ttl after the log-in, 24 hours by default." example:"2026-02-01T12:00:00Z"`
	User      LoginUser `json:"user" doc:"The user who logged in."`
}

// LoginUser is the user that logged in.
type LoginUser struct {
	ID    string `json:"id" doc:"Id of the user." example:"0190f3c2-1a2b-7c3d-8e4f-5a6b7c8d9e0f"`
	Name  string `json:"name" doc:"First and last name." example:"Ada Lovelace"`
	Email string `json:"email" doc:"Email address." example:"ada@example.org"`
	Root  bool   `json:"root" doc:"True if the user is a platform administrator." example:"false"`
}

// SessionCookie returns the cookie for the console.
func (r LoginRecord) SessionCookie() (value string, expires time.Time) { return r.Token, r.ExpiresAt }

// Login starts a session.
func (a *API) Login(ctx context.Context, r *LoginRequest) (LoginRecord, error) {
	s, err := a.Auth.Login(ctx, r.Body.Email, r.Body.Password, auth.Origin{Caller: r.Caller, Address: r.Address, UserAgent: r.UserAgent})
	if errors.Is(err, auth.ErrUnauthenticated) {
		return LoginRecord{}, &Error{Status: 401, Code: CodeUnauthorized, Message: "email or password is wrong"}
	}
	if err != nil {
		return LoginRecord{}, err
	}
	return LoginRecord{Token: s.Token, ExpiresAt: s.ExpiresAt.UTC(),
		User: LoginUser{ID: s.User.ID, Name: s.User.Name(), Email: s.User.Email, Root: s.User.Root}}, nil
}

// LogoutRequest is empty.
type LogoutRequest struct{}

// LoggedOut is the empty response that also deletes the cookie.
type LoggedOut struct{}

// SessionCookie deletes the cookie.
func (LoggedOut) SessionCookie() (value string, expires time.Time) { return "", time.Time{} }

// Logout ends the caller's session.
func (a *API) Logout(ctx context.Context, _ *LogoutRequest) (LoggedOut, error) {
	return LoggedOut{}, a.Auth.Logout(ctx, auth.From(ctx))
}

// MeRequest is empty.
type MeRequest struct{}

// MeRecord is the caller.
type MeRecord struct {
	Type      string      `json:"type" enum:"user|token" doc:"Whether a user or a project token is calling." example:"user"`
	ID        string      `json:"id" doc:"Id of the user or token." example:"0190f3c2-1a2b-7c3d-8e4f-5a6b7c8d9e0f"`
	Name      string      `json:"name" doc:"Name of the user or token." example:"Ada Lovelace"`
	FirstName string      `json:"firstname" doc:"First name of the user; empty for a token." example:"Ada"`
	LastName  string      `json:"lastname" doc:"Last name of the user; empty for a token." example:"Lovelace"`
	Email     string      `json:"email,omitempty" doc:"Email address of the user; absent for a token." example:"ada@example.org"`
	Root      bool        `json:"root" doc:"True if the caller is a platform administrator." example:"false"`
	Projects  []MeProject `json:"projects" doc:"Projects in which the caller has a role; for a platform administrator all."`
}

// MeProject is a project that the caller has a role in.
type MeProject struct {
	ID   string `json:"id" doc:"Id of the project." example:"0190f3c2-5b21-7d0f-8c4e-91a2b3c4d5e6"`
	Role string `json:"role" doc:"Role in the project: viewer, editor or admin." example:"editor"`
}

// Me returns the caller and its roles.
func (a *API) Me(ctx context.Context, _ *MeRequest) (MeRecord, error) {
	p := auth.From(ctx)
	projects, err := a.projectsOf(ctx, p)
	if err != nil {
		return MeRecord{}, err
	}
	me := MeRecord{Type: p.Kind, ID: p.ID, Name: p.Name, FirstName: p.FirstName, LastName: p.LastName, Email: p.Email, Root: p.Root, Projects: []MeProject{}}
	for _, project := range projects {
		me.Projects = append(me.Projects, MeProject{ID: project.ID, Role: project.Role})
	}
	return me, nil
}

// NameChange has the changes of a person's name.
type NameChange struct {
	FirstName *string `json:"firstname" doc:"First name; absent leaves it unchanged." example:"Ada"`
	LastName  *string `json:"lastname" doc:"Last name; absent leaves it unchanged." example:"Lovelace"`
}

// UpdateMeRequest has the changes of the caller.
type UpdateMeRequest struct{ Body NameChange }

// UpdateMe changes the name of the caller.
func (a *API) UpdateMe(ctx context.Context, r *UpdateMeRequest) error {
	change := UpdateUserRequest{UserPath: UserPath{UserID: auth.From(ctx).ID}}
	change.Body.NameChange = r.Body
	return a.UpdateUser(ctx, &change)
}

// ChangePasswordRequest has the old and the new password.
type ChangePasswordRequest struct {
	Body struct {
		Current string `json:"current" required:"true" minlen:"1" secret:"true" doc:"Current password." example:"correct-horse-battery"`
		New     string `json:"new" required:"true" minlen:"8" secret:"true" doc:"New password." example:"battery-staple-correct"`
	}
}

// ChangePassword changes the caller's password and ends its other sessions.
func (a *API) ChangePassword(ctx context.Context, r *ChangePasswordRequest) error {
	err := a.Auth.ChangePassword(ctx, auth.From(ctx), r.Body.Current, r.Body.New)
	if errors.Is(err, auth.ErrWrongPassword) {
		return Invalid(FieldError{"body.current", "is not your password"})
	}
	return err
}
