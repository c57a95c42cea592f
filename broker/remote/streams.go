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

// ListStreams returns a page of the streams, ordered by name.
func (b *Broker) ListStreams(ctx context.Context, o broker.ListOptions[broker.Stream]) (broker.Page[broker.Stream], error) {
	s, err := b.streams(ctx, "listStreams")
	if err != nil {
		return broker.Page[broker.Stream]{}, err
	}
	return s.ListStreams(ctx, o)
}

// GetStream returns a stream.
func (b *Broker) GetStream(ctx context.Context, streamname string) (broker.Stream, error) {
	s, err := b.streams(ctx, "getStream")
	if err != nil {
		return broker.Stream{}, err
	}
	return s.GetStream(ctx, streamname)
}

// CreateStream creates a stream: on the broker if it has streams itself, otherwise in this
// service.
func (b *Broker) CreateStream(ctx context.Context, spec broker.StreamSpec) error {
	return b.withStreams(ctx, "createStream", func(s broker.Streams) error { return s.CreateStream(ctx, spec) })
}

// ModifyStream changes a stream.
func (b *Broker) ModifyStream(ctx context.Context, spec broker.StreamSpec, replace bool) error {
	return b.withStreams(ctx, "modifyStream", func(s broker.Streams) error { return s.ModifyStream(ctx, spec, replace) })
}

// DeleteStream deletes a stream with its messages.
func (b *Broker) DeleteStream(ctx context.Context, streamname string) error {
	return b.withStreams(ctx, "deleteStream", func(s broker.Streams) error { return s.DeleteStream(ctx, streamname) })
}

// CountStreamMessages returns the number of messages in a stream.
func (b *Broker) CountStreamMessages(ctx context.Context, streamname string) (broker.StreamCount, error) {
	s, err := b.streams(ctx, "countStreamMessages")
	if err != nil {
		return broker.StreamCount{}, err
	}
	return s.CountStreamMessages(ctx, streamname)
}

// ClearStreamMessages deletes messages of a stream.
func (b *Broker) ClearStreamMessages(ctx context.Context, streamname string, gte, lte *float64) error {
	return b.withStreams(ctx, "clearStreamMessages", func(s broker.Streams) error { return s.ClearStreamMessages(ctx, streamname, gte, lte) })
}

// StreamTimeline counts the messages of a stream over time.
func (b *Broker) StreamTimeline(ctx context.Context, streamname string, gte, lte *float64, slices int) (broker.StreamTimeline, error) {
	s, err := b.streams(ctx, "getStreamTimeline")
	if err != nil {
		return broker.StreamTimeline{}, err
	}
	return s.StreamTimeline(ctx, streamname, gte, lte, slices)
}

// ReplayStream starts a replay.
func (b *Broker) ReplayStream(ctx context.Context, r broker.StreamReplay) error {
	return b.withStreams(ctx, "replayStream", func(s broker.Streams) error { return s.ReplayStream(ctx, r) })
}

// StopStreamReplay stops the current replay.
func (b *Broker) StopStreamReplay(ctx context.Context, streamname string) error {
	return b.withStreams(ctx, "stopStreamReplay", func(s broker.Streams) error { return s.StopStreamReplay(ctx, streamname) })
}

// PreviewStream returns what a stream of this service would do with messages.
func (b *Broker) PreviewStream(ctx context.Context, p broker.StreamPreview) ([]broker.StreamOutcome, error) {
	s, err := b.streams(ctx, "previewStream")
	if err != nil {
		return nil, err
	}
	return s.PreviewStream(ctx, p)
}

func (b *Broker) withStreams(ctx context.Context, op string, do func(broker.Streams) error) error {
	s, err := b.streams(ctx, op)
	if err != nil {
		return err
	}
	return do(s)
}
