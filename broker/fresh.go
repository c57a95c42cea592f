package broker

import "context"

type freshKey struct{}

// WithFreshAttempt returns a context for operations that must not fail for a reason
// that may no longer hold: a broker that is not connected is tried to be reached
// after the operation began, instead of returning why an earlier attempt failed.
func WithFreshAttempt(ctx context.Context) context.Context {
	return context.WithValue(ctx, freshKey{}, true)
}

// WantsFreshAttempt reports whether a context is one of WithFreshAttempt.
func WantsFreshAttempt(ctx context.Context) bool {
	wants, _ := ctx.Value(freshKey{}).(bool)
	return wants
}
