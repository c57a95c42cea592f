// Package monitor observes the live brokers: it keeps the history of their metrics, and has
// streams of events for those who follow a broker.
//
// Of this module it imports broker, broker/panics and broker/storage only; it must not import a kind of
// broker, nor net/http. See DESIGN.md.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/panics"
)

// ticksPerWrite is how many times brokers are asked for samples before these are written:
// a minute's are in the same few pages.
const ticksPerWrite = 6

// writeTime bounds the time of a write.
const writeTime = 20 * time.Second

// Options configure a History. The zero value has no log and the clock of the machine.
type Options struct {
	Log *slog.Logger
	Now func() time.Time
}

// History is the history of the metrics of all brokers. All methods are safe for concurrent
// use.
type History struct {
	log  *slog.Logger
	now  func() time.Time
	file *file

	cancel context.CancelFunc // nil before Start
	tasks  sync.WaitGroup

	loads sync.Map // Load of the last sample, by broker; for readers that do not wait for the file

	mu      sync.Mutex // guards what follows; held while the file is written, never while a broker is waited for
	sources map[string]*source
	failing bool // the last write failed
}

// source is a broker whose samples are taken.
type source struct {
	broker  broker.Broker
	after   int64 // date of the last sample
	meter   meter
	load    *Load // of the last sample
	last    int64 // start of the last interval, in epoch seconds
	pending []row // not written yet
}

// Open opens or creates the file. One that is damaged, or that this release did not write,
// is moved aside with a warning. If there is none that can be used, that is logged, and the
// history begins when there is one.
func Open(ctx context.Context, path string, o Options) *History {
	h := &History{log: o.Log, now: o.Now, sources: map[string]*source{}}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.now == nil {
		h.now = time.Now
	}
	h.file = &file{path: path, log: h.log}
	if err := h.file.open(ctx); err != nil {
		h.reportFailure(ctx, err)
	}
	return h
}

// Start starts to take the samples of the brokers of a pool. It is called at most once.
func (h *History) Start(pool *broker.Pool) {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.tasks.Go(func() { h.run(ctx, pool) })
}

// Close writes what was not written yet and closes the file, until ctx ends.
func (h *History) Close(ctx context.Context) error {
	if h.cancel != nil {
		h.cancel()
	}
	closed := make(chan error, 1)
	go func() {
		h.tasks.Wait()
		h.safely(ctx, func() { h.write(ctx) })
		closed <- h.file.close()
	}()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("close the metric history: %w", context.Cause(ctx))
	}
}

// run takes samples as often as brokers do, and writes them less often.
func (h *History) run(ctx context.Context, pool *broker.Pool) {
	tick := time.NewTicker(finest.Length)
	defer tick.Stop()
	for ticks := 1; ; ticks++ {
		select {
		case <-tick.C:
			h.safely(ctx, func() { h.collect(pool) })
			if ticks%ticksPerWrite == 0 {
				h.safely(ctx, func() { h.write(ctx) })
			}
		case <-ctx.Done():
			return
		}
	}
}

// safely calls a step, and lets the history continue after a panic in it.
func (h *History) safely(ctx context.Context, step func()) {
	defer func() {
		if v := recover(); v != nil {
			panics.Log(ctx, h.log, "a step of the metric history was ended by a panic", fmt.Sprint(v))
		}
	}()
	step()
}

// collect takes the samples that brokers have taken since the last call. The brokers are
// listed under the lock: Forget is called after a broker has left the pool, so none of its
// samples is taken after that.
func (h *History) collect(pool *broker.Pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, b := range pool.All() {
		s := h.sources[id]
		if s == nil {
			s = &source{}
			h.sources[id] = s
		}
		if s.broker != b { // another connection, possibly to another broker
			s.broker, s.after, s.meter, s.load = b, 0, meter{}, nil
			h.loads.Delete(id)
		}
		for _, one := range b.SysHistory(s.after) {
			s.add(one)
		}
		if s.load != nil {
			h.loads.Store(id, *s.load)
		}
	}
}

// add adds a sample. While nothing can be written, the oldest samples are dropped.
func (s *source) add(one broker.SysTopics) {
	before := s.after
	s.after = one.Date
	v := s.meter.next(one)
	if one.Reported.IsZero() {
		return
	}
	s.load = newLoad(one, v)
	s.last = interval(one.Date, before, s.last)
	s.pending = append(s.pending, row{s.last, v})
	if over := len(s.pending) - int(finest.slots()); over > 0 {
		s.pending = slices.Delete(s.pending, 0, over)
	}
}

// write writes the pending samples. If that fails they remain pending; when the history is
// closed, that writes them.
func (h *History) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	samples := map[string][]row{}
	for id, s := range h.sources {
		if len(s.pending) > 0 {
			samples[id] = s.pending
		}
	}
	if len(samples) == 0 {
		return
	}
	if err := h.file.access(ctx, func(s *store) error { return s.write(ctx, samples) }); err != nil {
		h.reportFailure(ctx, err)
		return
	}
	h.failing = false
	for id := range samples {
		h.sources[id].pending = nil
	}
}

// reportFailure logs the first of several failures to open or to write the file.
func (h *History) reportFailure(ctx context.Context, err error) {
	if !h.failing && !errors.Is(ctx.Err(), context.Canceled) {
		h.log.Error("the metric history cannot be written; it continues when it can", "error", err)
	}
	h.failing = true
}

// Forget deletes the history of a broker, which must have left the pool.
func (h *History) Forget(ctx context.Context, brokerID string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sources, brokerID)
	h.loads.Delete(brokerID)
	if err := h.file.access(ctx, func(s *store) error { return s.forget(ctx, brokerID) }); err != nil {
		return fmt.Errorf("delete the metric history of broker %s: %w", brokerID, err)
	}
	return nil
}

// Retain deletes the histories of all brokers but these: of those that were deleted when
// the service was killed. It is called before Start.
func (h *History) Retain(ctx context.Context, brokerIDs []string) error {
	var stored []string
	err := h.file.access(ctx, func(s *store) (err error) {
		stored, err = s.brokers(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("list the brokers with a metric history: %w", err)
	}
	var errs []error
	for _, id := range stored {
		if !slices.Contains(brokerIDs, id) {
			errs = append(errs, h.Forget(ctx, id))
		}
	}
	return errors.Join(errs...)
}
