package mesh

import (
	"sync"

	"signalbox/broker/embedded/engine"
)

// jointReceipt passes on a result when two events have reported theirs, with the first error.
type jointReceipt struct {
	receipt engine.Receipt

	mu      sync.Mutex // guards what follows
	pending int
	err     error
}

func newJointReceipt(receipt engine.Receipt) *jointReceipt {
	return &jointReceipt{receipt: receipt, pending: 2}
}

// Committed records one result.
func (j *jointReceipt) Committed(err error) {
	j.mu.Lock()
	j.pending--
	if j.err == nil {
		j.err = err
	}
	last, first := j.pending == 0, j.err
	j.mu.Unlock()
	if last {
		j.receipt.Committed(first)
	}
}
