package embedded

import (
	"context"
	"fmt"
	"time"
)

// streamsID is under which the streams of this broker are kept.
const streamsID = "embedded"

// streamsPatience is how long the stored streams may take to be read.
const streamsPatience = 10 * time.Second

// openStreams sets the streams going, before the first message is published.
func (b *Broker) openStreams(ctx context.Context) error {
	if b.config.Streams == nil {
		return nil
	}
	b.streams = b.config.Streams.Open(streamsID, b.seam())
	b.Streams = b.streams
	ctx, cancel := context.WithTimeout(ctx, streamsPatience)
	defer cancel()
	if err := b.streams.Ready(ctx); err != nil {
		return fmt.Errorf("read the broker's stored streams: %w; the log says what is wrong", err)
	}
	return nil
}

// closeStreams waits until what streams have taken is kept and published.
func (b *Broker) closeStreams(ctx context.Context) error {
	if b.streams == nil {
		return nil
	}
	return b.streams.Close(ctx)
}
