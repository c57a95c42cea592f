package broker

import (
	"context"
	"encoding/json"
)

// StreamChoice is Streams of which an implementation is chosen for each operation.
type StreamChoice struct {
	// Choose returns the implementation, or why there is none at present. op is the name of the operation, for errors.
	Choose func(ctx context.Context, op string) (Streams, error)
}

var _ Streams = StreamChoice{}

// ListStreams returns a page of the streams, ordered by name.
func (c StreamChoice) ListStreams(ctx context.Context, o ListOptions[Stream]) (Page[Stream], error) {
	return chosen(ctx, c.Choose, "listStreams", func(s Streams) (Page[Stream], error) { return s.ListStreams(ctx, o) })
}

// GetStream returns a stream.
func (c StreamChoice) GetStream(ctx context.Context, streamname string) (Stream, error) {
	return chosen(ctx, c.Choose, "getStream", func(s Streams) (Stream, error) { return s.GetStream(ctx, streamname) })
}

// CreateStream creates a stream.
func (c StreamChoice) CreateStream(ctx context.Context, spec StreamSpec) error {
	return done(ctx, c.Choose, "createStream", func(s Streams) error { return s.CreateStream(ctx, spec) })
}

// ModifyStream changes a stream.
func (c StreamChoice) ModifyStream(ctx context.Context, spec StreamSpec, replace bool) error {
	return done(ctx, c.Choose, "modifyStream", func(s Streams) error { return s.ModifyStream(ctx, spec, replace) })
}

// DeleteStream deletes a stream with its messages.
func (c StreamChoice) DeleteStream(ctx context.Context, streamname string) error {
	return done(ctx, c.Choose, "deleteStream", func(s Streams) error { return s.DeleteStream(ctx, streamname) })
}

// CountStreamMessages returns the number of messages in a stream.
func (c StreamChoice) CountStreamMessages(ctx context.Context, streamname string) (StreamCount, error) {
	return chosen(ctx, c.Choose, "countStreamMessages", func(s Streams) (StreamCount, error) { return s.CountStreamMessages(ctx, streamname) })
}

// ClearStreamMessages deletes messages of a stream.
func (c StreamChoice) ClearStreamMessages(ctx context.Context, streamname string, gte, lte *float64) error {
	return done(ctx, c.Choose, "clearStreamMessages", func(s Streams) error { return s.ClearStreamMessages(ctx, streamname, gte, lte) })
}

// StreamTimeline counts the messages of a stream over time.
func (c StreamChoice) StreamTimeline(ctx context.Context, streamname string, gte, lte *float64, slices int) (StreamTimeline, error) {
	return chosen(ctx, c.Choose, "getStreamTimeline", func(s Streams) (StreamTimeline, error) { return s.StreamTimeline(ctx, streamname, gte, lte, slices) })
}

// ReplayStream starts a replay.
func (c StreamChoice) ReplayStream(ctx context.Context, r StreamReplay) error {
	return done(ctx, c.Choose, "replayStream", func(s Streams) error { return s.ReplayStream(ctx, r) })
}

// StopStreamReplay stops the current replay.
func (c StreamChoice) StopStreamReplay(ctx context.Context, streamname string) error {
	return done(ctx, c.Choose, "stopStreamReplay", func(s Streams) error { return s.StopStreamReplay(ctx, streamname) })
}

// PreviewStream returns what a stream would do with messages.
func (c StreamChoice) PreviewStream(ctx context.Context, p StreamPreview) ([]StreamOutcome, error) {
	return chosen(ctx, c.Choose, "previewStream", func(s Streams) ([]StreamOutcome, error) { return s.PreviewStream(ctx, p) })
}

// BridgeChoice is Bridges of which an implementation is chosen for each operation.
type BridgeChoice struct {
	// Choose returns the implementation, or why there is none at present. op is the name of the operation, for errors.
	Choose func(ctx context.Context, op string) (Bridges, error)
}

var _ Bridges = BridgeChoice{}

// ListBridges returns the broker's bridges, ordered by id.
func (c BridgeChoice) ListBridges(ctx context.Context) ([]Bridge, error) {
	return chosen(ctx, c.Choose, "listBridges", func(s Bridges) ([]Bridge, error) { return s.ListBridges(ctx) })
}

// GetBridgeConfig returns the configuration with masked secrets.
func (c BridgeChoice) GetBridgeConfig(ctx context.Context, bridgeID string) (json.RawMessage, error) {
	return chosen(ctx, c.Choose, "getBridgeConfig", func(s Bridges) (json.RawMessage, error) { return s.GetBridgeConfig(ctx, bridgeID) })
}

// SetBridgeConfig replaces the configuration.
func (c BridgeChoice) SetBridgeConfig(ctx context.Context, bridgeID string, config json.RawMessage) error {
	return done(ctx, c.Choose, "setBridgeConfig", func(s Bridges) error { return s.SetBridgeConfig(ctx, bridgeID, config) })
}

// GetBridgeStatus returns the state of each connection, in order.
func (c BridgeChoice) GetBridgeStatus(ctx context.Context, bridgeID string) ([]BridgeStatus, error) {
	return chosen(ctx, c.Choose, "getBridgeStatus", func(s Bridges) ([]BridgeStatus, error) { return s.GetBridgeStatus(ctx, bridgeID) })
}

// GetBridgeSchema returns the JSON Schema of the configuration.
func (c BridgeChoice) GetBridgeSchema(ctx context.Context, bridgeID string) (json.RawMessage, error) {
	return chosen(ctx, c.Choose, "getBridgeSchema", func(s Bridges) (json.RawMessage, error) { return s.GetBridgeSchema(ctx, bridgeID) })
}

// TestBridge tests the connections of a configuration.
func (c BridgeChoice) TestBridge(ctx context.Context, bridgeID string, config json.RawMessage) ([]BridgeTest, error) {
	return chosen(ctx, c.Choose, "testBridge", func(s Bridges) ([]BridgeTest, error) { return s.TestBridge(ctx, bridgeID, config) })
}

// PreviewBridge returns what a message becomes.
func (c BridgeChoice) PreviewBridge(ctx context.Context, bridgeID string, config json.RawMessage, sample PublishSpec) ([]BridgePreview, error) {
	return chosen(ctx, c.Choose, "previewBridge", func(s Bridges) ([]BridgePreview, error) { return s.PreviewBridge(ctx, bridgeID, config, sample) })
}

// ListDeadLetters returns a page of the messages that a connection's target refused.
func (c BridgeChoice) ListDeadLetters(ctx context.Context, bridgeID, connectionName string, offset, count int) (Page[DeadLetter], error) {
	return chosen(ctx, c.Choose, "listDeadLetters", func(s Bridges) (Page[DeadLetter], error) {
		return s.ListDeadLetters(ctx, bridgeID, connectionName, offset, count)
	})
}

// RetryDeadLetters appends dead letters to the queue again.
func (c BridgeChoice) RetryDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error) {
	return chosen(ctx, c.Choose, "retryDeadLetters", func(s Bridges) (int, error) { return s.RetryDeadLetters(ctx, bridgeID, connectionName, ids) })
}

// DeleteDeadLetters deletes dead letters.
func (c BridgeChoice) DeleteDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error) {
	return chosen(ctx, c.Choose, "deleteDeadLetters", func(s Bridges) (int, error) { return s.DeleteDeadLetters(ctx, bridgeID, connectionName, ids) })
}

// chosen runs an operation with a result.
func chosen[S, T any](ctx context.Context, choose func(context.Context, string) (S, error), op string, do func(S) (T, error)) (none T, err error) {
	s, err := choose(ctx, op)
	if err != nil {
		return none, err
	}
	return do(s)
}

// done runs an operation without one.
func done[S any](ctx context.Context, choose func(context.Context, string) (S, error), op string, do func(S) error) error {
	s, err := choose(ctx, op)
	if err != nil {
		return err
	}
	return do(s)
}
