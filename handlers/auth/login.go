package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/db"
)

// Session is a fresh log-in. Token is the credential, stored nowhere.
type Session struct {
	Token     string
	ExpiresAt time.Time
	User      db.User
}

// Login opens a session for the user with that e-mail address. address is where the
// caller is, an IP address without port.
//
// ErrUnauthenticated is the one answer to an unknown, unverified or password-less
// account and to a wrong password, after the same work. *TooManyAttempts: too many
// failures of this account or address; nothing was looked at.
func (a *Auth) Login(ctx context.Context, email, password, address string) (Session, error) {
	account, origin := accountKey(email), addressKey(address)
	if err := a.throttle.begin(a.now(), account, origin); err != nil {
		return Session{}, err
	}
	u, err := a.check(ctx, email, password)
	if errors.Is(err, ErrUnauthenticated) {
		a.log.InfoContext(ctx, "log-in refused", "address", address, "user", u.ID)
		return Session{}, err
	}
	a.throttle.takeBack(origin)
	if err != nil {
		a.throttle.takeBack(account)
		return Session{}, fmt.Errorf("log in: %w", err)
	}
	a.throttle.forget(account)
	return a.open(ctx, u)
}

// check finds the account and verifies the password, always at the cost of one
// verification.
func (a *Auth) check(ctx context.Context, email, password string) (db.User, error) {
	u, err := a.db.UserByEmail(ctx, email)
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return u, err
	}
	ok, err := a.verify(ctx, password, u.PasswordHash)
	if err != nil {
		return u, err
	}
	if !ok || !u.Verified || u.SSOType != "" {
		return u, ErrUnauthenticated
	}
	return u, nil
}

// open stores a session, and takes the opportunity to remove expired ones.
func (a *Auth) open(ctx context.Context, u db.User) (Session, error) {
	now := a.now()
	value, hash := newSession()
	s := db.Session{Hash: hash, UserID: u.ID, CreatedAt: now, ExpiresAt: now.Add(a.cfg.SessionTTL)}
	if err := a.db.CreateSession(ctx, s); err != nil {
		return Session{}, fmt.Errorf("log in: %w", err)
	}
	if err := a.db.DeleteExpiredSessions(ctx, now); err != nil {
		a.log.WarnContext(ctx, "expired sessions not removed", "error", err)
	}
	return Session{Token: value, ExpiresAt: s.ExpiresAt, User: u}, nil
}

// Logout ends the caller's session. ErrUsersOnly: the caller has none.
func (a *Auth) Logout(ctx context.Context, p *Principal) error {
	if p == nil || p.Session == "" {
		return ErrUsersOnly
	}
	return a.db.DeleteSession(ctx, p.Session)
}

// ChangePassword replaces the caller's password and ends its other sessions.
// ErrWrongPassword: current is not its password. *TooManyAttempts: too many wrong
// ones. ErrUsersOnly: the caller is no signed-in user.
func (a *Auth) ChangePassword(ctx context.Context, p *Principal, current, next string) error {
	if p == nil || p.Session == "" {
		return ErrUsersOnly
	}
	account := accountKey(p.Email)
	if err := a.throttle.begin(a.now(), account); err != nil {
		return err
	}
	if _, err := a.check(ctx, p.Email, current); errors.Is(err, ErrUnauthenticated) {
		return ErrWrongPassword
	} else if err != nil {
		a.throttle.takeBack(account)
		return fmt.Errorf("change password: %w", err)
	}
	a.throttle.forget(account)
	hash, err := a.HashPassword(ctx, next)
	if err != nil {
		return fmt.Errorf("change password: %w", err)
	}
	return a.db.SetPassword(ctx, p.ID, hash, p.Session, a.now())
}
