package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
)

// Peers returns the other members, in order of their ids. At rest it returns false: the
// members are not known then.
func (n *Node) Peers() (others []Member, ok bool) {
	s := n.membership.Load()
	if s == nil {
		return nil, false
	}
	return s.others(), true
}

// Term returns the term of the consensus, which grows with each election, 0 at rest.
func (n *Node) Term() uint64 {
	s := n.membership.Load()
	if s == nil {
		return 0
	}
	return s.raft.CurrentTerm()
}

// Ask sends a request to the Answer of a given member, which need not lead, and returns its
// response. It uses connections of its own, because a request may take long. After
// ErrUnreachable, ErrBusy and ErrUnknownNode nothing has happened; after ErrUnconfirmed it may
// have been done; a *RemoteError is an error of the Answer.
func (n *Node) Ask(ctx context.Context, to NodeID, request []byte) ([]byte, error) {
	if len(request) > maxPayload {
		return nil, invalid("a request has at most %d bytes", maxPayload)
	}
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	s, m, err := n.peer(to)
	if err != nil {
		return nil, err
	}
	if m.NodeID == s.id.Self.NodeID {
		return n.options.Answer(ctx, m.NodeID, request)
	}
	f, err := s.askConns.ask(ctx, m, callAsk, request)
	switch {
	case errors.Is(err, ErrUnconfirmed), errors.Is(err, ErrBusy):
		return nil, err
	case err != nil: // there was no connection
		return nil, unreachable(to, err)
	}
	switch err := f.err(); {
	case errors.Is(err, ErrNotClustered): // not any more, or not now
		return nil, unreachable(to, err)
	case err != nil:
		return nil, err
	}
	return f.payload, nil
}

// peer returns a member of the cluster.
func (n *Node) peer(id NodeID) (*membership, Member, error) {
	s, err := n.running()
	if err != nil {
		return nil, Member{}, err
	}
	all := append(s.others(), s.id.Self)
	i := slices.IndexFunc(all, func(m Member) bool { return m.NodeID == id })
	if i < 0 {
		return nil, Member{}, fmt.Errorf("node %d: %w", id, ErrUnknownNode)
	}
	return s, all[i], nil
}

// unreachable is an ErrUnreachable with its cause.
func unreachable(id NodeID, cause error) error {
	return fmt.Errorf("%w: node %d: %w", ErrUnreachable, id, cause)
}

// Dial opens a connection to another member, whose Data gets the other end. It is encrypted, and
// both nodes are authenticated. It ends when either node leaves the cluster or closes. A node
// accepts 16 of them from each other node.
func (n *Node) Dial(ctx context.Context, to NodeID) (net.Conn, error) {
	s, m, err := n.peer(to)
	if err != nil {
		return nil, err
	}
	return n.open(ctx, s, m, protocolData)
}

// DialHTTP is Dial for a connection for HTTP, which the HTTP of the other node gets. A node accepts 32 of these from
// each other node, and none if it has no HTTP.
func (n *Node) DialHTTP(ctx context.Context, to NodeID) (net.Conn, error) {
	s, m, err := n.peer(to)
	if err != nil {
		return nil, err
	}
	return n.open(ctx, s, m, protocolHTTP)
}

// open opens a connection for data, MQTT or HTTP.
func (n *Node) open(ctx context.Context, s *membership, to Member, protocol string) (net.Conn, error) {
	if to.NodeID == s.id.Self.NodeID {
		return nil, fmt.Errorf("%w: it is this node", ErrUnknownNode)
	}
	ctx, cancel := context.WithTimeout(ctx, n.options.Timing.Call)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	conn, err := dial(ctx, s.credentials, to.ref(), to.hostPort(), protocol)
	if err != nil {
		return nil, unreachable(to.NodeID, err)
	}
	d, ok := s.streams.add(conn, to.ref())
	if !ok {
		return nil, unreachable(to.NodeID, ErrClosed)
	}
	if !s.admits(d.to) { // it was removed meanwhile
		d.Close()
		return nil, fmt.Errorf("node %d: %w", to.NodeID, ErrUnknownNode)
	}
	return d, nil
}
