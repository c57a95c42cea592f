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

// Engine runs the streams of one broker. All methods are safe for concurrent
// use.
type Engine struct {
	*messaging.Lifecycle
	host      *Host
	brokerID  string
	messaging messaging.Broker
	serving   messaging.ServingBroker // the same broker, if it is not in this process and other nodes may take its messages; otherwise nil
	log       *slog.Logger

	mu      sync.RWMutex // guards streams
	streams map[string]*stream
}

var _ broker.Streams = (*Engine)(nil)

// load opens every stream that is defined. If all could be opened, it
// subscribes those that are active; otherwise it closes them again. Some
// streams may miss messages that are published before Ready.
func (e *Engine) load(ctx context.Context) error {
	definitions, err := e.loaded(ctx)
	if err != nil {
		return err
	}
	opened := make(map[string]*stream, len(definitions))
	for _, d := range definitions {
		s, err := e.open(ctx, d)
		if err != nil {
			e.setStreams(opened)
			e.stopAll()
			return err
		}
		opened[d.StreamName] = s
	}
	e.setStreams(opened)
	for _, s := range opened {
		s.attach()
	}
	return nil
}

func (e *Engine) setStreams(streams map[string]*stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.streams = streams
}

// stopAll stops all streams, after they have stored the messages that they have
// taken.
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

// Len returns the number of streams.
func (e *Engine) Len(ctx context.Context) (int, error) {
	if err := e.Await(ctx, opList); err != nil {
		return 0, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.streams), nil
}

// find returns a stream by name.
func (e *Engine) find(ctx context.Context, op, name string) (*stream, error) {
	if err := e.Await(ctx, op); err != nil {
		return nil, err
	}
	if s := e.stream(name); s != nil {
		return s, nil
	}
	return nil, notFound(op)
}

// stream returns a stream by name, or nil.
func (e *Engine) stream(name string) *stream {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.streams[name]
}

func notFound(op string) error {
	return &broker.Error{Kind: broker.NotFound, Op: op, Msg: "Stream not found"}
}

// sorted returns all streams, sorted by name.
func (e *Engine) sorted() []*stream {
	e.mu.RLock()
	defer e.mu.RUnlock()
	all := make([]*stream, 0, len(e.streams))
	for _, name := range slices.Sorted(maps.Keys(e.streams)) {
		all = append(all, e.streams[name])
	}
	return all
}

// Streams returns the records of all streams, sorted by name.
func (e *Engine) Streams() []broker.Stream {
	all := e.sorted()
	records := make([]broker.Stream, 0, len(all))
	for _, s := range all {
		records = append(records, s.record())
	}
	return records
}
