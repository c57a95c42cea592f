package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"signalbox/db"
	"signalbox/handlers/auth"
)

// The types of project tokens.
const (
	tokenRestricted   = "restricted"
	tokenUnrestricted = "unrestricted"
)

// TokenRecord is a project token. Times are epoch milliseconds, 0 for never.
type TokenRecord struct {
	ID           string   `json:"id" doc:"Id of the token." example:"0190f3c2-3c4d-7e5f-8a6b-7c8d9e0f1a2b"`
	ProjectID    string   `json:"project_id" doc:"Id of the project. The token works only there." example:"0190f3c2-5b21-7d0f-8c4e-91a2b3c4d5e6"`
	Issuer       string   `json:"issuer" doc:"Name of the user or token that created it." example:"Ada Lovelace"`
	Name         string   `json:"name" doc:"Name of the token." example:"dashboard"`
	Hash         string   `json:"hash" doc:"SHA-256 of the token, hexadecimal." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
	RoleID       string   `json:"role_id" enum:"admin|editor|root|viewer" doc:"Role with which the token was created." example:"viewer"`
	IssueDate    int64    `json:"issue_date" format:"epoch-ms" doc:"Time of creation, in epoch milliseconds." example:"1769860800000"`
	ValidDate    int64    `json:"valid_date" format:"epoch-ms" doc:"Time until which the token is valid, in epoch milliseconds; 0 if it does not expire." example:"0"`
	LastUsedDate int64    `json:"last_used_date" format:"epoch-ms" doc:"Time of the last use, in epoch milliseconds; 0 if it was never used." example:"0"`
	Brokers      []string `json:"brokers" doc:"Ids of the brokers that a restricted token reaches." example:"0190f3c2-7a1e-7c3b-9a55-3f8e1d2c4b6a"`
	Type         string   `json:"type" enum:"restricted|unrestricted" doc:"restricted: only the brokers listed; unrestricted: every broker of the project." example:"restricted"`

	OwnerID         string  `json:"owner_id" doc:"Id of the user with whose membership of the project the token ends." example:"0190f3c2-1a2b-7c3d-8e4f-5a6b7c8d9e0f"`
	ParentID        *string `json:"parent_id" doc:"Id of the token that created it and with which it ends; null if a user created it." example:"null"`
	EffectiveRoleID string  `json:"effective_role_id" enum:"admin|editor|viewer|nobody" doc:"What the token may do now: never more than its owner may." example:"viewer"`
}

// NewTokenRecord is a token just created, with its value, which is not shown again.
type NewTokenRecord struct {
	TokenRecord
	Token string `json:"token" doc:"The token. It is returned only here and cannot be read again." example:"sbx_Q0u7bE5xJ1r8sT4wY6zA9dFhpVn2mC3kX8yZ0aB1cD2"`
}

func tokenRecord(t db.Token) TokenRecord {
	return TokenRecord{ID: t.ID, ProjectID: t.ProjectID, Issuer: t.Issuer, Name: t.Name, Hash: t.Hash, RoleID: t.Role,
		IssueDate: epoch(t.IssuedAt), ValidDate: epoch(t.ValidUntil), LastUsedDate: epoch(t.LastUsedAt),
		Brokers: append([]string{}, t.Brokers...), Type: t.Type,
		OwnerID: t.OwnerID, ParentID: orNull(t.ParentID), EffectiveRoleID: auth.TokenRole(t).String()}
}

// epoch returns epoch milliseconds, 0 for the zero time.
func epoch(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// ListTokensRequest names a project.
type ListTokensRequest struct{ ProjectPath }

// ListTokens lists the tokens of a project, without their values.
func (a *API) ListTokens(ctx context.Context, r *ListTokensRequest) (List[TokenRecord], error) {
	tokens, err := a.DB.ListTokens(ctx, r.ProjectID)
	records := make([]TokenRecord, 0, len(tokens))
	for _, t := range tokens {
		records = append(records, tokenRecord(t))
	}
	return listOf(records), err
}

// CreateTokenRequest describes a new token.
type CreateTokenRequest struct {
	ProjectPath
	Body struct {
		Name      string      `json:"name" required:"true" minlen:"1" doc:"Name of the token." example:"dashboard"`
		Role      string      `json:"role" required:"true" enum:"admin|editor|viewer" doc:"Role of the token; at most that of the caller. A restricted token cannot be admin." example:"viewer"`
		Type      string      `json:"type" required:"true" enum:"restricted|unrestricted" doc:"restricted: only the brokers listed; unrestricted: every broker of the project." example:"restricted"`
		Brokers   []string    `json:"brokers" doc:"Ids of the brokers that a restricted token reaches, at least one; default none." example:"0190f3c2-7a1e-7c3b-9a55-3f8e1d2c4b6a"`
		ValidDate Opt[string] `json:"valid_date" nullable:"true" doc:"RFC 3339 date (until its end, UTC) or date-time until which the token is valid; it must be in the future. Empty, null or absent: the token does not expire." example:"2036-01-31"`
	}

	validUntil time.Time
}

// Validate checks members that depend on each other.
func (r *CreateTokenRequest) Validate() []FieldError {
	var bad []FieldError
	if r.Body.Type == tokenRestricted && r.Body.Role == "admin" {
		bad = append(bad, FieldError{"body.role", "a restricted token cannot have the role admin"})
	}
	if r.Body.Type == tokenRestricted && len(r.Body.Brokers) == 0 {
		bad = append(bad, FieldError{"body.brokers", "a restricted token needs at least one broker"})
	}
	until, err := validDate(r.Body.ValidDate.Value)
	if err != nil {
		bad = append(bad, FieldError{"body.valid_date", err.Error()})
	}
	r.validUntil = until
	return bad
}

// validDate parses a date (its end, in UTC) or a date-time.
func validDate(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.AddDate(0, 0, 1).Add(-time.Millisecond), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("must be a date (2027-01-31) or a date-time (2027-01-31T12:00:00Z) of RFC 3339")
	}
	return t, nil
}

// CreateToken creates a token and returns its value, once. It ends with the membership
// of the user who creates it, or with the token that creates it.
func (a *API) CreateToken(ctx context.Context, r *CreateTokenRequest) (NewTokenRecord, error) {
	now := a.Now()
	if bad := a.checkToken(ctx, r, now); bad != nil {
		return NewTokenRecord{}, bad
	}
	value, hash := auth.NewToken()
	caller := auth.From(ctx)
	t := db.Token{ID: newID(), ProjectID: r.ProjectID, Issuer: caller.Name, OwnerID: caller.ID, OwnerRole: r.Body.Role,
		Name: r.Body.Name, Hash: hash, Role: r.Body.Role, Type: r.Body.Type, Brokers: r.Body.Brokers, IssuedAt: now, ValidUntil: r.validUntil}
	if caller.Token != nil {
		t.OwnerID, t.ParentID = caller.Token.OwnerID, caller.Token.ID
	}
	noteCreated(ctx, t.ID, "", "")
	if err := a.DB.CreateToken(ctx, t); err != nil {
		return NewTokenRecord{}, noLongerAdmin(err)
	}
	return NewTokenRecord{TokenRecord: tokenRecord(t), Token: value}, nil
}

// endsLater reports whether a token with the one end is valid for longer than one with
// the other. The zero time is no end.
func endsLater(end, other time.Time) bool {
	return !other.IsZero() && (end.IsZero() || end.After(other))
}

// checkToken checks what depends on the clock and the database.
func (a *API) checkToken(ctx context.Context, r *CreateTokenRequest, now time.Time) error {
	var bad []FieldError
	if !r.validUntil.IsZero() && !r.validUntil.After(now) {
		bad = append(bad, FieldError{"body.valid_date", "must lie in the future"})
	}
	if parent := auth.From(ctx).Token; parent != nil && endsLater(r.validUntil, parent.ValidUntil) {
		bad = append(bad, FieldError{"body.valid_date", "must not be later than " + parent.ValidUntil.UTC().Format(time.RFC3339) +
			", when the token that you use ends"})
	}
	rows, err := a.DB.ListBrokers(ctx, r.ProjectID)
	if err != nil {
		return err
	}
	for i, id := range r.Body.Brokers {
		if !slices.ContainsFunc(rows, func(b db.Broker) bool { return b.ID == id }) {
			bad = append(bad, FieldError{fmt.Sprintf("body.brokers[%d]", i), "the project has no broker with this id"})
		}
	}
	if bad != nil {
		return Invalid(bad...)
	}
	return nil
}

// TokenPath names a token of a project.
type TokenPath struct {
	ProjectPath
	TokenID string `path:"tokenId" doc:"Id of the token."`
}

// DeleteTokenRequest names a token.
type DeleteTokenRequest struct{ TokenPath }

// RevokedToken is the outcome of revoking a token.
type RevokedToken struct {
	Deleted     bool         `json:"deleted" doc:"True: the token was revoked." example:"true"`
	Descendants []EndedToken `json:"descendants" doc:"Tokens that it created, directly or through others; they ended with it."`
}

// EndedToken is a token that ended with the one that created it.
type EndedToken struct {
	ID   string `json:"id" doc:"Id of the token." example:"0190f3c2-4d5e-7f60-8b7c-8d9e0f1a2b3c"`
	Name string `json:"name" doc:"Name of the token." example:"report"`
}

// DeleteToken revokes a token and those that it created.
func (a *API) DeleteToken(ctx context.Context, r *DeleteTokenRequest) (RevokedToken, error) {
	ended, err := a.DB.DeleteToken(ctx, r.ProjectID, r.TokenID)
	revoked := RevokedToken{Deleted: err == nil, Descendants: make([]EndedToken, 0, len(ended))}
	for _, t := range ended {
		revoked.Descendants = append(revoked.Descendants, EndedToken{ID: t.ID, Name: t.Name})
	}
	return revoked, noToken(err)
}

// TakeTokenRequest names a token.
type TakeTokenRequest struct{ TokenPath }

// TakeToken makes the caller the owner of a token and of those that it created. A token
// cannot be transferred to another user: it would outlive its creator unnoticed.
func (a *API) TakeToken(ctx context.Context, r *TakeTokenRequest) error {
	return noToken(noLongerAdmin(a.DB.SetTokenOwner(ctx, r.ProjectID, r.TokenID, auth.From(ctx).ID)))
}

// noLongerAdmin refuses a request if the caller's membership has ended since it was
// authorized.
func noLongerAdmin(err error) error {
	if errors.Is(err, db.ErrNotAdmin) {
		return Forbidden("you are no longer an admin of this project")
	}
	return err
}

func noToken(err error) error { return notFound(err, "the project has no token with this id") }
