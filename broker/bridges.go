package broker

import (
	"context"
	"encoding/json"
)

// Bridges connects a broker to other systems. Configurations are free-form.
type Bridges interface {
	ListBridges(ctx context.Context) ([]Bridge, error)
	GetBridgeConfig(ctx context.Context, bridgeID string) (json.RawMessage, error)
	SetBridgeConfig(ctx context.Context, bridgeID string, config json.RawMessage) error
	GetBridgeStatus(ctx context.Context, bridgeID string) ([]BridgeStatus, error)
}

// Bridge is a kind of bridge that a broker offers, active where configured.
type Bridge struct {
	ID       string `json:"id"`
	IsActive bool   `json:"isActive"`
}

// BridgeStatus is the state of one connection of a bridge.
type BridgeStatus struct {
	ConnectionName string `json:"connectionName"`
	QueuedMessages int64  `json:"queuedMessages"`
	IsConnected    bool   `json:"isConnected"`
	Error          string `json:"error,omitempty"`
}

// NoBridges is embedded by a broker without bridges.
type NoBridges struct{}

// ListBridges answers Unsupported.
func (NoBridges) ListBridges(context.Context) ([]Bridge, error) {
	return nil, NotSupported("listBridges", CapBridges)
}

// GetBridgeConfig answers Unsupported.
func (NoBridges) GetBridgeConfig(context.Context, string) (json.RawMessage, error) {
	return nil, NotSupported("getBridgeConfig", CapBridges)
}

// SetBridgeConfig answers Unsupported.
func (NoBridges) SetBridgeConfig(context.Context, string, json.RawMessage) error {
	return NotSupported("setBridgeConfig", CapBridges)
}

// GetBridgeStatus answers Unsupported.
func (NoBridges) GetBridgeStatus(context.Context, string) ([]BridgeStatus, error) {
	return nil, NotSupported("getBridgeStatus", CapBridges)
}
