package bridges

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// Engine runs the bridges of one broker. All methods are safe for concurrent use.
type Engine struct {
	*messaging.Lifecycle
	host     *Host
	brokerID string
	identity string
	owner    string // set by load
	local    messaging.Broker
	log      *slog.Logger
	bridges  []*bridge // one for each kind, sorted by id

	closeKinds []func() // stop functions of kinds at the broker; nil before the first load

	mu         sync.Mutex     // guards closed
	closed     bool           // no trial may begin
	trials     sync.WaitGroup // running trials
	trialSlots chan struct{}  // one element for each trial that connects

	previewSlots chan struct{} // one element for each trial that does not
}

var _ broker.Bridges = (*Engine)(nil)

func newEngine(h *Host, brokerID, identity string, local messaging.Broker) *Engine {
	log := h.log.With("broker", brokerID)
	e := &Engine{
		Lifecycle: messaging.NewLifecycle(brokerID, "bridge", log), host: h, brokerID: brokerID, identity: identity,
		local: local, log: log, trialSlots: make(chan struct{}, maxTrials),
		previewSlots: make(chan struct{}, maxTrials),
	}
	for _, k := range h.kinds {
		e.bridges = append(e.bridges, &bridge{engine: e, kind: k, log: e.log.With("bridge", k.ID())})
	}
	return e
}

// load opens every configured bridge. The kinds are opened at the broker before the first
// attempt.
func (e *Engine) load(ctx context.Context) error {
	if e.closeKinds == nil {
		e.closeKinds = []func(){}
		for _, b := range e.bridges {
			if r, ok := b.kind.Kind.(BrokerKind); ok {
				e.closeKinds = append(e.closeKinds, r.Open(e.local, e.identity))
			}
		}
	}
	documents, err := e.host.store.Configs(ctx, e.brokerID)
	if err != nil {
		return err
	}
	defined, _, err := e.host.Registry.Definitions(ctx, e.brokerID)
	if err != nil {
		return err
	}
	e.owner = e.host.Registry.Owner(e.brokerID, e.host.Identity())
	for id := range documents {
		if e.bridge(id) == nil {
			e.log.Warn("a bridge is configured that this service does not have; it is left alone", "bridge", id)
		}
	}
	for _, b := range e.bridges {
		id := b.kind.ID()
		if d, ok := defined[id]; ok {
			if err := b.adopt(ctx, documents[id], d); err != nil {
				e.stopBridges()
				return err
			}
			if d.Document != nil {
				documents[id] = d.Document
			}
		}
		if text, ok := documents[id]; ok {
			b.load(ctx, text)
		}
	}
	return nil
}

// bridge returns a bridge by its id, nil for none.
func (e *Engine) bridge(id string) *bridge {
	for _, b := range e.bridges {
		if b.kind.ID() == id {
			return b
		}
	}
	return nil
}

// stopAll stops all bridges. Queues keep their messages.
func (e *Engine) stopAll() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.stopBridges()
	e.trials.Wait()
	for _, end := range slices.Backward(e.closeKinds) {
		end()
	}
}

func (e *Engine) stopBridges() {
	var stopping sync.WaitGroup
	for _, b := range e.bridges {
		stopping.Go(b.close)
	}
	stopping.Wait()
}

// finishDeliveries has all workers finish.
func (e *Engine) finishDeliveries() {
	for _, b := range e.bridges {
		for _, l := range b.allLinks() {
			l.finishDelivery()
		}
	}
}

// Len returns the number of connections.
func (e *Engine) Len(ctx context.Context) (int, error) {
	if err := e.Await(ctx, opList); err != nil {
		return 0, err
	}
	n := 0
	for _, b := range e.bridges {
		n += len(b.allLinks())
	}
	return n, nil
}

// find returns a bridge by its id.
func (e *Engine) find(ctx context.Context, op, id string) (*bridge, error) {
	if err := e.Await(ctx, op); err != nil {
		return nil, err
	}
	if b := e.bridge(id); b != nil {
		return b, nil
	}
	return nil, &broker.Error{Kind: broker.NotFound, Op: op, Msg: "Bridge not found"}
}
