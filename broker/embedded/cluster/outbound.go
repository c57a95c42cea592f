package cluster

import (
	"net"
	"sync"
)

// outbound has the connections of one protocol that this node has opened.
type outbound struct {
	mu     sync.Mutex // guards the fields below
	closed bool
	all    map[*outboundConn]struct{}
}

// outboundConn is a connection of an outbound, until it is closed.
type outboundConn struct {
	net.Conn
	to memberRef
	of *outbound
}

// Close ends the connection.
func (c *outboundConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.all, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func newOutbound() *outbound { return &outbound{all: map[*outboundConn]struct{}{}} }

// add adds a connection. After close it closes the connection and returns false.
func (o *outbound) add(conn net.Conn, to memberRef) (c *outboundConn, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		conn.Close()
		return nil, false
	}
	c = &outboundConn{conn, to, o}
	o.all[c] = struct{}{}
	return c, true
}

// closeUnwanted closes the connections to nodes that are no longer members. Their users remove
// them.
func (o *outbound) closeUnwanted(unwanted func(to memberRef) bool) {
	o.mu.Lock()
	var out []*outboundConn
	for c := range o.all {
		if unwanted(c.to) {
			out = append(out, c)
		}
	}
	o.mu.Unlock()
	for _, c := range out {
		c.Conn.Close()
	}
}

// close closes all connections, and those that are added from now on.
func (o *outbound) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.closeUnwanted(func(memberRef) bool { return true })
}
