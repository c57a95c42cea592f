package engine_test

import (
	"errors"
	"math"
	"sync"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/scripts/suite"
)

// These are the shared ones.
type (
	client     = enginetest.Client
	message    = enginetest.Message
	permissive = enginetest.Permissive
	everything = enginetest.Everything
)

var (
	check = enginetest.Check
	keeps = enginetest.Persistent
	fresh = enginetest.Clean
)

// broker is a broker that the end of the test or close closes.
type broker struct {
	*enginetest.Broker
	close func()
	dir   string
}

// start runs a broker on the file in dir until the end of the test or close.
func start(t testing.TB, dir string, change ...func(*engine.Config, *engine.Parts)) *broker {
	t.Helper()
	b := prepare(t, dir, change...)
	check(t, b.Resume(t.Context()))
	return b
}

// prepare is start for an engine that is not resumed yet.
func prepare(t testing.TB, dir string, change ...func(*engine.Config, *engine.Parts)) *broker {
	t.Helper()
	b := &broker{Broker: enginetest.Start(t, suite.HangLimit, dir, change...), dir: dir}
	b.close = sync.OnceFunc(func() { b.Close() })
	t.Cleanup(b.close)
	return b
}

// queue returns the number of messages that are queued for a client or in flight to it.
func (b *broker) queue(clientID string) int64 {
	i, _, err := b.Client(clientID)
	check(b.T, err)
	return i.Queue.Messages
}

// present returns the number of sessions with connected clients.
func (b *broker) present() (n int) {
	for _, h := range b.Ownerships("", math.MaxInt) {
		if h.Connected {
			n++
		}
	}
	return n
}

// counted waits until all incremental counts are right.
func (b *broker) counted() {
	b.T.Helper()
	until(b.T, "all is counted", func() bool { return b.Audit() == nil })
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	enginetest.Until(t, suite.HangLimit, what, ok)
}

// faulty is the real store with a disk that can fail or hang.
type faulty struct {
	engine.Store
	mu      sync.Mutex
	failing error             // changes that are not owed fail with it, the others wait
	hanging bool              // everything waits
	waiting []*engine.Changes // in order
}

// withFaulty wraps the store in one that can fail.
func withFaulty(into **faulty) func(*engine.Config, *engine.Parts) {
	return func(_ *engine.Config, p *engine.Parts) {
		*into = &faulty{Store: p.Store}
		p.Store = *into
	}
}

func (f *faulty) Submit(c *engine.Changes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.hanging || f.failing != nil && c.Owed:
		f.waiting = append(f.waiting, c)
	case f.failing != nil:
		f.refuse(c, f.failing)
	default:
		f.Store.Submit(c)
	}
}

// refuse reports an error for changes, in the order of all.
func (f *faulty) refuse(c *engine.Changes, err error) {
	if c.Done != nil {
		f.Store.Submit(&engine.Changes{Done: refusal{c, err}})
	}
}

type refusal struct {
	changes *engine.Changes
	err     error
}

func (r refusal) Committed(*engine.Changes, error) { r.changes.Done.Committed(r.changes, r.err) }

func (f *faulty) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failing
}

var errDisk = errors.New("no space left on device")

// fail makes the disk fail from now on. Waiting changes of a disk that hung fail, too.
func (f *faulty) fail() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing, f.hanging = errDisk, false
	waiting := f.waiting
	f.waiting = nil
	for _, c := range waiting {
		if c.Owed {
			f.waiting = append(f.waiting, c)
		} else {
			f.refuse(c, errDisk)
		}
	}
}

// hang makes the disk hang.
func (f *faulty) hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hanging = true
}

// held returns the number of changes that wait.
func (f *faulty) held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiting)
}

// work makes the disk work again.
func (f *faulty) work() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing, f.hanging = nil, false
	for _, c := range f.waiting {
		f.Store.Submit(c)
	}
	f.waiting = nil
}
