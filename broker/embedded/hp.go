package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/embedded/cluster/mesh/backlog"
	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/store"
	"signalbox/broker/storage"
)

// peering connects the nodes of an HP cluster, which all serve clients: it forwards
// messages to the nodes with subscribers, and keeps a client id at one node only.
type peering struct {
	mesh    *mesh.Mesh
	claims  *sessions.Coordinator
	backlog *backlog.Store
}

// shareRetained makes this broker serve clients together with the other nodes, with
// retained messages agreed upon.
func (m *member) shareRetained(ctx context.Context) error {
	m.broker.engine.AgreeRetained(true)
	if err := m.broker.replica.Share(ctx, m); err != nil {
		m.broker.engine.AgreeRetained(false)
		return err
	}
	return nil
}

// diskLow reports whether less is free on the disk of the cluster's files than should be.
func (m *member) diskLow() bool {
	free := storage.DiskFree(m.dir)
	return free >= 0 && free < m.broker.config.Cluster.MinFreeDisk
}

// connectPeers keeps links to the cluster's other members, and closes those to former ones.
func (m *member) connectPeers(ctx context.Context, info cluster.Info) error {
	t := m.peering.Load()
	if t == nil {
		b := m.broker
		stored, err := backlog.Open(ctx, filepath.Join(m.dir, "backlog.db"), info.UUID, b.log)
		if err != nil {
			return err
		}
		t = &peering{backlog: stored}
		t.mesh = mesh.New(mesh.Options{
			Self: int(info.Self), Engine: b.engine, Net: network{m.node}, ClockOffset: m.offsets.of, Losses: m.losses, Log: b.log, IdleTimeout: b.config.Times.Links,
			Backlog: stored, MaxBacklog: b.config.Cluster.MaxBacklog, DiskLow: m.diskLow, Generation: network{m.node}.generation,
		})
		t.claims = sessions.New(sessions.Options{
			Self: int(info.Self), Engine: b.engine, Net: network{m.node}, ClockOffset: m.offsets.of, Flush: t.mesh.Flush, Log: b.log, RequestTimeout: b.config.Times.Claims,
			Discarded: func(node, messages int) { m.losses.Add(mesh.LostSuperseded, node, messages) },
		})
		t.claims.Open()
		m.peering.Store(t)
	}
	var others []int
	for _, n := range info.Nodes {
		if n.NodeID != info.Self {
			others = append(others, int(n.NodeID))
		}
	}
	t.mesh.SetPeers(others)
	return nil
}

// routesTimeout bounds how long a node that starts waits for the subscriptions of the
// others. It does not wait for nodes that cannot be reached.
const routesTimeout = 5 * time.Second

// awaitRoutes waits until this node knows where to forward messages, before its first
// client can publish any: it would otherwise acknowledge messages that reach no subscriber.
func (m *member) awaitRoutes(ctx context.Context) error {
	if m.sharing() != sharesRetained {
		return nil
	}
	if err := m.reconcile(ctx); err != nil {
		return err
	}
	if t := m.peering.Load(); t != nil {
		ctx, cancel := context.WithTimeout(ctx, routesTimeout)
		defer cancel()
		t.mesh.WaitForRoutes(ctx)
	}
	return nil
}

// drain moves the sessions of this node to the others before it stops: first those of clients
// that are away, then, after their clients are disconnected, the rest. What has not moved by
// cluster.drain_timeout stays until the node is back.
func (m *member) drain(ctx context.Context) {
	m.drained.end() // administrators do not stay connected any more
	t := m.peering.Load()
	if t == nil || m.sharing() != sharesRetained || m.broker.config.Cluster.DrainTimeout == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.broker.config.Cluster.DrainTimeout)
	defer cancel()
	moved, left := m.moveSessions(ctx, t)
	t.claims.Stop(ctx)
	if moved+left > 0 {
		m.broker.log.Info("the sessions were moved to other nodes, before this one stops", "moved", moved, "left", left)
	}
}

// moveSessions moves the sessions of this node to the others, which it names to the clients that it
// disconnects. It returns how many moved and how many are left.
func (m *member) moveSessions(ctx context.Context, t *peering) (moved, left int) {
	before, _ := t.claims.Drain(ctx)
	m.broker.engine.Refer(m.clientAddresses(ctx))
	m.broker.engine.Redirect(ctx)
	after, left := t.claims.Drain(ctx)
	return before + after, left
}

// backlogTimeout bounds how long a node waits for its disk when it closes the links.
const backlogTimeout = 5 * time.Second

// disconnectPeers closes the links to the other nodes.
func (m *member) disconnectPeers() {
	t := m.peering.Swap(nil)
	if t != nil {
		t.claims.Close()
		t.mesh.Close()
		ctx, cancel := context.WithTimeout(context.Background(), backlogTimeout)
		defer cancel()
		if err := t.backlog.Close(ctx); err != nil {
			m.broker.log.Error("the database of messages for other nodes is not closed", "error", err)
		}
	}
}

// unshareRetained makes this broker serve clients by itself. Messages in flight to other
// nodes are acknowledged to their publishers, as when those nodes are down.
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

// network is the cluster port as seen by mesh and sessions.
type network struct{ node *cluster.Node }

// Peers returns the other nodes, and whether they are known.
func (n network) Peers() (nodes []int, ok bool) {
	others, ok := n.node.Peers()
	for _, p := range others {
		nodes = append(nodes, int(p.NodeID))
	}
	return nodes, ok
}

// generation returns the generation in which a node is a member, 0 if it is not known to be one.
func (n network) generation(node int) uint64 {
	others, _ := n.node.Peers()
	for _, p := range others {
		if int(p.NodeID) == node {
			return p.Generation
		}
	}
	return 0
}

// Ask sends a request about clients to another node.
func (n network) Ask(ctx context.Context, to int, request []byte) ([]byte, error) {
	b, err := n.node.Ask(ctx, cluster.NodeID(to), withKind(askClaims, request))
	if _, refused := errors.AsType[*cluster.RemoteError](err); refused {
		err = fmt.Errorf("%w: %w", sessions.ErrRefused, err)
	}
	return b, err
}

// Dial opens a link to another node.
func (n network) Dial(ctx context.Context, to int) (net.Conn, error) {
	return n.node.Dial(ctx, cluster.NodeID(to))
}

// accept accepts a link from another node.
func (m *member) accept(from cluster.NodeID, conn net.Conn) {
	if t := m.peering.Load(); t != nil {
		t.mesh.Accept(int(from), conn)
		return
	}
	conn.Close() // the other node retries
}

// applyRetained applies retained messages to this node.
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

// retainTimeout bounds how long the publisher of a retained message waits for the cluster.
const retainTimeout = 5 * time.Second

// Retain proposes retained messages to the cluster.
func (m *member) Retain(ctx context.Context, changes []byte) error {
	ctx, cancel := context.WithTimeout(ctx, retainTimeout)
	defer cancel()
	select {
	case <-m.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, err := m.node.Forward(ctx, withKind(kindRetained, changes)); err != nil {
		return fmt.Errorf("the cluster accepts no retained messages at the moment: %w", err)
	}
	return nil
}
