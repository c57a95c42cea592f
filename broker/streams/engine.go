package streams

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// Engine has the streams of one broker. All methods are safe for concurrent use.
type Engine struct {
	*messaging.Lifecycle
	host      *Host
	brokerID  string
	messaging messaging.Broker
	log       *slog.Logger

	mu      sync.RWMutex // guards streams
	streams map[string]*stream
}

var _ broker.Streams = (*Engine)(nil)

// load opens every stream that is defined, and has those that are active take
// messages if all could be opened; otherwise it closes them again. What a broker
// publishes before Ready, some may miss.
func (e *Engine) load(ctx context.Context) error {
	definitions, err := e.host.store.Definitions(ctx, e.brokerID)
	if err != nil {
		return err
	}
	opened := make(map[string]*stream, len(definitions))
	for _, d := range definitions {
		s, err := e.open(ctx, d)
		if err != nil {
			e.put(opened)
			e.stopAll()
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

// Len gives the number of streams.
func (e *Engine) Len(ctx context.Context) (int, error) {
	if err := e.Await(ctx, opList); err != nil {
		return 0, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.streams), nil
}

// find gives a stream by its name.
func (e *Engine) find(ctx context.Context, op, name string) (*stream, error) {
	if err := e.Await(ctx, op); err != nil {
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
