package replicas

import (
	"sync"
	"sync/atomic"

	"signalbox/broker/embedded/engine"
)

// outcomes are the changes that were committed here, in order. Their CommitNotifiers are notified in this order,
// by one goroutine at a time, as an engine.Store must.
type outcomes struct {
	reported func(n int) // called after some CommitNotifiers were

	mu        sync.Mutex // guards what follows
	waiting   []*outcome
	head      int  // index in waiting of the first that was not reported
	reporting bool // a goroutine notifies
}

// outcome is the outcome of changes, which waits for replicas.
type outcome struct {
	changes *engine.Changes
	err     error
	waits   atomic.Int32 // for as many nodes
}

// add adds the outcome of changes that were committed here.
func (o *outcomes) add(c *outcome) {
	o.mu.Lock()
	o.waiting = append(o.waiting, c)
	o.mu.Unlock()
	o.report()
}

// report notifies the CommitNotifiers of the first outcomes that do not wait. If another goroutine does so
// already, that one notifies these, too.
func (o *outcomes) report() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reporting {
		return
	}
	o.reporting = true
	for {
		ready := o.take()
		if len(ready) == 0 {
			o.reporting = false
			return
		}
		o.mu.Unlock()
		for _, c := range ready {
			c.changes.Committed(c.err)
		}
		o.reported(len(ready))
		o.mu.Lock()
	}
}

// take removes and returns the first outcomes that do not wait. mu is held.
func (o *outcomes) take() (ready []*outcome) {
	for o.head < len(o.waiting) && o.waiting[o.head].waits.Load() == 0 {
		ready = append(ready, o.waiting[o.head])
		o.waiting[o.head] = nil
		o.head++
	}
	if o.head >= len(o.waiting)/2 {
		n := copy(o.waiting, o.waiting[o.head:])
		clear(o.waiting[n:])
		o.waiting, o.head = o.waiting[:n], 0
	}
	return ready
}
