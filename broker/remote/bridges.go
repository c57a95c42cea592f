package remote

import (
	"context"
	"encoding/json"

	"signalbox/broker"
)

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

// ListBridges returns the broker's bridges, ordered by id.
func (b *Broker) ListBridges(ctx context.Context) ([]broker.Bridge, error) {
	return withBridges(ctx, b, "listBridges", func(s broker.Bridges) ([]broker.Bridge, error) { return s.ListBridges(ctx) })
}

// GetBridgeConfig returns the configuration with masked secrets.
func (b *Broker) GetBridgeConfig(ctx context.Context, bridgeID string) (json.RawMessage, error) {
	return withBridges(ctx, b, "getBridgeConfig", func(s broker.Bridges) (json.RawMessage, error) { return s.GetBridgeConfig(ctx, bridgeID) })
}

// SetBridgeConfig replaces the configuration: of the broker if it has bridges itself,
// otherwise of this service.
func (b *Broker) SetBridgeConfig(ctx context.Context, bridgeID string, config json.RawMessage) error {
	s, err := b.bridges(ctx, "setBridgeConfig")
	if err != nil {
		return err
	}
	return s.SetBridgeConfig(ctx, bridgeID, config)
}

// GetBridgeStatus returns the state of each connection, in order.
func (b *Broker) GetBridgeStatus(ctx context.Context, bridgeID string) ([]broker.BridgeStatus, error) {
	return withBridges(ctx, b, "getBridgeStatus", func(s broker.Bridges) ([]broker.BridgeStatus, error) { return s.GetBridgeStatus(ctx, bridgeID) })
}

// GetBridgeSchema returns the JSON Schema of the configuration.
func (b *Broker) GetBridgeSchema(ctx context.Context, bridgeID string) (json.RawMessage, error) {
	return withBridges(ctx, b, "getBridgeSchema", func(s broker.Bridges) (json.RawMessage, error) { return s.GetBridgeSchema(ctx, bridgeID) })
}

// TestBridge tests the connections of a configuration.
func (b *Broker) TestBridge(ctx context.Context, bridgeID string, config json.RawMessage) ([]broker.BridgeTest, error) {
	return withBridges(ctx, b, "testBridge", func(s broker.Bridges) ([]broker.BridgeTest, error) { return s.TestBridge(ctx, bridgeID, config) })
}

// PreviewBridge returns what a message becomes.
func (b *Broker) PreviewBridge(ctx context.Context, bridgeID string, config json.RawMessage, sample broker.PublishSpec) ([]broker.BridgePreview, error) {
	return withBridges(ctx, b, "previewBridge", func(s broker.Bridges) ([]broker.BridgePreview, error) {
		return s.PreviewBridge(ctx, bridgeID, config, sample)
	})
}

// ListDeadLetters returns a page of the messages that a connection's target refused.
func (b *Broker) ListDeadLetters(ctx context.Context, bridgeID, connectionName string, offset, count int) (broker.Page[broker.DeadLetter], error) {
	return withBridges(ctx, b, "listDeadLetters", func(s broker.Bridges) (broker.Page[broker.DeadLetter], error) {
		return s.ListDeadLetters(ctx, bridgeID, connectionName, offset, count)
	})
}

// RetryDeadLetters appends dead letters to the queue again.
func (b *Broker) RetryDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error) {
	return withBridges(ctx, b, "retryDeadLetters", func(s broker.Bridges) (int, error) {
		return s.RetryDeadLetters(ctx, bridgeID, connectionName, ids)
	})
}

// DeleteDeadLetters deletes dead letters.
func (b *Broker) DeleteDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error) {
	return withBridges(ctx, b, "deleteDeadLetters", func(s broker.Bridges) (int, error) {
		return s.DeleteDeadLetters(ctx, bridgeID, connectionName, ids)
	})
}

func withBridges[T any](ctx context.Context, b *Broker, op string, do func(broker.Bridges) (T, error)) (none T, err error) {
	s, err := b.bridges(ctx, op)
	if err != nil {
		return none, err
	}
	return do(s)
}
