package messaging

import "context"

// IsServing reports whether this node takes the messages of a broker now.
func IsServing(b ServingBroker) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // so that nothing is waited for
	_, err := b.Serving(ctx)
	return err == nil
}
