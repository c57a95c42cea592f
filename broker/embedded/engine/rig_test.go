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
	keeps = enginetest.Keeps
	fresh = enginetest.Fresh
)

// broker is a broker that the test ends, or close.
type broker struct {
	*enginetest.Broker
	close func()
	dir   string
}

// start runs a broker on the file in dir until the test or close ends it.
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

// queue is how many messages wait for a client, or are under way to it.
func (b *broker) queue(clientID string) int64 {
	i, _, err := b.Client(clientID)
	check(b.T, err)
	return i.Queue.Messages
}

// present is how many sessions have their clients there.
func (b *broker) present() (n int) {
	for _, h := range b.Ownerships("", math.MaxInt) {
		if h.Connected {
			n++
		}
	}
	return n
}

// counted waits until what changes as packets are dealt with is counted right.
func (b *broker) counted() {
	b.T.Helper()
	until(b.T, "all is counted", func() bool { return b.Audit() == nil })
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	enginetest.Until(t, suite.HangLimit, what, ok)
}

// faulty is the real store with a disk that can be made to fail or to hang.
type faulty struct {
	engine.Store
	mu      sync.Mutex
	failing error             // what is not owed is refused with it, the rest waits
	hanging bool              // everything waits
	waiting []*engine.Changes // in order
}

// withFaulty puts the store into one that can be made to fail.
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

// refuse has changes come back with an error, in the order of all.
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

// fail makes the disk fail from now on. What waits for one that hung fails, too.
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

// held is how many changes wait.
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
