package cluster

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// streamLayer is raft's network: the connections of protocolRaft, in both directions.
type streamLayer struct {
	credentials *credentials
	self        raft.ServerAddress
	call        time.Duration // for a connection
	inbox       chan net.Conn

	ctx  context.Context // ended when nothing is connected any more
	stop context.CancelFunc

	out *outbound
}

var _ raft.StreamLayer = (*streamLayer)(nil)

func newStreamLayer(ctx context.Context, b *credentials, self raft.ServerAddress, call time.Duration) *streamLayer {
	l := &streamLayer{credentials: b, self: self, call: call, inbox: make(chan net.Conn), out: newOutbound()}
	l.ctx, l.stop = context.WithCancel(ctx)
	return l
}

// deliver passes a connection to raft. It reports false after Close.
func (l *streamLayer) deliver(conn net.Conn) bool {
	select {
	case l.inbox <- conn:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// Accept returns the next connection.
func (l *streamLayer) Accept() (net.Conn, error) {
	select {
	case conn := <-l.inbox:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Dial connects to a node, and makes sure that it is that node.
func (l *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	to, hostPort, ok := parseServerAddress(address)
	if !ok {
		return nil, fmt.Errorf("%q names no node", address)
	}
	ctx, cancel := context.WithTimeout(l.ctx, min(timeout, l.call)) // then the other side may be there again
	defer cancel()
	conn, err := dial(ctx, l.credentials, to, hostPort, protocolRaft)
	if err != nil {
		return nil, err
	}
	o, ok := l.out.add(conn, to)
	if !ok {
		return nil, fmt.Errorf("connect to node %v: %w", to, net.ErrClosed)
	}
	return o, nil
}

// Close closes the connections that this node has opened, and accepts and opens no more.
func (l *streamLayer) Close() error {
	l.stop()
	l.out.close()
	return nil
}

// address is a node's own, for raft.
type address string

// Network returns the name of the network.
func (address) Network() string { return protocolRaft }

// String returns the address.
func (a address) String() string { return string(a) }

// Addr returns the address by which the other nodes know this one.
func (l *streamLayer) Addr() net.Addr { return address(l.self) }
