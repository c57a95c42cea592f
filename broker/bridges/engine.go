package bridges

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// retryLoad is the pause before configurations that could not be read are read
// again.
const retryLoad = 5 * time.Second

// Engine has the bridges of one broker. All methods are safe for concurrent use.
type Engine struct {
	host     *Host
	brokerID string
	identity string
	owner    string
	local    messaging.Broker
	log      *slog.Logger
	bridges  []*bridge // one for each kind, in order of their ids

	life  context.Context // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup
	ready chan struct{} // closed when the configurations are read
	once  sync.Once     // guards the closing of done
	done  chan struct{} // closed when nothing of the engine is left

	changing chan struct{} // holds one while a configuration changes, and from the engine's end on

	mu     sync.Mutex     // guards closed
	closed bool           // no trial is begun any more
	trials sync.WaitGroup // those that run
	trying chan struct{}  // holds one for each trial that connects
}

var _ broker.Bridges = (*Engine)(nil)

func newEngine(h *Host, brokerID, identity string, local messaging.Broker) *Engine {
	e := &Engine{
		host: h, brokerID: brokerID, identity: identity, owner: h.Identity() + "/" + brokerID, local: local, log: h.log.With("broker", brokerID),
		ready: make(chan struct{}), done: make(chan struct{}), changing: make(chan struct{}, 1), trying: make(chan struct{}, maxTrials),
	}
	e.life, e.end = context.WithCancel(context.Background())
	for _, k := range h.kinds {
		e.bridges = append(e.bridges, &bridge{engine: e, kind: k, log: e.log.With("bridge", k.ID())})
	}
	return e
}

// begin waits for its turn, reads the configurations and sets the bridges going.
// Then it waits for the engine's end and stops them.
func (e *Engine) begin() {
	turn := e.host.turn(e.brokerID)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-e.life.Done():
		return
	}
	for _, b := range e.bridges {
		if r, ok := b.kind.Kind.(Resident); ok {
			defer r.Open(e.local, e.identity)()
		}
	}
	for told := ""; ; {
		err := e.load(e.life)
		if err == nil {
			break
		}
		if e.life.Err() != nil {
			return
		}
		if why := err.Error(); why != told {
			e.log.Error("the stored configurations of bridges could not be read; trying again", "error", err)
			told = why
		}
		if !rest(e.life, retryLoad) {
			return
		}
	}
	close(e.ready)
	<-e.life.Done()
	e.changing <- struct{}{} // what is being changed is finished, and nothing else is begun
	e.stopAll()
}

// load opens every bridge that is configured.
func (e *Engine) load(ctx context.Context) error {
	documents, err := e.host.store.Configs(ctx, e.brokerID)
	if err != nil {
		return err
	}
	for _, b := range e.bridges {
		if text, ok := documents[b.kind.ID()]; ok {
			b.load(ctx, text)
		}
		delete(documents, b.kind.ID())
	}
	for id := range documents {
		e.log.Warn("a bridge is configured that this service does not have; it is left alone", "bridge", id)
	}
	return nil
}

// stopAll stops all bridges. What they have taken is kept.
func (e *Engine) stopAll() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	var stopping sync.WaitGroup
	for _, b := range e.bridges {
		stopping.Go(b.close)
	}
	stopping.Wait()
	e.trials.Wait()
}

// leave has nothing more be delivered.
func (e *Engine) leave() {
	for _, b := range e.bridges {
		for _, l := range b.all() {
			l.leave()
		}
	}
}

// Close ends all bridges of the broker and waits until what they have taken is
// kept, or until the context ends.
func (e *Engine) Close(ctx context.Context) error {
	e.end()
	e.once.Do(func() {
		go func() {
			e.tasks.Wait()
			e.host.closed(e)
			close(e.done)
		}()
	})
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ready waits until the configurations are read and messages are taken.
func (e *Engine) Ready(ctx context.Context) error {
	select {
	case <-e.ready:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.life.Done():
	}
	return e.life.Err()
}

// Len gives the number of connections.
func (e *Engine) Len(ctx context.Context) (int, error) {
	if err := e.await(ctx, opList); err != nil {
		return 0, err
	}
	n := 0
	for _, b := range e.bridges {
		n += len(b.all())
	}
	return n, nil
}

// await is Ready with an error for users.
func (e *Engine) await(ctx context.Context, op string) error {
	err := e.Ready(ctx)
	switch {
	case err == nil:
		return nil
	case e.life.Err() != nil:
		return closing(op)
	}
	return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "the stored bridges are not read yet; try again", Err: err}
}

// closing refuses what comes after Close.
func closing(op string) error {
	return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "the bridges of this broker are being closed; try again when it is back"}
}

// find gives a bridge by its id.
func (e *Engine) find(ctx context.Context, op, id string) (*bridge, error) {
	if err := e.await(ctx, op); err != nil {
		return nil, err
	}
	for _, b := range e.bridges {
		if b.kind.ID() == id {
			return b, nil
		}
	}
	return nil, &broker.Error{Kind: broker.NotFound, Op: op, Msg: "Bridge not found"}
}

// change runs a change of a configuration, one at a time. Close waits for it.
func (e *Engine) change(ctx context.Context, op string, do func(context.Context) error) error {
	select {
	case e.changing <- struct{}{}:
	case <-e.life.Done():
		return closing(op)
	case <-ctx.Done():
		return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "another bridge is being changed; try again", Err: ctx.Err()}
	}
	defer func() { <-e.changing }()
	return do(context.WithoutCancel(ctx)) // half a change is none that a caller can make good
}
