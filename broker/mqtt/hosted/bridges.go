package hosted

import (
	"context"
	"encoding/json"

	"signalbox/broker/messaging"
)

// bridges are bridges of this service on a broker.
type bridges struct {
	messaging.BridgeEngine
	features *Features
}

// SetBridgeConfig replaces the configuration. If there is a connection, it waits for the
// subscriptions.
func (o *bridges) SetBridgeConfig(ctx context.Context, bridgeID string, config json.RawMessage) error {
	err := o.BridgeEngine.SetBridgeConfig(ctx, bridgeID, config)
	o.features.WaitSubscribed(ctx, o)
	return err
}
