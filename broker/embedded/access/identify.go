package access

import (
	"context"

	"signalbox/broker"
)

// Identify returns the account of a client whose certificate stands for its username. The
// conditions are the same as with its password. Every refusal is ErrNotAuthorized.
func (c *Control) Identify(username, clientID string) (*Account, error) {
	for range loginAttempts {
		a := c.accounts.acquire(username)
		bound, disabled, _, known := c.state.Load().Login(username)
		if !known || disabled || bound != "" && bound != clientID {
			a.Release()
			return nil, ErrNotAuthorized
		}
		if !a.Revoked() {
			return a, nil
		}
		a.Release()
	}
	return nil, ErrNotAuthorized
}

// CheckAccess returns what a client may do, and why.
func (c *Control) CheckAccess(_ context.Context, q broker.AccessCheck) (broker.Verdict, error) {
	return c.state.Load().Explain(q), nil
}
