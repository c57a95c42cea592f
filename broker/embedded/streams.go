package embedded

import (
	"context"

	"signalbox/broker/control"
)

// commandStreams executes a request about streams: at the host if they are those of the cluster.
func (b *Broker) commandStreams(ctx context.Context, payload []byte) []byte {
	if response, asked := b.askHost(ctx, askStreams, payload, payload); asked {
		return response
	}
	return control.Streams(ctx, b, b.GetLicense, payload)
}

// responseOf returns a response, which is nil if the context ended before.
func responseOf(ctx context.Context, response []byte) ([]byte, error) {
	if response == nil {
		return nil, context.Cause(ctx)
	}
	return response, nil
}
