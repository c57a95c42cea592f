package auth

import (
	"context"
	"slices"

	"signalbox/db"
)

// The kinds of principal.
const (
	KindUser  = "user"
	KindToken = "token"
)

// Principal is an authenticated caller. Session is the hash of a user's session, Token
// the project token; ViaCookie is set by the transport if a browser sent the credential
// automatically.
type Principal struct {
	Kind      string
	ID        string
	Name      string
	FirstName string // of a user
	LastName  string
	Email     string
	Root      bool
	Session   string
	Token     *db.Token
	ViaCookie bool
}

// Restricted reports whether the principal is limited to a list of brokers.
func (p *Principal) Restricted() bool { return p.Token != nil && p.Token.Type != "unrestricted" }

// BrokerAllowed reports whether the principal's token, if it is one, allows the broker.
// The role does not matter.
func (p *Principal) BrokerAllowed(id string) bool {
	return !p.Restricted() || slices.Contains(p.Token.Brokers, id)
}

type principalKey struct{}

// WithPrincipal returns a context with the caller.
func WithPrincipal(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns the caller, nil for one that is not authenticated.
func From(ctx context.Context) *Principal {
	p, _ := ctx.Value(principalKey{}).(*Principal)
	return p
}
