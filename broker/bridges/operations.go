package bridges

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"

	"signalbox/broker"
)

// Names of the operations, as in the control API.
const (
	opList   = "listBridges"
	opConfig = "getBridgeConfig"
	opSet    = "setBridgeConfig"
	opStatus = "getBridgeStatus"
	opSchema = "getBridgeSchema"
	opTest   = "testBridge"
	opSample = "previewBridge"
	opDead   = "listDeadLetters"
	opRetry  = "retryDeadLetters"
	opDelete = "deleteDeadLetters"
	opFollow = "followBridges"
)

// ListBridges returns the kinds, active if they have connections.
func (e *Engine) ListBridges(ctx context.Context) ([]broker.Bridge, error) {
	if err := e.Await(ctx, opList); err != nil {
		return nil, err
	}
	list := make([]broker.Bridge, 0, len(e.bridges))
	for _, b := range e.bridges {
		list = append(list, broker.Bridge{ID: b.kind.ID(), IsActive: len(b.allLinks()) > 0})
	}
	return list, nil
}

// GetBridgeConfig returns the configuration with masked secrets, without connections if there is
// none.
func (e *Engine) GetBridgeConfig(ctx context.Context, bridgeID string) (json.RawMessage, error) {
	b, err := e.find(ctx, opConfig, bridgeID)
	if err != nil {
		return nil, err
	}
	d, s := b.current(), b.kind.schema()
	if d == nil {
		empty := newObject("version", "v1", "connections", []any{})
		if s.records {
			empty.put("schemaMappings", []any{})
		}
		return appendTree(nil, empty), nil
	}
	return appendTree(nil, s.mask(d.tree)), nil
}

// SetBridgeConfig stores a configuration and puts it in force. Connections that stay the same are
// not touched.
func (e *Engine) SetBridgeConfig(ctx context.Context, bridgeID string, config json.RawMessage) error {
	b, err := e.find(ctx, opSet, bridgeID)
	if err != nil {
		return err
	}
	return e.Change(ctx, opSet, func(ctx context.Context) error { return b.set(ctx, opSet, config) })
}

// GetBridgeSchema returns the JSON Schema of the configuration.
func (e *Engine) GetBridgeSchema(ctx context.Context, bridgeID string) (json.RawMessage, error) {
	b, err := e.find(ctx, opSchema, bridgeID)
	if err != nil {
		return nil, err
	}
	return b.kind.schema().text, nil
}

// GetBridgeStatus returns the state of the connections.
func (e *Engine) GetBridgeStatus(ctx context.Context, bridgeID string) ([]broker.BridgeStatus, error) {
	b, err := e.find(ctx, opStatus, bridgeID)
	if err != nil {
		return nil, err
	}
	list := []broker.BridgeStatus{}
	for _, l := range b.allLinks() {
		list = append(list, l.status())
	}
	return list, nil
}

// Figure is the state of a connection, for metrics.
type Figure struct {
	Bridge string
	broker.BridgeStatus
}

// Figures returns the state of all connections, sorted by bridge id.
func (e *Engine) Figures() iter.Seq[Figure] {
	return func(yield func(Figure) bool) {
		for _, b := range e.bridges {
			for _, l := range b.allLinks() {
				if !yield(Figure{b.kind.ID(), l.status()}) {
					return
				}
			}
		}
	}
}

// currentOrigin returns the origin of the link's connection.
func (l *link) currentOrigin() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.origin
}

// status returns the state of the connection.
func (l *link) status() broker.BridgeStatus {
	l.mu.Lock()
	s := broker.BridgeStatus{ConnectionName: l.name, IsConnected: l.connected, Error: l.problem}
	l.mu.Unlock()
	var u Usage
	if q := l.queue.Load(); q != nil {
		u = q.Usage()
	}
	if filter := l.refusedFilter(); filter != "" && s.Error == "" {
		s.Error = fmt.Sprintf("the broker does not let the user of its connection subscribe to %s; grant that right to the user", filter)
	}
	s.QueuedMessages = u.Messages
	s.Stats = &broker.BridgeStats{
		QueuedBytes: u.Bytes, DeadLetters: u.DeadLetters,
		Received: l.received.Load(), Delivered: l.delivered.Load(), Rejected: l.rejected.Load(), Retries: l.retries.Load(),
		Dropped: u.Dropped + l.expired.Load() + l.refused.Load() + l.meter.Dropped.Load(),
		Inbound: l.meter.Inbound.Load(), Looped: l.meter.Looped.Load() + l.skipped.Load(),
	}
	return s
}

// ListDeadLetters returns dead letters, oldest first.
func (e *Engine) ListDeadLetters(ctx context.Context, bridgeID, connectionName string, offset, count int) (broker.Page[broker.DeadLetter], error) {
	q, err := e.queue(ctx, opDead, bridgeID, connectionName)
	if err != nil {
		return broker.Page[broker.DeadLetter]{}, err
	}
	if count < 0 {
		count = math.MaxInt32
	}
	total, list, err := q.DeadLetters(ctx, offset, count)
	if err != nil {
		return broker.Page[broker.DeadLetter]{}, e.StoreFailed(opDead, err)
	}
	return broker.Page[broker.DeadLetter]{Total: total, Items: func(yield func(broker.DeadLetter, error) bool) {
		for _, d := range list {
			if !yield(d, nil) {
				return
			}
		}
	}}, nil
}

// RetryDeadLetters puts dead letters into the queue again.
func (e *Engine) RetryDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error) {
	q, err := e.queue(ctx, opRetry, bridgeID, connectionName)
	if err != nil {
		return 0, err
	}
	n, err := q.RetryDeadLetters(ctx, ids)
	if err != nil {
		return 0, e.StoreFailed(opRetry, err)
	}
	return n, nil
}

// DeleteDeadLetters deletes dead letters.
func (e *Engine) DeleteDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error) {
	q, err := e.queue(ctx, opDelete, bridgeID, connectionName)
	if err != nil {
		return 0, err
	}
	n, err := q.DeleteDeadLetters(ctx, ids)
	if err != nil {
		return 0, e.StoreFailed(opDelete, err)
	}
	return n, nil
}

// queue returns the queue of a connection.
func (e *Engine) queue(ctx context.Context, op, bridgeID, connectionName string) (Queue, error) {
	b, err := e.find(ctx, op, bridgeID)
	if err != nil {
		return nil, err
	}
	l := b.link(connectionName)
	if l == nil {
		return nil, &broker.Error{Kind: broker.NotFound, Op: op, Msg: "Connection not found"}
	}
	if q := l.queue.Load(); q != nil {
		return q, nil
	}
	return nil, &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "the queue of this connection is not open; try again"}
}
