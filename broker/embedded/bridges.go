package embedded

import (
	"context"
	"fmt"
	"slices"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/embedded/engine"
)

// bridgesOpenTimeout bounds the reading of the stored configurations.
const bridgesOpenTimeout = 10 * time.Second

// maxSlowRequests bounds the requests about bridges that run beside their clients' other
// requests.
const maxSlowRequests = 8

// openBridges starts the bridges, before the first message is published.
func (b *Broker) openBridges(ctx context.Context) error {
	host := b.config.Bridges
	if host == nil {
		return nil
	}
	b.bridges = host.Open(StoreID, host.Identity(), b.messaging())
	b.Bridges = b.bridges
	ctx, cancel := context.WithTimeout(ctx, bridgesOpenTimeout)
	defer cancel()
	if err := b.bridges.Ready(ctx); err != nil {
		return fmt.Errorf("read the broker's stored bridges: %w; the log says what is wrong", err)
	}
	return nil
}

// closeBridges waits until what bridges have accepted is stored. It is called after
// closeStreams: bridges may accept what streams publish while they close.
func (b *Broker) closeBridges(ctx context.Context) error {
	if b.bridges == nil {
		return nil
	}
	return b.bridges.Close(ctx)
}

// bridgeOf returns the bridge that a control topic belongs to, if there is one.
func (b *Broker) bridgeOf(topic string) (bridgeID string, ok bool) {
	id, ok := control.BridgeID(topic)
	return id, ok && b.bridges != nil && slices.Contains(b.config.Bridges.Kinds(), id)
}

// handleBridge handles a request about a bridge. Up to maxSlowRequests requests that wait
// for other systems do not block the other requests of their clients.
func (b *Broker) handleBridge(bridgeID string, r *engine.Request) {
	do := func() {
		ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
		defer cancel()
		defer b.logSlow(r, time.Now())
		b.respond(r.Topic+control.ResponseSuffix, b.audited(r, func() []byte { return control.Bridge(ctx, b, bridgeID, r.Payload) }))
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
