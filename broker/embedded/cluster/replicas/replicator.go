package replicas

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"signalbox/broker/embedded/engine"
)

// Replicator is an engine.Store in front of the node's own store. It reports changes of sessions as committed
// when they are stored here and at the node that has the replica, or when that node was given up. All methods
// are safe for concurrent use.
type Replicator struct {
	engine.Store // the node's own store
	o            Options
	outcomes     outcomes
	full         atomic.Bool // more than MaxQueued waits for other nodes

	// submitting is held for writing while the begin of a replica is placed among the changes that are
	// submitted; before mu.
	submitting sync.RWMutex

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu         sync.Mutex // guards what follows
	space      *sync.Cond // on mu, signalled when full becomes false
	wanted     []int      // the other nodes, sorted
	nodes      []int      // those that have streams; others while changePeers runs
	changing   bool       // changePeers runs
	streams    map[int]*stream
	hashes     map[uint64]uint64 // of the client id, by session
	queued     int64             // bytes that wait for other nodes
	lastStream uint64
	closed     bool
}

var _ engine.Store = (*Replicator)(nil)

// New returns a Replicator without other nodes. Close closes it and the node's own store.
func New(o Options) *Replicator {
	o.setDefaults()
	r := &Replicator{Store: o.Local, o: o, streams: map[int]*stream{}, hashes: map[uint64]uint64{}}
	r.space = sync.NewCond(&r.mu)
	r.outcomes.reported = r.reported
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// SetPeers sets the other nodes of the cluster. It does not wait. If they are not the ones before, all replicas are
// begun anew, since other sessions belong to each.
func (r *Replicator) SetPeers(nodes []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = slices.Sorted(slices.Values(nodes))
	if r.closed || r.changing || slices.Equal(r.wanted, r.nodes) {
		return
	}
	r.changing = true
	r.tasks.Go(r.changePeers)
}

// changePeers replaces the streams, once no replica of the former ones can be promoted.
func (r *Replicator) changePeers() {
	for {
		r.mu.Lock()
		former := r.streams
		r.mu.Unlock()
		for _, s := range former { // changes still wait for them
			s.stop()
		}
		outcomes := map[*stream]error{}
		for _, s := range former {
			outcomes[s] = s.detach()
		}
		r.mu.Lock()
		for s, err := range outcomes {
			s.drop(err)
		}
		done := r.closed
		if !done {
			r.replaceStreams()
			done = slices.Equal(r.wanted, r.nodes)
		}
		r.changing = !done
		r.mu.Unlock()
		r.outcomes.report()
		if done {
			return
		}
	}
}

// replaceStreams starts streams to the wanted nodes. mu is held.
func (r *Replicator) replaceStreams() {
	former := r.streams
	r.nodes, r.streams = r.wanted, map[int]*stream{}
	for _, n := range r.nodes {
		s := newStream(r, n, r.nodes)
		if a := r.o.Agreer; a != nil && a.Last(r.o.Self, n).Kind == Promote {
			s.state = promoted
		}
		if f := former[n]; f != nil && f.state == promoted {
			s.state, s.ending = promoted, f.ending
		}
		r.streams[n] = s
		s.start()
	}
}

// Load returns what is stored here.
func (r *Replicator) Load(ctx context.Context) (*engine.Snapshot, error) {
	snapshot, err := r.Store.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load sessions that have replicas: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteSessions(snapshot)
	return snapshot, nil
}

// noteSessions notes which clients the sessions of a snapshot belong to. mu is held.
func (r *Replicator) noteSessions(snapshot *engine.Snapshot) {
	for i := range snapshot.Sessions {
		s := &snapshot.Sessions[i]
		r.hashes[s.ID] = hashOf(s.ClientID)
	}
}

// Submit submits changes to the node's own store, and to that of a replica once they are committed here.
func (r *Replicator) Submit(c *engine.Changes) {
	r.submitting.RLock()
	defer r.submitting.RUnlock()
	c.Done = &committedHere{r, c.Done}
	r.Store.Submit(c)
}

// WaitForCapacity waits while too much is submitted, or waits for other nodes.
func (r *Replicator) WaitForCapacity() {
	r.Store.WaitForCapacity()
	if !r.full.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.full.Load() && !r.closed {
		r.space.Wait()
	}
}

// Full reports whether WaitForCapacity would wait.
func (r *Replicator) Full() bool { return r.Store.Full() || r.full.Load() }

// Close ends the replication and closes the node's own store. What waits for a replica that may be promoted is not
// acknowledged, all else is.
func (r *Replicator) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.space.Broadcast()
	r.mu.Unlock()
	r.cancel()
	r.tasks.Wait()
	r.mu.Lock()
	streams := r.streams
	r.mu.Unlock()
	for _, s := range streams {
		s.stop()
		s.giveUp(nil)
	}
	return r.Store.Close(ctx)
}

// committedHere is the CommitNotifier of changes in the node's own store.
type committedHere struct {
	r    *Replicator
	done engine.CommitNotifier // of the engine; nil where no caller waits
}

// Committed replicates what was committed here. The engine's CommitNotifier is notified later, in order.
func (h *committedHere) Committed(c *engine.Changes, err error) {
	c.Done = h.done
	o := &outcome{changes: c, err: err}
	h.r.replicate(c, o)
	h.r.outcomes.add(o)
}

// outcomeBytes is counted for changes whose outcome was not reported, in addition to what waits for other nodes.
const outcomeBytes = 1 << 10

// reported stops counting outcomes.
func (r *Replicator) reported(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(int64(-n) * outcomeBytes)
}

// replicate appends changes to the streams of the nodes that have the replicas of their sessions, unless they
// were not committed. The outcome waits for those whose replicas are complete.
func (r *Replicator) replicate(c *engine.Changes, o *outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(outcomeBytes)
	if o.err != nil {
		return
	}
	for i := range c.PutSessions {
		if s := &c.PutSessions[i]; r.hashes[s.ID] == 0 {
			r.hashes[s.ID] = hashOf(s.ClientID)
		}
	}
	if len(r.nodes) > 0 {
		parts := split{nodeOf: r.nodeOf}
		parts.add(c)
		for _, p := range parts.parts {
			r.streams[p.node].append(p.changes, o)
		}
	}
	for _, id := range c.EndedSessions {
		delete(r.hashes, id)
	}
}

// nodeOf returns the node that has the replica of a session, 0 for none. mu is held.
func (r *Replicator) nodeOf(sessionID uint64) int {
	hash, known := r.hashes[sessionID]
	if !known {
		return 0
	}
	return choose(hash, r.nodes)
}

// count changes how many bytes wait for other nodes. mu is held.
func (r *Replicator) count(bytes int64) {
	r.queued += bytes
	full := r.queued > r.o.MaxQueued
	if was := r.full.Swap(full); was && !full {
		r.space.Broadcast()
	}
}

// Figures is the state of the replicas at one node.
type Figures struct {
	Node     int
	Complete bool  // changes are acknowledged when this node has them, too
	Queued   int64 // bytes that wait for it
	Changes  int64 // that it has acknowledged
	Begun    int64 // how often its replica was begun
}

// Figures returns the state of the replicas at all other nodes, in order.
func (r *Replicator) Figures() (found []Figures) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.wanted {
		f := Figures{Node: n}
		if s := r.streams[n]; s != nil {
			f.Complete, f.Queued, f.Changes, f.Begun = s.state == complete && !r.changing, s.bytes, s.changes, s.begun
		}
		found = append(found, f)
	}
	return found
}
