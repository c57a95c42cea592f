package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// reachability lets a leader's replication wait for contact with a node.
//
// raft 1.8.0 pauses after each message that could not be sent, twice as long as
// after the one before, up to 10 s. After a long partition, a node that is in
// contact again would receive nothing for that long, though the heartbeats
// succeed. So a message to a node that is not in contact fails only when a
// heartbeat has reached that node, raft's or one that is tried meanwhile, and raft
// counts one failure for the whole partition. The message still fails: only the
// heartbeat itself counts as contact.
type reachability struct {
	mu    sync.Mutex
	heard map[raft.ServerID]chan struct{} // closed at the next contact
}

// next returns a channel that is closed when a node is in contact again.
func (r *reachability) next(id raft.ServerID) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard == nil {
		r.heard = map[raft.ServerID]chan struct{}{}
	}
	if r.heard[id] == nil {
		r.heard[id] = make(chan struct{})
	}
	return r.heard[id]
}

// note records contact with a node.
func (r *reachability) note(id raft.ServerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if heard := r.heard[id]; heard != nil {
		close(heard)
		delete(r.heard, id)
	}
}

// firstRetry is how long await waits after its first attempt; it waits twice as long after each
// further one, up to the given interval.
const firstRetry = 10 * time.Millisecond

// await waits for contact with a node, by others or by its own attempts, as long as these are
// wanted.
func (r *reachability) await(ctx context.Context, heard <-chan struct{}, interval time.Duration, try func() (reached, wanted bool)) {
	for wait := firstRetry; ; wait = min(2*wait, interval) {
		if reached, wanted := try(); reached || !wanted {
			return
		}
		again := time.NewTimer(wait)
		select {
		case <-heard:
			again.Stop()
			return
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
}

// replicates reports whether this node leads in a term and replicates its log to another node.
func (s *membership) replicates(to raft.ServerID, term uint64) bool {
	if s.raft.State() != raft.Leader || s.raft.CurrentTerm() != term {
		return false
	}
	for _, server := range s.servers() {
		if server.ID == to {
			return true
		}
	}
	return false
}
