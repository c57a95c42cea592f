package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"signalbox/broker/cluster/raftlog"
)

// grave is a cluster that was dissolved, as long as some of its members may not
// know. Once a node has told another one, both know that the other knows. A grave
// is replaced, not changed.
type grave struct {
	id      *identity
	badge   *badge
	pending []Member
	until   time.Time
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
}

// encodeGraves gives the form in which graves are kept, nil for none.
func encodeGraves(all []*grave) []byte {
	if len(all) == 0 {
		return nil
	}
	var kept []keptGrave
	for _, g := range all {
		kept = append(kept, keptGrave{g.id, g.pending, g.until})
	}
	text, err := json.Marshal(kept)
	if err != nil {
		panic(err) // numbers, strings and times can be encoded
	}
	return text
}

func (n *Node) loadGraves() ([]*grave, error) {
	text, err := n.store.Kept(keptGraves)
	if err != nil || text == nil {
		return nil, err
	}
	var kept []keptGrave
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, fmt.Errorf("read which clusters were dissolved: %w", err)
	}
	var all []*grave
	for _, k := range kept {
		b, err := n.badge(k.Identity)
		if err != nil {
			return nil, fmt.Errorf("read which clusters were dissolved: %w", err)
		}
		all = append(all, &grave{k.Identity, b, k.Pending, k.Until})
	}
	return all, nil
}

func (n *Node) listGraves() []*grave {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.graves
}

// setGraves remembers the graves that are kept, and no longer who knows of others.
func (n *Node) setGraves(all []*grave) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.graves = all
	for uuid := range n.heard {
		if !slices.ContainsFunc(all, func(g *grave) bool { return g.id.UUID == uuid }) {
			delete(n.heard, uuid)
		}
	}
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
	if len(n.listGraves()) == 0 || n.take(ctx) != nil {
		return
	}
	defer n.giveBack()
	old := n.listGraves()
	var open []*grave
	for _, g := range old {
		g = &grave{g.id, g.badge, n.unaware(g.id.UUID, g.pending), g.until}
		if len(g.pending) > 0 && n.options.Now().Before(g.until) {
			open = append(open, g)
		}
	}
	open = open[max(0, len(open)-maxGraves):]
	if pendingIn(open) == pendingIn(old) {
		return
	}
	if err := n.store.Keep(raftlog.Changes{keptGraves: encodeGraves(open)}); err != nil {
		n.log.Warn("it cannot be stored who knows of a dissolved cluster", "err", err)
		return
	}
	n.setGraves(open)
	n.shutIfDone()
}

func pendingIn(all []*grave) (n int) {
	for _, g := range all {
		n += len(g.pending)
	}
	return n
}

// tellGraves tries once more to tell those who may not know.
func (n *Node) tellGraves(ctx context.Context) {
	for _, g := range n.listGraves() {
		asking, stop := context.WithCancel(ctx)
		x := newExchange(asking, g.badge)
		n.tellAll(ctx, x, g.pending, &state{UUID: g.id.UUID})
		stop()
		x.close()
	}
	n.tidyGraves(ctx)
}

// tellAll tells members at the same time that their cluster is dissolved, and up
// to which command it went.
func (n *Node) tellAll(ctx context.Context, x *exchange, members []Member, known *state) {
	ctx, cancel := context.WithTimeout(ctx, n.options.Timing.Settle)
	defer cancel()
	index, err := json.Marshal(known.Index)
	if err != nil {
		panic(err) // a number can be encoded
	}
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() {
			if err := n.tell(ctx, x, m, index); err != nil {
				n.log.Info("a node cannot be told that its cluster is dissolved; it will be", "node", int(m.NodeID), "err", err)
				return
			}
			n.knows(known.UUID, m.NodeID)
		})
	}
	wg.Wait()
}

// tell tells one member.
func (n *Node) tell(ctx context.Context, x *exchange, m Member, index []byte) error {
	ctx, cancel := context.WithTimeout(ctx, n.options.Timing.Call)
	defer cancel()
	f, err := x.ask(ctx, m, callDissolved, index)
	if err != nil {
		return err
	}
	return f.problem()
}
