package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/db"
)

// Session is a new session. Token is the credential, which is not stored.
type Session struct {
	Token     string
	ExpiresAt time.Time
	User      db.User
}

// Origin is where a log-in comes from. By Caller, the caller's IP address without port, failed
// attempts are counted; it is loopback only for a caller on this machine. Address and UserAgent are
// stored with the session, as they are in the audit log.
type Origin struct {
	Caller    string
	Address   string
	UserAgent string
}

// Login opens a session for the user with that e-mail address.
//
// ErrUnauthenticated is the only error for an unknown, unverified or password-less
// account and for a wrong password, after the same work. *TooManyAttempts: too many
// failures of this address; the credentials were not checked.
func (a *Auth) Login(ctx context.Context, email, password string, from Origin) (Session, error) {
	origin := addressKey(from.Caller)
	pair := pairKey(origin, email)
	keys := a.throttledBy(origin, pair, from.Caller)
	if err := a.throttle.begin(a.now(), keys...); err != nil {
		return Session{}, err
	}
	u, err := a.byPassword(ctx, email, password)
	db.NoteAudit(ctx, func(e *db.AuditEvent) { e.Object = u.Email })
	if errors.Is(err, ErrUnauthenticated) {
		a.log.InfoContext(ctx, "log-in refused", "address", from.Caller, "user", u.ID)
		return Session{}, err
	}
	for _, key := range keys {
		a.throttle.takeBack(key)
	}
	if err != nil {
		return Session{}, fmt.Errorf("log in: %w", err)
	}
	a.throttle.forget(pair)
	a.known.note(pair, a.now())
	return a.open(ctx, u, from)
}

// throttledBy returns the keys by which a log-in is delayed. A caller that has logged
// in to an account from an address before is not delayed by other failures from there,
// and a caller on this machine not at all: so there is always a way in.
func (a *Auth) throttledBy(origin, pair throttleKey, address string) []throttleKey {
	switch {
	case isThisMachine(address):
		return nil
	case a.known.isKnown(pair):
		return []throttleKey{pair}
	}
	return []throttleKey{pair, origin}
}

// byPassword returns the account with that password. It verifies one password even
// without an account.
func (a *Auth) byPassword(ctx context.Context, email, password string) (db.User, error) {
	u, err := a.db.UserByEmail(ctx, email)
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return u, err
	}
	return u, a.admit(ctx, u, password)
}

// admit verifies the password of a user, always at the cost of one verification.
func (a *Auth) admit(ctx context.Context, u db.User, password string) error {
	ok, err := a.verify(ctx, password, u.PasswordHash)
	if err != nil {
		return err
	}
	if !ok || !u.Verified || u.SSOType != "" {
		return ErrUnauthenticated
	}
	return nil
}

// open stores a session, and deletes expired ones. A user whose password was changed
// since it was read gets none: the change deleted only the sessions that existed then.
func (a *Auth) open(ctx context.Context, u db.User, from Origin) (Session, error) {
	now := a.now()
	value, hash := newSession()
	db.NoteAudit(ctx, func(e *db.AuditEvent) { e.ActorKind, e.ActorID, e.ActorName = KindUser, u.ID, u.Name() })
	s := db.Session{Hash: hash, UserID: u.ID, CreatedAt: now, ExpiresAt: now.Add(a.cfg.SessionTTL), Address: from.Address, UserAgent: from.UserAgent}
	if err := a.db.CreateSession(ctx, s); err != nil {
		return Session{}, fmt.Errorf("log in: %w", err)
	}
	if _, stored, err := a.db.SessionUser(ctx, hash, now); err != nil {
		return Session{}, orUnauthenticated(err)
	} else if stored.PasswordHash != u.PasswordHash {
		return Session{}, errors.Join(ErrUnauthenticated, a.db.DeleteSession(ctx, hash))
	}
	if err := a.db.DeleteExpiredSessions(ctx, now); err != nil {
		a.log.WarnContext(ctx, "expired sessions could not be deleted", "error", err)
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
// ErrWrongPassword: current is not its password. *TooManyAttempts: too many wrong ones.
// ErrUsersOnly: the caller is not a signed-in user.
func (a *Auth) ChangePassword(ctx context.Context, p *Principal, current, next string) error {
	if p == nil || p.Session == "" {
		return ErrUsersOnly
	}
	u, err := a.db.UserByID(ctx, p.ID)
	if err != nil {
		return orUnauthenticated(err)
	}
	if err := a.confirm(ctx, u, current); err != nil {
		return fmt.Errorf("change password: %w", err)
	}
	hash, err := a.HashPassword(ctx, next)
	if err != nil {
		return fmt.Errorf("change password: %w", err)
	}
	return a.db.SetPassword(ctx, p.ID, hash, p.Session, a.now())
}

// confirm verifies the password of a signed-in user. Failures delay the next attempt,
// so that an attacker with a stolen session cannot guess; they are counted separately
// from log-ins, where failures of others could keep the user from trying.
func (a *Auth) confirm(ctx context.Context, u db.User, password string) error {
	user := userKey(u.ID)
	if err := a.throttle.begin(a.now(), user); err != nil {
		return err
	}
	err := a.admit(ctx, u, password)
	switch {
	case errors.Is(err, ErrUnauthenticated):
		return ErrWrongPassword
	case err != nil:
		a.throttle.takeBack(user)
	default:
		a.throttle.forget(user)
	}
	return err
}
