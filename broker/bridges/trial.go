package bridges

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"signalbox/broker"
)

// Bounds of trials.
const (
	trialTimeout = 10 * time.Second // for a connection
	maxTrials    = 4                // configurations of a broker that are tried at the same time; others wait
)

// TestBridge tries the connections of a configuration, by default the stored one, concurrently.
// Nothing is stored or delivered.
func (e *Engine) TestBridge(ctx context.Context, bridgeID string, config json.RawMessage) ([]broker.BridgeTest, error) {
	b, err := e.find(ctx, opTest, bridgeID)
	if err != nil {
		return nil, err
	}
	var results []broker.BridgeTest
	err = e.try(ctx, opTest, e.trialSlots, func(ctx context.Context) error {
		results, err = b.testConnections(ctx, config)
		return err
	})
	return results, err
}

// try calls a function that tries a configuration, once one of the slots is free. Its context ends
// with the engine.
func (e *Engine) try(ctx context.Context, op string, slots chan struct{}, trial func(ctx context.Context) error) error {
	if !e.beginTrial() {
		return e.Closing(op)
	}
	defer e.trials.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.Context(), cancel)()
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "other configurations are being tried; try again", Err: ctx.Err()}
	}
	return trial(ctx)
}

// beginTrial registers a trial, which Close waits for. It reports false after Close.
func (e *Engine) beginTrial() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.trials.Add(1)
	}
	return !e.closed
}

// testConnections connects and closes the connections of a document.
func (b *bridge) testConnections(ctx context.Context, config json.RawMessage) ([]broker.BridgeTest, error) {
	d, connectors, err := b.compileTrial(opTest, config)
	if err != nil {
		return nil, err
	}
	results := make([]broker.BridgeTest, len(connectors))
	var trials sync.WaitGroup
	for i, c := range d.connections {
		trials.Go(func() { results[i] = b.testConnection(ctx, c, connectors[i]) })
	}
	trials.Wait()
	return results, nil
}

// compileTrial creates the connectors of a document, by default of the stored one, for a trial.
func (b *bridge) compileTrial(op string, config json.RawMessage) (*document, []Connector, error) {
	old := storedText(b.current())
	if len(config) == 0 {
		config = old
	}
	if len(config) == 0 {
		return &document{}, nil, nil
	}
	d, problems := b.kind.schema().read(config, old)
	if d == nil {
		return nil, nil, invalidError(op, problems)
	}
	connectors := make([]Connector, len(d.connections))
	for i, c := range d.connections {
		if !c.invalid {
			var found Problems
			connectors[i], found = b.kind.compile(b.log, c, &Connection{Local: b.engine.local, Identity: b.engine.identity, Owner: b.engine.owner, Dial: b.engine.host.Dial, Now: b.engine.host.Now, Trial: true})
			problems = append(problems, found...)
		}
	}
	if len(problems) > 0 {
		for _, c := range connectors {
			b.discard(c)
		}
		return nil, nil, invalidError(op, sorted(problems))
	}
	return d, connectors, nil
}

// testConnection connects and closes one connection.
func (b *bridge) testConnection(ctx context.Context, c *connection, connector Connector) broker.BridgeTest {
	defer b.discard(connector)
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	err, _ := callSafely(b.log, func() error {
		if err := connector.Connect(ctx); err != nil {
			return err
		}
		return connector.Check(ctx)
	})
	if err != nil {
		text := errorTextOf(err, c.secrets)
		if response := responseOf(err, c.secrets); response != "" { // a user who may try connections may see the responses
			text += ": " + response
		}
		return broker.BridgeTest{ConnectionName: c.name, Error: text}
	}
	return broker.BridgeTest{ConnectionName: c.name, IsConnected: true}
}
