package cluster

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
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
	to   memberRef
	of   *outbound
	left atomic.Bool // the outbound has closed it
}

var errLeft = errors.New("the connection was ended, because one of its nodes leaves the cluster or stops")

// Read reads. If the outbound has closed the connection the error is not net.ErrClosed, which some
// users take for a Close of their own, after which they wait for nothing.
func (c *outboundConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.cause(err)
}

// Write writes. Its errors are as those of Read.
func (c *outboundConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.cause(err)
}

func (c *outboundConn) cause(err error) error {
	if err != nil && c.left.Load() {
		return errLeft
	}
	return err
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
	c = &outboundConn{Conn: conn, to: to, of: o}
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
		c.left.Store(true)
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
