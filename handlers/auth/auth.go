// Package auth authenticates callers and decides what they may do: log-in, sessions,
// project tokens and roles.
//
// It imports db and must not import net/http, handlers, router or broker.
package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"

	"signalbox/db"
)

var (
	// ErrUnauthenticated is the error for every credential that is not accepted.
	ErrUnauthenticated = errors.New("not signed in, or the credentials are not valid")
	// ErrWrongPassword is the error for a wrong current password of a signed-in user.
	ErrWrongPassword = errors.New("the current password is wrong")
	// ErrUsersOnly is the error for an operation that a token cannot do, only a
	// signed-in user.
	ErrUsersOnly = errors.New("only a signed-in user can do this")
)

// TooManyAttempts refuses a log-in without checking it.
type TooManyAttempts struct{ RetryAfter time.Duration }

// Wait returns the time to wait in whole seconds, after which an attempt is allowed.
func (e *TooManyAttempts) Wait() time.Duration {
	return (e.RetryAfter + time.Second - 1).Truncate(time.Second)
}

// Error returns a text with the time to wait.
func (e *TooManyAttempts) Error() string {
	return fmt.Sprintf("too many attempts: try again in %s", e.Wait())
}

// Auth authenticates callers. It is safe for concurrent use.
type Auth struct {
	db       *db.DB
	cfg      Config
	now      func() time.Time
	log      *slog.Logger
	hashing  *argon2id.Params
	hasher   *hasher
	throttle *throttle
	known    *throttle // pairs with a successful log-in; failed attempts cannot displace one
	lastUsed *lastUsedUpdates
}

// New builds an Auth over d. It starts nothing; Close writes what is pending.
func New(d *db.DB, cfg Config, now func() time.Time, log *slog.Logger) *Auth {
	return &Auth{
		db: d, cfg: cfg, now: now, log: log,
		hashing: cmp.Or(cfg.Hashing, hashing), hasher: newHasher(), throttle: newThrottle(), known: newThrottle(), lastUsed: newLastUsedUpdates(d, log),
	}
}

// Close writes the pending times at which tokens were last used. The database must
// still be open.
func (a *Auth) Close(ctx context.Context) error { return a.lastUsed.close(ctx) }

// Authenticate returns the owner of a credential: a session token or a project token.
// Every credential that is not accepted is ErrUnauthenticated.
func (a *Auth) Authenticate(ctx context.Context, credential string) (*Principal, error) {
	switch {
	case len(credential) == tokenLen && strings.HasPrefix(credential, tokenPrefix):
		return a.byToken(ctx, digest(credential))
	case len(credential) == sessionLen:
		return a.bySession(ctx, digest(credential))
	}
	return nil, ErrUnauthenticated
}

func (a *Auth) bySession(ctx context.Context, hash string) (*Principal, error) {
	s, u, err := a.db.SessionUser(ctx, hash, a.now())
	if err != nil {
		return nil, orUnauthenticated(err)
	}
	if !u.Verified {
		return nil, ErrUnauthenticated
	}
	return userPrincipal(u, s.Hash), nil
}

// userPrincipal returns a user as a caller; session is the hash of its session, "" for none.
func userPrincipal(u db.User, session string) *Principal {
	return &Principal{Kind: KindUser, ID: u.ID, Name: u.Name(), FirstName: u.FirstName, LastName: u.LastName, Email: u.Email, Root: u.Root, Session: session}
}

func (a *Auth) byToken(ctx context.Context, hash string) (*Principal, error) {
	t, err := a.db.TokenByHash(ctx, hash)
	if err != nil {
		return nil, orUnauthenticated(err)
	}
	now := a.now()
	if !t.ValidUntil.IsZero() && !now.Before(t.ValidUntil) {
		return nil, ErrUnauthenticated
	}
	if _, ok := ParseRole(t.OwnerRole); !ok {
		return nil, ErrUnauthenticated
	}
	a.lastUsed.add(t, now)
	return &Principal{Kind: KindToken, ID: t.ID, Name: t.Name, Token: &t}, nil
}

// Renew returns a caller with its present properties, for work that goes on after its
// request: the end of its session does not matter. ErrUnauthenticated: the user was deleted
// or is not verified any more, the token was revoked or has expired.
func (a *Auth) Renew(ctx context.Context, p *Principal) (*Principal, error) {
	if p.Token != nil {
		return a.byToken(ctx, p.Token.Hash)
	}
	u, err := a.db.UserByID(ctx, p.ID)
	if err != nil {
		return nil, orUnauthenticated(err)
	}
	if !u.Verified {
		return nil, ErrUnauthenticated
	}
	return userPrincipal(u, ""), nil
}

// orUnauthenticated replaces not-found errors, so that callers do not learn what is
// missing.
func orUnauthenticated(err error) error {
	if errors.Is(err, db.ErrNotFound) {
		return ErrUnauthenticated
	}
	return fmt.Errorf("authenticate: %w", err)
}

// RoleIn returns the caller's role in a project: Root for a root administrator, NoRole
// for a caller who is not a member. A token has a role in its own project only, and
// never a higher one than its owner has at present. db.ErrNotFound: no such project.
func (a *Auth) RoleIn(ctx context.Context, p *Principal, projectID string) (Role, error) {
	if p != nil && p.Token != nil && p.Token.ProjectID == projectID {
		return TokenRole(*p.Token), nil
	}
	user := ""
	if p != nil && p.Kind == KindUser {
		user = p.ID
	}
	name, err := a.db.RoleOf(ctx, projectID, user)
	if err != nil {
		return NoRole, fmt.Errorf("find role: %w", err)
	}
	if p != nil && p.Root {
		return Root, nil
	}
	role, _ := ParseRole(name)
	return role, nil
}

// TokenRole returns a token's role in its project: the one it was created with, or that
// of its owner if that is lower.
func TokenRole(t db.Token) Role {
	made, _ := ParseRole(t.Role)
	owner, _ := ParseRole(t.OwnerRole)
	return min(made, owner, Admin)
}

// MayCreateProjects reports whether the configuration lets a user create projects.
func (a *Auth) MayCreateProjects(p *Principal) bool {
	return p.Root || slices.ContainsFunc(a.cfg.ProjectCreators, func(who string) bool {
		return who == creatorsEveryone || db.FoldEmail(who) == db.FoldEmail(p.Email)
	})
}

// Required returns the role that an operation with the minimum role least demands
// under this configuration; writes reports whether the operation changes something.
func (a *Auth) Required(least Role, writes bool) Role {
	if writes && least == Viewer && a.cfg.ViewerReadOnly {
		return Editor
	}
	return least
}
