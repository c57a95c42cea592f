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
	reasonRemoved   = "removed"
	reasonDissolved = "dissolved"
	reasonLeft      = "left"
)

// departure is the stored decision that a node has to leave its cluster. One for another
// cluster is out of date, and is ignored.
type departure struct {
	UUID         string   `json:"uuid,omitzero"` // of the cluster; "" in files of earlier releases
	Why          string   `json:"why"`
	Acknowledged []NodeID `json:"heard,omitzero"` // nodes that have acknowledged the dissolution
}

// depart stores that the node has to leave its cluster. maintain does it soon, also after a
// restart.
func (s *membership) depart(why string) error { return s.node.depart(s.credentials.uuid, why) }

func (n *Node) depart(uuid, why string) error {
	if s := n.membership.Load(); s != nil && s.credentials.uuid != uuid {
		return nil
	}
	text, err := json.Marshal(departure{uuid, why, n.acknowledgedBy(uuid)})
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	if err := n.store.Update(raftlog.Changes{nameDeparture: text}); err != nil {
		return err
	}
	n.setDeparture(uuid, why)
	n.notify()
	return nil
}

func (n *Node) setDeparture(uuid, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.departure = departure{UUID: uuid, Why: why}
}

// loadDeparture loads what depart has stored.
func (n *Node) loadDeparture(uuid string) error {
	text, err := n.store.Value(nameDeparture)
	if err != nil || text == nil {
		return err
	}
	var e departure
	if err := json.Unmarshal(text, &e); err != nil {
		return fmt.Errorf("read why the node has to leave its cluster: %w", err)
	}
	if e.UUID != "" && e.UUID != uuid {
		return nil
	}
	for _, id := range e.Acknowledged {
		n.setAcknowledged(uuid, id)
	}
	n.setDeparture(uuid, e.Why)
	return nil
}

// maintain checks the membership until the node is closed.
func (n *Node) maintain(ctx context.Context) {
	tell := time.NewTicker(n.options.Timing.Announce)
	defer tell.Stop()
	for {
		n.checkMembership(ctx)
		select {
		case <-n.wake:
		case <-tell.C:
			n.announceDissolutions(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// checkMembership leaves the cluster if the node is no longer a member, and resumes a suspended
// node.
func (n *Node) checkMembership(ctx context.Context) {
	n.expireTombstones(ctx)
	s := n.membership.Load()
	if s == nil {
		n.resumeSuspended(ctx)
		return
	}
	why, stopped := n.departureReason(s), s.fsm.applyError.Load()
	switch {
	case why == reasonDissolved:
		n.finishDissolution(ctx, s)
	case why != "":
		n.finishDeparture(ctx, s, why, nil)
	case stopped != nil:
		n.suspend(ctx, s, stopped.Err)
	default:
		n.closeRemovedMembers(ctx, s)
	}
}

// departureReason returns why the node has to leave its cluster, "" if it does not.
func (n *Node) departureReason(s *membership) string {
	switch {
	case !s.admits(s.credentials.self):
		return reasonRemoved
	case s.fsm.state.Load().Dissolved:
		return reasonDissolved
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.departure.UUID != s.credentials.uuid {
		return ""
	}
	return n.departure.Why
}

// closeRemovedMembers closes the connections of nodes that are no longer members.
func (n *Node) closeRemovedMembers(ctx context.Context, s *membership) {
	if n.lock(ctx) != nil {
		return
	}
	defer n.unlock()
	if n.port != nil {
		n.port.closeUnwanted(func(uuid string, from *presented) bool { return uuid == s.credentials.uuid && !s.trusts(from) })
	}
	gone := func(to memberRef) bool { return !s.admits(to) || s.reportedRemoved(to) }
	s.streams.closeUnwanted(gone)
	s.streamLayer.out.closeUnwanted(gone)
	s.conns.closeUnwanted(gone)
	s.askConns.closeUnwanted(gone)
	s.notify()
}

// suspend stops taking part in the consensus, without leaving the cluster, because a command
// cannot be applied here.
func (n *Node) suspend(ctx context.Context, s *membership, cause error) {
	if n.lock(ctx) != nil {
		return
	}
	defer n.unlock()
	if n.membership.Load() == s {
		n.setErrMsg(cause.Error())
		n.stopMembership(ctx)
		n.notify()
	}
}

// resumeSuspended makes a suspended node take part again, after Timing.Retry.
func (n *Node) resumeSuspended(ctx context.Context) {
	n.mu.Lock()
	trouble := n.errmsg
	n.mu.Unlock()
	if trouble == "" {
		return
	}
	pause(ctx, n.options.Timing.Retry)
	if n.lock(ctx) != nil {
		return
	}
	defer n.unlock()
	defer n.notify()
	id, err := n.loadIdentity()
	if err == nil && id != nil {
		err = n.startMembership(ctx, id)
	}
	if err != nil {
		n.setErrMsg(err.Error())
		n.log.Warn("the node still cannot take part in its cluster", "error", err)
		return
	}
	n.setErrMsg("")
}

// finishDeparture leaves the cluster: in one transaction it deletes what the node has stored
// about the cluster, and may store a tombstone.
func (n *Node) finishDeparture(ctx context.Context, s *membership, why string, g *tombstone) {
	if n.lock(ctx) != nil {
		return
	}
	defer n.unlock()
	if n.membership.Load() != s {
		return
	}
	all := n.listTombstones()
	if g != nil {
		all = append(slices.Clone(all), g)
	}
	n.setErrMsg("the node is about to leave its cluster")
	n.stopMembership(ctx)
	changes := clearedValues()
	changes[nameTombstones] = encodeTombstones(all, n.options.Seal)
	if why != reasonDissolved || !s.fsm.state.Load().Dissolved { // in the latter case others may have changed something since
		changes[nameLeft] = []byte{1}
	}
	err := s.fsm.flushShared(ctx)
	if err == nil {
		err = n.store.Clear(changes)
	}
	if err != nil {
		n.setErrMsg(err.Error())
		n.log.Error("the data of the node's former cluster cannot be deleted; the node tries again", "error", err)
		n.notify()
		return
	}
	n.setDeparture("", "")
	n.setTombstones(all)
	n.setErrMsg("")
	n.log.Info("the node has left its cluster", "reason", why)
	n.closeUnusedPort()
	n.options.Changed()
}

// closeUnusedPort closes the port unless a membership or a tombstone needs it. The caller
// holds the transition lock.
func (n *Node) closeUnusedPort() {
	if n.membership.Load() != nil || len(n.listTombstones()) > 0 {
		return
	}
	if err := n.closePort(); err != nil {
		n.log.Warn("the cluster port cannot be closed", "error", err)
	}
}

// finishDissolution leaves a dissolved cluster. A leader first announces the dissolution, and
// waits until the others that respond have it from the log.
func (n *Node) finishDissolution(ctx context.Context, s *membership) {
	index := s.dissolvedAt.Load()
	if known := s.fsm.state.Load(); known.Dissolved {
		index = known.Index
	}
	if s.raft.State() == raft.Leader {
		n.announceDissolution(ctx, s.conns, s.others(), s.credentials.uuid, index)
	}
	others := s.others()
	if len(others) == 0 {
		n.finishDeparture(ctx, s, reasonDissolved, nil)
		return
	}
	id := s.current.Load().withPins(s.fsm.state.Load())
	b, err := n.credentials(id)
	if err != nil {
		n.log.Error("the dissolution of the cluster cannot be announced to nodes that are away", "error", err)
		n.finishDeparture(ctx, s, reasonDissolved, nil)
		return
	}
	g := &tombstone{id: id, credentials: b, until: n.options.Now().Add(tombstoneTTL), pending: n.unacknowledged(s.credentials.uuid, others), index: index}
	if len(g.pending) > 0 {
		n.log.Info("nodes of the dissolved cluster are notified when they are back", "nodes", len(g.pending))
	}
	n.finishDeparture(ctx, s, reasonDissolved, g)
	n.announceDissolutions(ctx)
}
