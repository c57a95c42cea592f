package cluster

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// layer is the way on which raft reaches other nodes and is reached: the
// connections of protocolRaft.
type layer struct {
	credentials *credentials
	self        raft.ServerAddress
	call        time.Duration // for a connection
	inbox       chan net.Conn

	ctx  context.Context // ended when nothing is connected any more
	stop context.CancelFunc

	out *outbound
}

var _ raft.StreamLayer = (*layer)(nil)

func newLayer(ctx context.Context, b *credentials, self raft.ServerAddress, call time.Duration) *layer {
	l := &layer{credentials: b, self: self, call: call, inbox: make(chan net.Conn), out: newOutbound()}
	l.ctx, l.stop = context.WithCancel(ctx)
	return l
}

// deliver hands a connection to raft. It is false where raft takes none any more.
func (l *layer) deliver(conn net.Conn) bool {
	select {
	case l.inbox <- conn:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// Accept gives the next connection.
func (l *layer) Accept() (net.Conn, error) {
	select {
	case conn := <-l.inbox:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Dial connects to a node, and makes sure that it is that node.
func (l *layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
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

// Close has nothing connected any more, in either direction.
func (l *layer) Close() error {
	l.stop()
	l.out.close()
	return nil
}

// address is a node's own, for raft.
type address string

// Network says what it is an address of.
func (address) Network() string { return protocolRaft }

// String gives the address.
func (a address) String() string { return string(a) }

// Addr gives the address under which others know this node.
func (l *layer) Addr() net.Addr { return address(l.self) }
