package streams

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// retryLoad is the pause before definitions that could not be read are read
// again.
const retryLoad = 5 * time.Second

// Engine has the streams of one broker. All methods are safe for concurrent use.
type Engine struct {
	host      *Host
	brokerID  string
	messaging messaging.Broker
	log       *slog.Logger

	life  context.Context // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup
	ready chan struct{} // closed when the definitions are read
	once  sync.Once     // guards the closing of done
	done  chan struct{} // closed when nothing of the engine is left

	changing chan struct{} // holds one while definitions change, and from the engine's end on

	mu      sync.RWMutex // guards streams
	streams map[string]*stream
}

var _ broker.Streams = (*Engine)(nil)

func newEngine(h *Host, brokerID string, m messaging.Broker) *Engine {
	e := &Engine{
		host: h, brokerID: brokerID, messaging: m, log: h.log.With("broker", brokerID),
		ready: make(chan struct{}), done: make(chan struct{}),
		changing: make(chan struct{}, 1), streams: map[string]*stream{},
	}
	e.life, e.end = context.WithCancel(context.Background())
	return e
}

// begin waits for its turn, reads the definitions and sets the streams going.
// Then it waits for the engine's end and stops them.
func (e *Engine) begin() {
	turn := e.host.turn(e.brokerID)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-e.life.Done():
		return
	}
	for {
		err := e.load(e.life)
		if err == nil {
			break
		}
		e.stopAll()
		if e.life.Err() != nil {
			return
		}
		e.log.Error("the stored streams could not be read; trying again", "error", err)
		if !rest(e.life, e.host.clock, retryLoad) {
			return
		}
	}
	close(e.ready)
	<-e.life.Done()
	e.changing <- struct{}{} // what is being changed is finished, and nothing else is begun
	e.stopAll()
}

// load opens every stream that is defined, and has those that are active take
// messages if all could be. What a broker publishes before Ready, some may miss.
func (e *Engine) load(ctx context.Context) error {
	definitions, err := e.host.store.Definitions(ctx, e.brokerID)
	if err != nil {
		return err
	}
	opened := make(map[string]*stream, len(definitions))
	for _, d := range definitions {
		s, err := e.open(ctx, d)
		if err != nil {
			e.put(opened) // to be stopped
			return err
		}
		opened[d.StreamName] = s
	}
	e.put(opened)
	for _, s := range opened {
		s.attach()
	}
	return nil
}

func (e *Engine) put(streams map[string]*stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.streams = streams
}

// stopAll stops all streams. What they have taken is kept.
func (e *Engine) stopAll() {
	e.mu.Lock()
	all := e.streams
	e.streams = map[string]*stream{}
	e.mu.Unlock()
	for _, s := range all {
		s.detach()
	}
	var stopping sync.WaitGroup
	for _, s := range all {
		stopping.Go(func() { s.close(context.Background()) })
	}
	stopping.Wait()
}

// Close ends all streams of the broker and waits until what they have taken is
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

// Ready waits until the definitions are read.
func (e *Engine) Ready(ctx context.Context) error {
	select {
	case <-e.ready:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.life.Done():
	}
	return e.life.Err()
}

// Len gives the number of streams.
func (e *Engine) Len(ctx context.Context) (int, error) {
	if err := e.await(ctx, "listStreams"); err != nil {
		return 0, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.streams), nil
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
	return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "the stored streams are not read yet; try again", Err: err}
}

// closing refuses what comes after Close.
func closing(op string) error {
	return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "the streams of this broker are being closed; try again when it is back"}
}

// find gives a stream by its name.
func (e *Engine) find(ctx context.Context, op, name string) (*stream, error) {
	if err := e.await(ctx, op); err != nil {
		return nil, err
	}
	if s := e.stream(name); s != nil {
		return s, nil
	}
	return nil, notFound(op)
}

// stream gives a stream by its name, nil for none.
func (e *Engine) stream(name string) *stream {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.streams[name]
}

func notFound(op string) error {
	return &broker.Error{Kind: broker.NotFound, Op: op, Msg: "Stream not found"}
}

// sorted gives all streams in order of their names.
func (e *Engine) sorted() []*stream {
	e.mu.RLock()
	defer e.mu.RUnlock()
	all := make([]*stream, 0, len(e.streams))
	for _, name := range slices.Sorted(maps.Keys(e.streams)) {
		all = append(all, e.streams[name])
	}
	return all
}

// Streams gives the records of all streams, in order of their names.
func (e *Engine) Streams() []broker.Stream {
	all := e.sorted()
	records := make([]broker.Stream, 0, len(all))
	for _, s := range all {
		records = append(records, s.record())
	}
	return records
}
