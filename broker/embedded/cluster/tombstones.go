package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"signalbox/broker/embedded/cluster/raftlog"
)

// tombstone is a dissolved cluster whose members may not all know of the dissolution. An
// announcement to another node and its response acknowledge it in both directions. As the last
// acknowledgement may be lost, a tombstone stays for a while after all have acknowledged. It is
// replaced, not changed.
type tombstone struct {
	id          *identity
	credentials *credentials
	pending     []Member
	until       time.Time
	index       uint64 // of the last command of the cluster, 0 if not known
}

// A tombstone expires after a month, and the oldest one when there are too many. A node that is
// back later has to leave by Leave.
const (
	tombstoneTTL  = 30 * 24 * time.Hour
	maxTombstones = 8
)

// storedTombstone is a tombstone as it is stored.
type storedTombstone struct {
	Identity *identity `json:"identity"`
	Pending  []Member  `json:"pending"`
	Until    time.Time `json:"until"`
	Index    uint64    `json:"index,omitzero"`
}

// encodeTombstones returns the stored form of tombstones, nil for none.
func encodeTombstones(all []*tombstone, with Sealer) []byte {
	if len(all) == 0 {
		return nil
	}
	var kept []storedTombstone
	for _, g := range all {
		kept = append(kept, storedTombstone{g.id.seal(with), g.pending, g.until, g.index})
	}
	text, err := json.Marshal(kept)
	if err != nil {
		panic(err) // numbers, strings and times can be encoded
	}
	return text
}

func (n *Node) loadTombstones() ([]*tombstone, error) {
	text, err := n.store.Value(nameTombstones)
	if err != nil || text == nil {
		return nil, err
	}
	var kept []storedTombstone
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, fmt.Errorf("read which clusters were dissolved: %w", err)
	}
	var all []*tombstone
	for _, k := range kept {
		if _, err := k.Identity.unseal(n.options.Seal); err != nil {
			return nil, fmt.Errorf("read which clusters were dissolved: %w", err)
		}
		b, err := n.credentials(k.Identity)
		if err != nil {
			return nil, fmt.Errorf("read which clusters were dissolved: %w", err)
		}
		all = append(all, &tombstone{k.Identity, b, k.Pending, k.Until, k.Index})
	}
	return all, nil
}

func (n *Node) listTombstones() []*tombstone {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tombstones
}

// setTombstones sets the stored tombstones, and deletes the acknowledgements of others.
func (n *Node) setTombstones(all []*tombstone) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range n.tombstones {
		if !slices.ContainsFunc(all, func(o *tombstone) bool { return o.id.UUID == g.id.UUID }) {
			delete(n.acknowledged, g.id.UUID)
		}
	}
	n.tombstones = all
}

// setAcknowledged records that a node has acknowledged the dissolution of a cluster.
func (n *Node) setAcknowledged(uuid string, id NodeID) {
	n.mu.Lock()
	if n.acknowledged[uuid] == nil {
		n.acknowledged[uuid] = map[NodeID]bool{}
	}
	n.acknowledged[uuid][id] = true
	n.mu.Unlock()
	n.notify()
}

// acknowledgedBy returns the nodes that have acknowledged the dissolution of a cluster.
func (n *Node) acknowledgedBy(uuid string) []NodeID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.acknowledged[uuid]))
}

// unacknowledged returns the members that have not acknowledged the dissolution.
func (n *Node) unacknowledged(uuid string, members []Member) (all []Member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range members {
		if !n.acknowledged[uuid][m.NodeID] {
			all = append(all, m)
		}
	}
	return all
}

// expireTombstones deletes the tombstones that all members have acknowledged, or that are too
// old.
func (n *Node) expireTombstones(ctx context.Context) {
	if err := n.updateTombstones(ctx); err != nil {
		if ctx.Err() == nil && !errors.Is(err, ErrClosed) {
			n.log.Warn("the acknowledgements of a dissolved cluster cannot be stored", "error", err)
		}
		return
	}
	if n.lock(ctx) != nil {
		return
	}
	defer n.unlock()
	n.closeUnusedPort()
}

// updateTombstones stores the remaining tombstones and their acknowledgements.
func (n *Node) updateTombstones(ctx context.Context) error {
	if err := n.lock(ctx); err != nil {
		return err
	}
	defer n.unlock()
	old := n.listTombstones()
	var open []*tombstone
	for _, g := range old {
		g = &tombstone{g.id, g.credentials, n.unacknowledged(g.id.UUID, g.pending), g.until, g.index}
		if last := n.tombstoneExpiry(); len(g.pending) == 0 && last.Before(g.until) {
			g.until = last
		}
		if n.options.Now().Before(g.until) {
			open = append(open, g)
		}
	}
	open = open[max(0, len(open)-maxTombstones):]
	if bytes.Equal(encodeTombstones(open, nil), encodeTombstones(old, nil)) {
		return nil
	}
	if err := n.store.Update(raftlog.Changes{nameTombstones: encodeTombstones(open, n.options.Seal)}); err != nil {
		return err
	}
	n.setTombstones(open)
	return nil
}

// tombstoneExpiry returns when a tombstone expires that all have acknowledged: a node whose
// acknowledgement was lost announces the dissolution again until then.
func (n *Node) tombstoneExpiry() time.Time { return n.options.Now().Add(3 * n.options.Timing.Announce) }

// announceDissolutions announces each dissolution again to the members that have not
// acknowledged it.
func (n *Node) announceDissolutions(ctx context.Context) {
	for _, g := range n.listTombstones() {
		asking, stop := context.WithCancel(ctx)
		x := newConnPool(asking, g.credentials, n.options.Timing.Call)
		n.announceDissolution(ctx, x, g.pending, g.id.UUID, g.index)
		stop()
		x.close()
	}
	n.expireTombstones(ctx)
}

// announceDissolution announces to members, at the same time, that their cluster is
// dissolved, and the index of its last command.
func (n *Node) announceDissolution(ctx context.Context, x *connPool, members []Member, uuid string, upTo uint64) {
	ctx, cancel := context.WithTimeout(ctx, n.options.Timing.Dissolve)
	defer cancel()
	index, err := json.Marshal(upTo)
	if err != nil {
		panic(err) // a number can be encoded
	}
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() {
			if err := n.announceTo(ctx, x, m, index); err != nil {
				n.log.Debug("a node cannot be notified that its cluster is dissolved; the node tries again", "node", int(m.NodeID), "error", err)
				return
			}
			n.setAcknowledged(uuid, m.NodeID)
		})
	}
	wg.Wait()
}

// announceTo announces a dissolution to one member, which may still have to apply commands.
func (n *Node) announceTo(ctx context.Context, x *connPool, m Member, index []byte) error {
	f, err := x.ask(ctx, m, callDissolved, index)
	if err != nil {
		return err
	}
	return f.err()
}
