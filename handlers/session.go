package handlers

import (
	"context"
	"errors"
	"time"

	"signalbox/handlers/auth"
)

// LoginRequest holds a user's credentials.
type LoginRequest struct {
	Address string `meta:"address"`
	Body    struct {
		Email    string `json:"email" required:"true" minlen:"1"`
		Password string `json:"password" required:"true" minlen:"1"`
	}
}

// LoginRecord is a new session.
type LoginRecord struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
	User      LoginUser `json:"user"`
}

// LoginUser is the user that logged in.
type LoginUser struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Email string `json:"email"`
	Root  bool   `json:"root"`
}

// SessionCookie gives the cookie for the console.
func (r LoginRecord) SessionCookie() (value string, expires time.Time) { return r.Token, r.ExpiresAt }

// Login begins a session.
func (a *API) Login(ctx context.Context, r *LoginRequest) (LoginRecord, error) {
	s, err := a.Auth.Login(ctx, r.Body.Email, r.Body.Password, r.Address)
	if errors.Is(err, auth.ErrUnauthenticated) {
		return LoginRecord{}, &Error{Status: 401, Code: CodeUnauthorized, Message: "email or password is wrong"}
	}
	if err != nil {
		return LoginRecord{}, err
	}
	return LoginRecord{Token: s.Token, ExpiresAt: s.ExpiresAt.UTC(),
		User: LoginUser{ID: s.User.ID, Name: s.User.Name(), Email: s.User.Email, Root: s.User.Root}}, nil
}

// LogoutRequest has no parts.
type LogoutRequest struct{}

// LoggedOut is the empty answer that also ends the cookie.
type LoggedOut struct{}

// SessionCookie removes the cookie.
func (LoggedOut) SessionCookie() (value string, expires time.Time) { return "", time.Time{} }

// Logout ends the caller's session.
func (a *API) Logout(ctx context.Context, _ *LogoutRequest) (LoggedOut, error) {
	return LoggedOut{}, a.Auth.Logout(ctx, auth.From(ctx))
}

// MeRequest has no parts.
type MeRequest struct{}

// MeRecord is who is calling.
type MeRecord struct {
	Type     string      `json:"type" enum:"user|token"`
	ID       string      `json:"id"`
	Name     string      `json:"name"`
	Email    string      `json:"email,omitempty"`
	Root     bool        `json:"root"`
	Projects []MeProject `json:"projects"`
}

// MeProject is a project that the caller has a role in.
type MeProject struct {
	ID   string `json:"id"`
	Role string `json:"role"`
}

// Me tells who is calling and what roles they have.
func (a *API) Me(ctx context.Context, _ *MeRequest) (MeRecord, error) {
	p := auth.From(ctx)
	projects, err := a.projectsOf(ctx, p)
	if err != nil {
		return MeRecord{}, err
	}
	me := MeRecord{Type: p.Kind, ID: p.ID, Name: p.Name, Email: p.Email, Root: p.Root, Projects: []MeProject{}}
	for _, project := range projects {
		me.Projects = append(me.Projects, MeProject{ID: project.ID, Role: project.Role})
	}
	return me, nil
}

// ChangePasswordRequest holds the old and the new password.
type ChangePasswordRequest struct {
	Body struct {
		Current string `json:"current" required:"true" minlen:"1"`
		New     string `json:"new" required:"true" minlen:"8"`
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
