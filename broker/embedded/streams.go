package embedded

import (
	"context"
	"fmt"
	"time"
)

// StoreID is the id under which the streams and bridges of this broker are stored.
const StoreID = "embedded"

// streamsOpenTimeout bounds the reading of the stored streams.
const streamsOpenTimeout = 10 * time.Second

// openStreams starts the streams, before the first message is published.
func (b *Broker) openStreams(ctx context.Context) error {
	if b.config.Streams == nil {
		return nil
	}
	b.streams = b.config.Streams.Open(StoreID, streamAdapter{b.messaging(), b})
	b.Streams = b.streams
	ctx, cancel := context.WithTimeout(ctx, streamsOpenTimeout)
	defer cancel()
	if err := b.streams.Ready(ctx); err != nil {
		return fmt.Errorf("read the broker's stored streams: %w; the log says what is wrong", err)
	}
	return nil
}

// closeStreams waits until what streams have accepted is stored and published.
func (b *Broker) closeStreams(ctx context.Context) error {
	if b.streams == nil {
		return nil
	}
	return b.streams.Close(ctx)
}
