package handlers

import (
	"context"
	"encoding/json"

	"signalbox/broker"
)

// BridgePath names a bridge of a broker.
type BridgePath struct {
	BrokerPath
	BridgeID string `path:"bridgeId" doc:"Id of the bridge."`
}

// ListBridgesRequest names a broker.
type ListBridgesRequest struct{ BrokerPath }

// ListBridges lists the bridges that the broker offers.
func (a *API) ListBridges(ctx context.Context, r *ListBridgesRequest) (List[broker.Bridge], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.Bridge]{}, err
	}
	bridges, err := b.ListBridges(ctx)
	return listOf(bridges), err
}

// GetBridgeConfigRequest names a bridge.
type GetBridgeConfigRequest struct{ BridgePath }

// GetBridgeConfig gives a bridge's configuration, its secrets masked.
func (a *API) GetBridgeConfig(ctx context.Context, r *GetBridgeConfigRequest) (json.RawMessage, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return nil, err
	}
	return b.GetBridgeConfig(ctx, r.BridgeID)
}

// SetBridgeConfigRequest holds a bridge's configuration.
type SetBridgeConfigRequest struct {
	BridgePath
	Body json.RawMessage `object:"true"`
}

// SetBridgeConfig changes a bridge's configuration.
func (a *API) SetBridgeConfig(ctx context.Context, r *SetBridgeConfigRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.SetBridgeConfig(ctx, r.BridgeID, r.Body)
}

// GetBridgeStatusRequest names a bridge.
type GetBridgeStatusRequest struct{ BridgePath }

// GetBridgeStatus gives the state of a bridge's connections.
func (a *API) GetBridgeStatus(ctx context.Context, r *GetBridgeStatusRequest) (List[broker.BridgeStatus], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.BridgeStatus]{}, err
	}
	status, err := b.GetBridgeStatus(ctx, r.BridgeID)
	return listOf(status), err
}
