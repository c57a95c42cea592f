package replica

import (
	"sync"

	"signalbox/broker/embedded/engine"
)

// discarding stores nothing, and reports the same outcome for all changes.
type discarding struct {
	*queue
	reason error // the outcome
	tasks  sync.WaitGroup
}

func newDiscarding(reason error) *discarding { return &discarding{queue: newQueue(), reason: reason} }

func (d *discarding) Submit(c *engine.Changes) { d.put(c) }
func (d *discarding) Err() error               { return d.reason }
func (d *discarding) storesLocally() bool      { return false }
func (d *discarding) start()                   { d.tasks.Go(d.run) }

func (d *discarding) end() {
	d.close()
	d.tasks.Wait()
}

func (d *discarding) run() {
	for b := newBatch(); d.fill(b, groupChanges, groupWeight); b.reset() {
		b.report(d.reason)
		d.done(b)
	}
}
