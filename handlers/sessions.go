package handlers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"signalbox/db"
	"signalbox/handlers/auth"
)

// SessionRecord is a session of a user. Its id is a part of the hash of its token, from which the
// token cannot be computed.
type SessionRecord struct {
	ID        string    `json:"id" doc:"Id of the session. It is not its token." example:"5f2b9c01d4e7a683"`
	CreatedAt time.Time `json:"created_at" doc:"Time of the log-in, RFC 3339." example:"2026-01-31T12:00:00Z"`
	ExpiresAt time.Time `json:"expires_at" doc:"Time at which the session ends, RFC 3339." example:"2026-02-01T12:00:00Z"`
	Address   string    `json:"address" doc:"Address from which the user logged in; empty if it is not known, as of a log-in before it was stored." example:"192.0.2.7"`
	UserAgent string    `json:"user_agent" doc:"User-Agent of the log-in, its first 512 bytes; empty as above, or if there was none." example:"curl/8.14"`
	Current   bool      `json:"current" doc:"True for the session of the caller." example:"true"`
}

// sessionID returns the id of a session.
func sessionID(s db.Session) string { return fmt.Sprintf("%.16s", s.Hash) }

// sessionsOf returns the sessions of a user, the newest first.
func (a *API) sessionsOf(ctx context.Context, userID string) (List[SessionRecord], error) {
	sessions, err := a.DB.SessionsOf(ctx, userID, a.Now())
	records := make([]SessionRecord, 0, len(sessions))
	for _, s := range sessions {
		records = append(records, SessionRecord{ID: sessionID(s), CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt,
			Address: s.Address, UserAgent: s.UserAgent, Current: s.Hash == auth.From(ctx).Session})
	}
	return listOf(records), err
}

// ListSessionsRequest is empty.
type ListSessionsRequest struct{}

// ListSessions lists the sessions of the caller.
func (a *API) ListSessions(ctx context.Context, _ *ListSessionsRequest) (List[SessionRecord], error) {
	return a.sessionsOf(ctx, auth.From(ctx).ID)
}

// EndSessionRequest names a session of the caller.
type EndSessionRequest struct {
	SessionID string `path:"sessionId" doc:"Id of the session."`

	hash string
}

// Resolve finds the session.
func (r *EndSessionRequest) Resolve(ctx context.Context, a *API) error {
	sessions, err := a.DB.SessionsOf(ctx, auth.From(ctx).ID, a.Now())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(sessions, func(s db.Session) bool { return sessionID(s) == r.SessionID })
	if i < 0 {
		return notFound(db.ErrNotFound, "you have no session with this id")
	}
	r.hash = sessions[i].Hash
	return nil
}

// EndSession ends a session of the caller.
func (a *API) EndSession(ctx context.Context, r *EndSessionRequest) error {
	return a.DB.DeleteSession(ctx, r.hash)
}

// EndOtherSessionsRequest is empty.
type EndOtherSessionsRequest struct{}

// EndOtherSessions ends all sessions of the caller but the one that it uses.
func (a *API) EndOtherSessions(ctx context.Context, _ *EndOtherSessionsRequest) error {
	p := auth.From(ctx)
	return a.DB.DeleteSessionsOf(ctx, p.ID, p.Session)
}

// ListUserSessionsRequest names a user.
type ListUserSessionsRequest struct{ UserPath }

// ListUserSessions lists the sessions of a user.
func (a *API) ListUserSessions(ctx context.Context, r *ListUserSessionsRequest) (List[SessionRecord], error) {
	return a.sessionsOf(ctx, r.UserID)
}

// EndUserSessionsRequest names a user.
type EndUserSessionsRequest struct{ UserPath }

// EndUserSessions ends the sessions of a user, but that of the caller.
func (a *API) EndUserSessions(ctx context.Context, r *EndUserSessionsRequest) error {
	return a.DB.DeleteSessionsOf(ctx, r.UserID, auth.From(ctx).Session)
}
