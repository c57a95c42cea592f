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

// Principal is who is calling. Session is the hash of a user's session, Token the
// project token; ViaCookie is set by the transport when a browser sent the
// credential by itself.
type Principal struct {
	Kind      string
	ID        string
	Name      string
	Email     string
	Root      bool
	Session   string
	Token     *db.Token
	ViaCookie bool
}

// Restricted reports whether the principal is limited to a list of brokers.
func (p *Principal) Restricted() bool { return p.Token != nil && p.Token.Type != "unrestricted" }

// BrokerAllowed reports whether the principal's token, if it is one, opens the
// broker. It says nothing about the role.
func (p *Principal) BrokerAllowed(id string) bool {
	return !p.Restricted() || slices.Contains(p.Token.Brokers, id)
}

type principalKey struct{}

// WithPrincipal gives a context that says who is calling.
func WithPrincipal(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From tells who is calling, nil for a stranger.
func From(ctx context.Context) *Principal {
	p, _ := ctx.Value(principalKey{}).(*Principal)
	return p
}
