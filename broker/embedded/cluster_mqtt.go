package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"signalbox/broker"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/engine"
)

// Membership identifies this broker as a node of its cluster, until it leaves: for DialNode of other
// nodes. It is "" in no cluster, and until the node was admitted.
func (b *Broker) Membership() string {
	if b.cluster == nil {
		return ""
	}
	m, err := b.cluster.node.Membership()
	if err != nil {
		return ""
	}
	return string(m)
}

// DialNode opens a connection for MQTT to the broker of another node of this broker's cluster, by its
// Membership. The broker there treats it as its own platform, so it needs no credentials. Its errors are
// a [*broker.Error] of kind Unavailable.
func (b *Broker) DialNode(ctx context.Context, membership string) (net.Conn, error) {
	to := cluster.Membership(membership)
	unavailable := func(cause error, format string, args ...any) error {
		return &broker.Error{Kind: broker.Unavailable, Op: "connect", Msg: fmt.Sprintf(format, args...), Err: cause}
	}
	if b.cluster == nil {
		return nil, unavailable(nil, "this broker has no cluster port: set cluster.listen")
	}
	node := b.cluster.node
	if info, err := node.Info(); err == nil && !info.Shared {
		return nil, unavailable(nil, "the cluster does not share the data of the platform, so the brokers of its nodes are reached with a url and credentials")
	}
	conn, address, err := node.DialMQTT(ctx, to)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, cluster.ErrNotClustered):
		return nil, unavailable(err, "this service is not part of the cluster of node %d any more, and cannot reach the broker there through it: "+
			"store the url, username and password with which it can be reached, or delete the connection", to.NodeID())
	case errors.Is(err, cluster.ErrUnknownNode):
		return nil, unavailable(err, "node %d has left the cluster, and its broker cannot be reached through the cluster any more: "+
			"store the url, username and password with which it can be reached, or delete the connection", to.NodeID())
	case address == "":
		return nil, unavailable(err, "this node does not take part in its cluster at the moment: %v", err)
	}
	return nil, unavailable(err, "node %d cannot be reached at its cluster port %s: check that it runs, that its release is the one of this node, "+
		"and the firewalls between them", to.NodeID(), address)
}

// acceptMQTT serves a connection that the platform of another node has opened with DialNode, if the
// nodes share the data of the platform. In a cluster that does not, each platform has users of its own,
// and none may manage the broker of another one.
func (m *member) acceptMQTT(from cluster.NodeID, conn net.Conn) {
	b := m.broker
	if !m.isPlatform(from) {
		conn.Close()
		return
	}
	if b.Ready(context.Background()) != nil {
		conn.Close()
		return
	}
	s := &engine.Socket{Conn: conn, Protocol: "MQTT", AdminOnly: true, Node: int(from)}
	if at, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		s.IP = at.Addr().Unmap()
	}
	if at, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
		s.Listener = engine.Listener{Port: int(at.Port()), BindAddress: at.Addr().Unmap().String()}
	}
	s.Address = shownAddress(s.IP)
	b.engine.Serve(s)
}

// isPlatform reports whether the platform of another node is this one's, too: if the nodes share the data of the
// platform. While this node is starting it is not; the other node retries.
func (m *member) isPlatform(from cluster.NodeID) bool {
	select {
	case <-m.ready:
	default:
		return false
	}
	info, err := m.node.Info()
	switch {
	case err != nil: // it is leaving
		return false
	case info.Shared && m.sharesData.Load():
		return true
	case info.Shared:
		return false
	}
	m.broker.log.Warn("a node was refused that asks for this one's platform, because the cluster does not share the data of the platform", "node", int(from))
	return false
}
