package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"signalbox/broker/embedded/cluster/raftlog"
)

// Why a node has to leave its cluster.
const (
	endRemoved   = "removed"
	endDissolved = "dissolved"
	endLeft      = "left"
)

// ending is what is kept of a node that has to leave its cluster soon. One of
// another cluster means nothing: it came too late.
type ending struct {
	UUID  string   `json:"uuid,omitzero"` // of the cluster; "" in files of earlier releases
	Why   string   `json:"why"`
	Heard []NodeID `json:"heard,omitzero"` // who knows that the cluster is dissolved
}

// end has the node leave its cluster soon, and surely: it is kept.
func (s *seat) end(why string) error { return s.node.end(s.credentials.uuid, why) }

func (n *Node) end(uuid, why string) error {
	if s := n.seat.Load(); s != nil && s.credentials.uuid != uuid {
		return nil
	}
	text, err := json.Marshal(ending{uuid, why, n.whoKnows(uuid)})
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	if err := n.store.Update(raftlog.Changes{keptEnding: text}); err != nil {
		return err
	}
	n.setEnding(uuid, why)
	n.nudge()
	return nil
}

func (n *Node) setEnding(uuid, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ending = ending{UUID: uuid, Why: why}
}

// loadEnding remembers what end has kept.
func (n *Node) loadEnding(uuid string) error {
	text, err := n.store.Value(keptEnding)
	if err != nil || text == nil {
		return err
	}
	var e ending
	if err := json.Unmarshal(text, &e); err != nil {
		return fmt.Errorf("read why the node has to leave its cluster: %w", err)
	}
	if e.UUID != "" && e.UUID != uuid {
		return nil
	}
	for _, id := range e.Heard {
		n.knows(uuid, id)
	}
	n.setEnding(uuid, e.Why)
	return nil
}

// keep looks after the node until it is closed.
func (n *Node) keep(ctx context.Context) {
	tell := time.NewTicker(n.options.Timing.Tell)
	defer tell.Stop()
	for {
		n.lookAfter(ctx)
		select {
		case <-n.kick:
		case <-tell.C:
			n.tellGraves(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// lookAfter brings the node to rest where its cluster is no longer its own, and
// starts it anew where it had to stop.
func (n *Node) lookAfter(ctx context.Context) {
	n.tidyGraves(ctx)
	s := n.seat.Load()
	if s == nil {
		n.revive(ctx)
		return
	}
	why, stopped := n.whyLeave(s), s.fsm.stopped.Load()
	switch {
	case why == endDissolved:
		n.bury(ctx, s)
	case why != "":
		n.rest(ctx, s, why, nil)
	case stopped != nil:
		n.stepOut(ctx, s, stopped.Err)
	default:
		n.dropStrangers(ctx, s)
	}
}

// whyLeave says why the node has to leave its cluster, "" while it has not.
func (n *Node) whyLeave(s *seat) string {
	switch {
	case !s.welcome(s.credentials.self):
		return endRemoved
	case s.fsm.state.Load().Dissolved:
		return endDissolved
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ending.UUID != s.credentials.uuid {
		return ""
	}
	return n.ending.Why
}

// dropStrangers ends the connections of those who are members no more.
func (n *Node) dropStrangers(ctx context.Context, s *seat) {
	if n.take(ctx) != nil {
		return
	}
	defer n.giveBack()
	if n.port != nil {
		n.port.cut(func(uuid string, from *presented) bool { return uuid == s.credentials.uuid && !s.trusts(from) })
	}
	gone := func(to ref) bool { return !s.welcome(to) || s.disowned(to) }
	s.streams.cut(gone)
	s.layer.out.cut(gone)
	s.exchange.cut(gone)
	s.asking.cut(gone)
	s.nudge()
}

// stepOut leaves the consensus, and not the cluster, for a while: a change cannot
// be applied here.
func (n *Node) stepOut(ctx context.Context, s *seat, cause error) {
	if n.take(ctx) != nil {
		return
	}
	defer n.giveBack()
	if n.seat.Load() == s {
		n.setTrouble(cause.Error())
		n.standUp(ctx)
		n.nudge()
	}
}

// revive has a node take part again that could not, after a while.
func (n *Node) revive(ctx context.Context) {
	n.mu.Lock()
	trouble := n.errmsg
	n.mu.Unlock()
	if trouble == "" {
		return
	}
	pause(ctx, n.options.Timing.Retry)
	if n.take(ctx) != nil {
		return
	}
	defer n.giveBack()
	defer n.nudge()
	id, err := n.loadIdentity()
	if err == nil && id != nil {
		err = n.sitDown(ctx, id)
	}
	if err != nil {
		n.setTrouble(err.Error())
		n.log.Warn("the node still cannot take part in its cluster", "err", err)
		return
	}
	n.setTrouble("")
}

// rest leaves the cluster: what it was is forgotten in one transaction, in which
// a grave may be kept.
func (n *Node) rest(ctx context.Context, s *seat, why string, g *grave) {
	if n.take(ctx) != nil {
		return
	}
	defer n.giveBack()
	if n.seat.Load() != s {
		return
	}
	graves := n.listGraves()
	if g != nil {
		graves = append(slices.Clone(graves), g)
	}
	n.setTrouble("the node is about to leave its cluster")
	n.standUp(ctx)
	changes := forgotten()
	changes[keptGraves] = encodeGraves(graves, n.options.Seal)
	if err := n.store.Clear(changes); err != nil {
		n.setTrouble(err.Error())
		n.log.Error("the node cannot forget its cluster, and tries again", "err", err)
		n.nudge()
		return
	}
	n.setEnding("", "")
	n.setGraves(graves)
	n.setTrouble("")
	n.log.Info("the node has left its cluster", "reason", why)
	n.shutIfDone()
	n.options.Changed()
}

// shutIfDone closes the port where nobody has to be listened to any more. The
// caller has the turn.
func (n *Node) shutIfDone() {
	if n.seat.Load() != nil || len(n.listGraves()) > 0 {
		return
	}
	if err := n.closePort(); err != nil {
		n.log.Warn("the cluster port cannot be closed", "err", err)
	}
}

// bury ends with a dissolved cluster. A leader first gives the others the time to
// learn of it from the log, and tells them.
func (n *Node) bury(ctx context.Context, s *seat) {
	index := s.dissolvedAt.Load()
	if known := s.fsm.state.Load(); known.Dissolved {
		index = known.Index
	}
	if s.raft.State() == raft.Leader {
		n.tellAll(ctx, s.exchange, s.others(), s.credentials.uuid, index)
	}
	others := s.others()
	if len(others) == 0 {
		n.rest(ctx, s, endDissolved, nil)
		return
	}
	id := s.current.Load().withPins(s.fsm.state.Load())
	b, err := n.credentials(id)
	if err != nil {
		n.log.Error("the end of the cluster cannot be told to nodes that are away", "error", err)
		n.rest(ctx, s, endDissolved, nil)
		return
	}
	g := &grave{id: id, credentials: b, until: n.options.Now().Add(mourning), pending: n.unaware(s.credentials.uuid, others), index: index}
	if len(g.pending) > 0 {
		n.log.Info("nodes of the dissolved cluster are told when they come back", "nodes", len(g.pending))
	}
	n.rest(ctx, s, endDissolved, g)
	n.tellGraves(ctx)
}
