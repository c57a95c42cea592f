package embedded

import (
	"context"
	"fmt"
	"net"
	"time"

	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/store"
)

// peering is what nodes that all serve clients do with each other beside what
// they agree upon: messages go to where somebody is subscribed, and a client id is
// at one node only.
type peering struct {
	mesh   *mesh.Mesh
	claims *sessions.Coordinator
}

// shareRetained has this broker serve clients together with the other nodes. Retained
// messages are agreed upon from then on.
func (m *member) shareRetained(ctx context.Context) error {
	m.broker.engine.AgreeRetained(true)
	if err := m.broker.replica.Share(ctx, m); err != nil {
		m.broker.engine.AgreeRetained(false)
		return err
	}
	return nil
}

// connectPeers makes links to the other nodes, or changes to which, as the cluster's
// members have.
func (m *member) connectPeers(self cluster.NodeID, nodes []cluster.Member) {
	t := m.peering.Load()
	if t == nil {
		b := m.broker
		t = &peering{}
		t.mesh = mesh.New(mesh.Options{Self: int(self), Engine: b.engine, Net: network{m.node}, ClockOffset: m.ahead.of, Losses: m.losses, Log: b.log, IdleTimeout: b.config.Times.Links})
		t.claims = sessions.New(sessions.Options{
			Self: int(self), Engine: b.engine, Net: network{m.node}, ClockOffset: m.ahead.of, Flush: t.mesh.Flush, Log: b.log, RequestTimeout: b.config.Times.Claims,
			Discarded: func(node, messages int) { m.losses.Add(mesh.LostSuperseded, node, messages) },
		})
		t.claims.Open()
		m.peering.Store(t)
	}
	var others []int
	for _, n := range nodes {
		if n.NodeID != self {
			others = append(others, int(n.NodeID))
		}
	}
	t.mesh.SetPeers(others)
}

// hearPatience is how long a node that starts waits for others to tell what is
// subscribed to there. Who cannot be reached is not waited for.
const hearPatience = 5 * time.Second

// hearPeers waits until this node knows where messages are to go, before its first
// client can publish any.
func (m *member) hearPeers(ctx context.Context) error {
	if m.sharing() != sharesRetained {
		return nil
	}
	if err := m.settle(ctx); err != nil {
		return err
	}
	if t := m.peering.Load(); t != nil {
		ctx, cancel := context.WithTimeout(ctx, hearPatience)
		defer cancel()
		t.mesh.WaitForRoutes(ctx)
	}
	return nil
}

// disconnectPeers ends the links to the other nodes.
func (m *member) disconnectPeers() {
	t := m.peering.Swap(nil)
	if t != nil {
		t.claims.Close()
		t.mesh.Close()
	}
}

// unshareRetained has this broker serve clients by itself. Messages that were on
// their way to other nodes are acknowledged to their publishers, as when those
// nodes had gone.
func (m *member) unshareRetained(ctx context.Context) error {
	if t := m.peering.Load(); t != nil {
		t.mesh.SetPeers(nil)
	}
	m.disconnectPeers()
	if err := m.broker.replica.Alone(ctx); err != nil {
		return err
	}
	m.broker.engine.AgreeRetained(false)
	return nil
}

// network is the cluster port as a way to other nodes.
type network struct{ node *cluster.Node }

// Peers gives the other nodes.
func (n network) Peers() (nodes []int) {
	for _, p := range n.node.Peers() {
		nodes = append(nodes, int(p.NodeID))
	}
	return nodes
}

// Ask puts a request about clients to another node.
func (n network) Ask(ctx context.Context, to int, request []byte) ([]byte, error) {
	return n.node.Ask(ctx, cluster.NodeID(to), with(askClaims, request))
}

// Dial opens a link to another node.
func (n network) Dial(ctx context.Context, to int) (net.Conn, error) {
	return n.node.Dial(ctx, cluster.NodeID(to))
}

// accept takes the other end of a link.
func (m *member) accept(from cluster.NodeID, conn net.Conn) {
	if t := m.peering.Load(); t != nil {
		t.mesh.Accept(int(from), conn)
		return
	}
	conn.Close() // it will be tried again
}

// applyRetained makes retained messages those of this node, too.
func (m *member) applyRetained(index uint64, changes []byte) error {
	group, err := store.DecodeChanges(changes)
	if err != nil {
		return fmt.Errorf("read the retained messages of entry %d of the cluster's log: %w", index, err)
	}
	var records []engine.RetainedRecord
	for _, c := range group {
		records = append(records, c.Retained...)
	}
	return m.broker.engine.ApplyRetained(records, func(c *engine.Changes) error {
		return m.broker.store.Apply(index, []*engine.Changes{c})
	})
}

// retainPatience is how long the publisher of a retained message waits for the
// cluster.
const retainPatience = 5 * time.Second

// Retain has retained messages agreed upon.
func (m *member) Retain(ctx context.Context, changes []byte) error {
	ctx, cancel := context.WithTimeout(ctx, retainPatience)
	defer cancel()
	select {
	case <-m.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, err := m.node.Forward(ctx, with(aboutRetained, changes)); err != nil {
		return fmt.Errorf("the cluster takes no retained messages at the moment: %w", err)
	}
	return nil
}
