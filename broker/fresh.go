package broker

import "context"

type freshKey struct{}

// WithFreshAttempt returns a context for operations that must not fail for an outdated
// reason: if the broker is not connected, a new attempt is made after the operation
// began, instead of returning the error of an earlier one.
func WithFreshAttempt(ctx context.Context) context.Context {
	return context.WithValue(ctx, freshKey{}, true)
}

// WantsFreshAttempt reports whether a context is one of WithFreshAttempt.
func WantsFreshAttempt(ctx context.Context) bool {
	wants, _ := ctx.Value(freshKey{}).(bool)
	return wants
}
