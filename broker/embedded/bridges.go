package embedded

import (
	"context"
	"fmt"
	"slices"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/embedded/engine"
)

// bridgesID is under which the bridges of this broker are kept.
const bridgesID = "embedded"

// bridgesPatience is how long the stored configurations may take to be read.
const bridgesPatience = 10 * time.Second

// maxTrials is how many requests may wait for other systems beside everything else
// that their clients ask for.
const maxTrials = 8

// openBridges sets the bridges going, before the first message is published.
func (b *Broker) openBridges(ctx context.Context) error {
	host := b.config.Bridges
	if host == nil {
		return nil
	}
	b.bridges = host.Open(bridgesID, host.Identity(), b.seam())
	b.Bridges = b.bridges
	ctx, cancel := context.WithTimeout(ctx, bridgesPatience)
	defer cancel()
	if err := b.bridges.Ready(ctx); err != nil {
		return fmt.Errorf("read the broker's stored bridges: %w; the log says what is wrong", err)
	}
	return nil
}

// closeBridges waits until what bridges have taken is kept. It comes after streams,
// which publish what they have taken, and bridges may want that.
func (b *Broker) closeBridges(ctx context.Context) error {
	if b.bridges == nil {
		return nil
	}
	return b.bridges.Close(ctx)
}

// bridgeOf gives the bridge that a control topic belongs to, if there is one.
func (b *Broker) bridgeOf(topic string) (bridgeID string, ok bool) {
	id, ok := control.BridgeID(topic)
	return id, ok && b.bridges != nil && slices.Contains(b.config.Bridges.Kinds(), id)
}

// answerBridge does a request about a bridge. One that waits for other systems does
// not keep its client from asking for something else, as long as there are few.
func (b *Broker) answerBridge(bridgeID string, r *engine.Request) {
	do := func() {
		ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
		defer cancel()
		b.answer(r.Topic+control.ResponseSuffix, control.Bridge(ctx, b, bridgeID, r.Payload))
	}
	if !control.TakesLong(r.Payload) {
		do()
		return
	}
	select {
	case b.trials <- struct{}{}:
		b.tasks.Go(func() {
			defer func() { <-b.trials }()
			do()
		})
	default:
		do()
	}
}

// bridgePlugins are the bridges as parts of the broker with a control API.
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
