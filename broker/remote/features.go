package remote

import (
	"context"

	"signalbox/broker"
)

// streams returns the implementation of the broker's streams: this service if it has some,
// otherwise the broker itself if it can.
func (b *Broker) streams(ctx context.Context, op string) (broker.Streams, error) {
	hosted := b.hosted.Streams()
	if hosted == nil {
		return streamPlugin{b}, nil
	}
	ours, err := b.serves(ctx, hosted, broker.CapStreams, op)
	switch {
	case err != nil:
		return nil, err
	case ours:
		return hosted, nil
	}
	return streamPlugin{b}, nil
}

// bridges returns the implementation of the broker's bridges: this service if it has some,
// otherwise the broker itself if it can.
func (b *Broker) bridges(ctx context.Context, op string) (broker.Bridges, error) {
	hosted := b.hosted.Bridges()
	if hosted == nil {
		return bridgePlugins{b}, nil
	}
	ours, err := b.serves(ctx, hosted, broker.CapBridges, op)
	switch {
	case err != nil:
		return nil, err
	case ours:
		return hosted, nil
	}
	return bridgePlugins{b}, nil
}
