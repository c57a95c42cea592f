package messaging

import "context"

// IsServing reports whether this node takes the messages of a broker now.
func IsServing(b ServingBroker) bool {
	_, is := ServingNow(b)
	return is
}

// ServingNow returns what Serving of a broker does, and reports false if that would have to wait.
func ServingNow(b ServingBroker) (serving context.Context, is bool) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // so that nothing is waited for
	serving, err := b.Serving(ctx)
	return serving, err == nil
}
