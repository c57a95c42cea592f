package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/panics"
)

// Bounds of the streams. Each holds a connection for as long as a page is open: all
// together a quarter of http.max_connections by default. A browser opens at most six
// connections to a server over HTTP/1.1, so one caller may have several browsers.
const (
	maxStreams       = 256
	maxCallerStreams = 16
)

// eventInterval is the time between two events of a type.
const eventInterval = time.Second

// The errors of Open.
var (
	ErrTooManyStreams       = errors.New("there are too many event streams")
	ErrTooManyCallerStreams = errors.New("the caller has too many event streams")
)

// eventType is an index of EventTypes.
type eventType int

const (
	metricsEvent eventType = iota
	stateEvent
	denialsEvent
	typeCount
)

// Denials is the name of the type of events that not every broker has.
const Denials = "denials"

// EventTypes are the names of the types of events.
var EventTypes = [typeCount]string{metricsEvent: "metrics", stateEvent: "state", denialsEvent: Denials}

// skippedEvent is the type of the event that a stream has lost others.
const skippedEvent = "skipped"

// Events are the streams of events of all brokers. A broker is observed once a second,
// however many streams it has, and not at all without one. All methods are safe for
// concurrent use.
type Events struct {
	pool  *broker.Pool
	log   *slog.Logger
	tasks sync.WaitGroup

	mu       sync.Mutex // guards what follows, and the fields of watch; before Stream.mu
	watches  map[string]*watch
	open     int
	byCaller map[string]int
}

// watch is the observation of a broker for its streams.
type watch struct {
	brokerID string
	cancel   context.CancelFunc
	streams  map[*Stream]struct{}
	latest   [typeCount][]byte // what a new stream begins with; nil for nothing
}

// NewEvents returns the streams of the brokers of a pool.
func NewEvents(pool *broker.Pool, log *slog.Logger) *Events {
	return &Events{pool: pool, log: log, watches: map[string]*watch{}, byCaller: map[string]int{}}
}

// Close waits until no broker is observed, or until ctx ends. All streams should be closed.
func (e *Events) Close(ctx context.Context) error {
	done := make(chan struct{})
	go func() { e.tasks.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the streams of events: %w", context.Cause(ctx))
	}
}

// Open opens a stream of the events of a broker for a caller, of types by their names. The
// latest metrics and state are its first events.
func (e *Events) Open(brokerID, caller string, types []string) (*Stream, error) {
	s := newStream(e, caller, types)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.reserve(caller); err != nil {
		return nil, err
	}
	w := e.watches[brokerID]
	if w == nil {
		w = e.start(brokerID)
	}
	s.watch, w.streams[s] = w, struct{}{}
	for t, data := range w.latest {
		if data != nil && s.wants[t] {
			s.offer(eventType(t), data)
		}
	}
	return s, nil
}

// reserve counts one more stream of a caller, if it may have one. e.mu is held.
func (e *Events) reserve(caller string) error {
	switch {
	case e.byCaller[caller] >= maxCallerStreams:
		return ErrTooManyCallerStreams
	case e.open >= maxStreams:
		return ErrTooManyStreams
	}
	e.open++
	e.byCaller[caller]++
	return nil
}

// release counts one stream less. e.mu is held.
func (e *Events) release(caller string) {
	e.open--
	if e.byCaller[caller]--; e.byCaller[caller] == 0 {
		delete(e.byCaller, caller)
	}
}

// start starts to observe a broker. e.mu is held.
func (e *Events) start(brokerID string) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{brokerID: brokerID, cancel: cancel, streams: map[*Stream]struct{}{}}
	e.watches[brokerID] = w
	e.tasks.Go(func() { e.run(ctx, w) })
	return w
}

// leave removes a stream; without streams the broker is no longer observed.
func (e *Events) leave(s *Stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.release(s.caller)
	delete(s.watch.streams, s)
	if len(s.watch.streams) == 0 {
		e.remove(s.watch)
	}
}

// remove ends an observation. e.mu is held.
func (e *Events) remove(w *watch) {
	w.cancel()
	if e.watches[w.brokerID] == w {
		delete(e.watches, w.brokerID)
	}
}

// end ends the streams of a broker.
func (e *Events) end(w *watch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(w)
	for s := range w.streams {
		close(s.ended)
	}
}

// run observes a broker once per interval, until its last stream leaves. If the broker is
// deleted, or after a panic, it ends the streams.
func (e *Events) run(ctx context.Context, w *watch) {
	defer func() {
		if v := recover(); v != nil {
			panics.Log(ctx, e.log, "the event streams of a broker were ended by a panic", fmt.Sprint(v), slog.String("broker", w.brokerID))
			e.end(w)
		}
	}()
	tick := time.NewTicker(eventInterval)
	defer tick.Stop()
	o := &observer{}
	for {
		b := e.pool.Live(w.brokerID, 0)
		if b == nil {
			e.end(w)
			return
		}
		events := o.observe(ctx, b, e.wanted(w))
		e.publish(w, events, o.known)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// wanted returns the types that streams of a broker want.
func (e *Events) wanted(w *watch) (all [typeCount]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range w.streams {
		for t, wants := range s.wants {
			all[t] = all[t] || wants
		}
	}
	return all
}

// publish encodes each event once and offers it to all streams that want it. Of types that
// are not known any more, new streams begin without an event.
func (e *Events) publish(w *watch, events [typeCount]any, known [typeCount]bool) {
	var encoded [typeCount][]byte
	for t, event := range events {
		if event != nil {
			encoded[t], _ = json.Marshal(event) //nolint:errcheck // cannot fail: events are structs of plain values
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for t, data := range encoded {
		if !known[t] {
			w.latest[t] = nil
		}
		if data == nil {
			continue
		}
		if eventType(t) != denialsEvent { // those of before can be listed
			w.latest[t] = data
		}
		for s := range w.streams {
			if s.wants[t] {
				s.offer(eventType(t), data)
			}
		}
	}
}
