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

// grave is a cluster that was dissolved, as long as some of its members may not
// know. Once a node has told another one, both know that the other knows; as the
// last word between two may be lost, a grave is left open for a while when there
// is nobody left to tell. A grave is replaced, not changed.
type grave struct {
	id          *identity
	credentials *credentials
	pending     []Member
	until       time.Time
	index       uint64 // up to which command the cluster went, 0 where that is not known
}

// A grave is closed after a month, and the oldest when there are too many: who
// comes back later has to leave by itself.
const (
	mourning  = 30 * 24 * time.Hour
	maxGraves = 8
)

// keptGrave is a grave as it is kept.
type keptGrave struct {
	Identity *identity `json:"identity"`
	Pending  []Member  `json:"pending"`
	Until    time.Time `json:"until"`
	Index    uint64    `json:"index,omitzero"`
}

// encodeGraves gives the form in which graves are kept, nil for none.
func encodeGraves(all []*grave, with Sealer) []byte {
	if len(all) == 0 {
		return nil
	}
	var kept []keptGrave
	for _, g := range all {
		kept = append(kept, keptGrave{g.id.seal(with), g.pending, g.until, g.index})
	}
	text, err := json.Marshal(kept)
	if err != nil {
		panic(err) // numbers, strings and times can be encoded
	}
	return text
}

func (n *Node) loadGraves() ([]*grave, error) {
	text, err := n.store.Value(keptGraves)
	if err != nil || text == nil {
		return nil, err
	}
	var kept []keptGrave
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, fmt.Errorf("read which clusters were dissolved: %w", err)
	}
	var all []*grave
	for _, k := range kept {
		if _, err := k.Identity.unseal(n.options.Seal); err != nil {
			return nil, fmt.Errorf("read which clusters were dissolved: %w", err)
		}
		b, err := n.credentials(k.Identity)
		if err != nil {
			return nil, fmt.Errorf("read which clusters were dissolved: %w", err)
		}
		all = append(all, &grave{k.Identity, b, k.Pending, k.Until, k.Index})
	}
	return all, nil
}

func (n *Node) listGraves() []*grave {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.graves
}

// setGraves remembers the graves that are kept, and no longer who knows of those
// that are closed.
func (n *Node) setGraves(all []*grave) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range n.graves {
		if !slices.ContainsFunc(all, func(o *grave) bool { return o.id.UUID == g.id.UUID }) {
			delete(n.heard, g.id.UUID)
		}
	}
	n.graves = all
}

// knows remembers that a node knows of the end of a cluster.
func (n *Node) knows(uuid string, id NodeID) {
	n.mu.Lock()
	if n.heard[uuid] == nil {
		n.heard[uuid] = map[NodeID]bool{}
	}
	n.heard[uuid][id] = true
	n.mu.Unlock()
	n.nudge()
}

// whoKnows lists who knows of the end of a cluster.
func (n *Node) whoKnows(uuid string) []NodeID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.heard[uuid]))
}

// unaware lists the members that may not know of the end of their cluster.
func (n *Node) unaware(uuid string, members []Member) (all []Member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range members {
		if !n.heard[uuid][m.NodeID] {
			all = append(all, m)
		}
	}
	return all
}

// tidyGraves closes the graves of which all know, or that have been open for too
// long.
func (n *Node) tidyGraves(ctx context.Context) {
	if err := n.keepGraves(ctx); err != nil {
		if ctx.Err() == nil && !errors.Is(err, ErrClosed) {
			n.log.Warn("it cannot be stored who knows of a dissolved cluster", "err", err)
		}
		return
	}
	if n.take(ctx) != nil {
		return
	}
	defer n.giveBack()
	n.shutIfDone()
}

// keepGraves stores what is known of graves by now.
func (n *Node) keepGraves(ctx context.Context) error {
	if err := n.take(ctx); err != nil {
		return err
	}
	defer n.giveBack()
	old := n.listGraves()
	var open []*grave
	for _, g := range old {
		g = &grave{g.id, g.credentials, n.unaware(g.id.UUID, g.pending), g.until, g.index}
		if last := n.lingering(); len(g.pending) == 0 && last.Before(g.until) {
			g.until = last
		}
		if n.options.Now().Before(g.until) {
			open = append(open, g)
		}
	}
	open = open[max(0, len(open)-maxGraves):]
	if bytes.Equal(encodeGraves(open, nil), encodeGraves(old, nil)) {
		return nil
	}
	if err := n.store.Update(raftlog.Changes{keptGraves: encodeGraves(open, n.options.Seal)}); err != nil {
		return err
	}
	n.setGraves(open)
	return nil
}

// lingering gives until when a grave stays open of which all are known to know:
// those who have not heard so tell again meanwhile.
func (n *Node) lingering() time.Time { return n.options.Now().Add(3 * n.options.Timing.Tell) }

// tellGraves tries once more to tell those who may not know.
func (n *Node) tellGraves(ctx context.Context) {
	for _, g := range n.listGraves() {
		asking, stop := context.WithCancel(ctx)
		x := newExchange(asking, g.credentials, n.options.Timing.Call)
		n.tellAll(ctx, x, g.pending, g.id.UUID, g.index)
		stop()
		x.close()
	}
	n.tidyGraves(ctx)
}

// tellAll tells members at the same time that their cluster is dissolved, and up
// to which command it went.
func (n *Node) tellAll(ctx context.Context, x *exchange, members []Member, uuid string, upTo uint64) {
	ctx, cancel := context.WithTimeout(ctx, n.options.Timing.Settle)
	defer cancel()
	index, err := json.Marshal(upTo)
	if err != nil {
		panic(err) // a number can be encoded
	}
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() {
			if err := n.tell(ctx, x, m, index); err != nil {
				n.log.Debug("a node cannot be told that its cluster is dissolved; it will be", "node", int(m.NodeID), "err", err)
				return
			}
			n.knows(uuid, m.NodeID)
		})
	}
	wg.Wait()
}

// tell tells one member, which may have something to catch up with.
func (n *Node) tell(ctx context.Context, x *exchange, m Member, index []byte) error {
	f, err := x.ask(ctx, m, callDissolved, index)
	if err != nil {
		return err
	}
	return f.problem()
}
