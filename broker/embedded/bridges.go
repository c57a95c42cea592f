package embedded

import (
	"context"
	"slices"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/embedded/engine"
)

// maxSlowRequests bounds the requests about bridges that run beside their clients' other
// requests.
const maxSlowRequests = 8

// bridgeOf returns the bridge that a control topic belongs to, if there is one.
func (b *Broker) bridgeOf(topic string) (bridgeID string, ok bool) {
	id, ok := control.BridgeID(topic)
	return id, ok && b.config.Bridges != nil && slices.Contains(b.config.Bridges.Kinds(), id)
}

// handleBridge handles a request about a bridge. Up to maxSlowRequests requests that wait
// for other systems do not block the other requests of their clients.
func (b *Broker) handleBridge(bridgeID string, r *engine.Request) {
	do := func() {
		ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
		defer cancel()
		defer b.logSlow(r, time.Now())
		b.respond(r.Topic+control.ResponseSuffix, b.audited(r, func() []byte { return b.commandBridge(ctx, bridgeID, r.Payload) }))
	}
	if !control.TakesLong(r.Payload) {
		do()
		return
	}
	select {
	case b.slowRequests <- struct{}{}:
		b.tasks.Go(func() {
			defer func() { <-b.slowRequests }()
			do()
		})
	default:
		do()
	}
}

// commandBridge executes a request about a bridge: at the host if it is one of the cluster.
func (b *Broker) commandBridge(ctx context.Context, bridgeID string, payload []byte) []byte {
	request := append(append([]byte(bridgeID), 0), payload...)
	if response, asked := b.askHost(ctx, askBridge, request, payload); asked {
		return response
	}
	return control.Bridge(ctx, b, bridgeID, payload)
}

// bridgePlugins returns the bridges as plugins with a control API.
func (b *Broker) bridgePlugins(ctx context.Context) []control.Plugin {
	list, err := b.ListBridges(ctx)
	if err != nil {
		return nil
	}
	plugins := make([]control.Plugin, 0, len(list))
	for _, one := range list {
		plugins = append(plugins, control.Plugin{Name: one.ID, Version: b.config.Version,
			Endpoints: []string{control.BridgeTopic(one.ID)}, Active: &one.IsActive})
	}
	return plugins
}
