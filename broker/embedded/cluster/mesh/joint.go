package mesh

import (
	"sync"

	"signalbox/broker/embedded/engine"
)

// joint is a receipt that is settled when two have said so, with the first error.
type joint struct {
	of engine.Receipt

	mu   sync.Mutex // guards what follows
	left int
	err  error
}

func newJoint(of engine.Receipt) *joint { return &joint{of: of, left: 2} }

// Settled notes what one of them says.
func (j *joint) Settled(err error) {
	j.mu.Lock()
	j.left--
	if j.err == nil {
		j.err = err
	}
	last, first := j.left == 0, j.err
	j.mu.Unlock()
	if last {
		j.of.Settled(first)
	}
}
