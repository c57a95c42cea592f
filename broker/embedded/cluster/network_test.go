package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// network connects the nodes of a fleet. It can be cut between two nodes: what is sent then is
// held, without an error at either, until it is mended.
type network struct {
	fleet   *fleet
	wg      sync.WaitGroup
	changed *sync.Cond

	mu     sync.Mutex // guards the fields below
	cut    map[[2]NodeID]bool
	nodes  [16]*Node // nil where none runs
	conns  map[net.Conn]bool
	closed bool
}

// set sets which station is reached as a node, nil for none.
func (w *network) set(id NodeID, n *Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[id] = n
}

// at returns which station is reached as a node, nil for none.
func (w *network) at(id NodeID) *Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[id]
}

func pair(a, b NodeID) [2]NodeID { return [2]NodeID{min(a, b), max(a, b)} }

// isolate cuts a node off from all others, mend undoes that.
func (w *network) isolate(id NodeID) { w.setCut(id, true) }
func (w *network) mend(id NodeID)    { w.setCut(id, false) }

func (w *network) setCut(id NodeID, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for other := range w.nodes {
		if NodeID(other) != id {
			w.cut[pair(id, NodeID(other))] = cut
		}
	}
	w.changed.Broadcast()
}

// dial connects one node to another one.
func (w *network) dial(ctx context.Context, from NodeID, hostPort string) (net.Conn, error) {
	var to NodeID
	if _, err := fmt.Sscanf(hostPort, "node%d.test:7000", &to); err != nil {
		return nil, err
	}
	w.mu.Lock()
	n, cut := w.nodes[to], w.cut[pair(from, to)]
	w.mu.Unlock()
	if cut {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if n == nil {
		return nil, net.ErrClosed
	}
	addr, err := n.Addr(ctx)
	if err != nil || addr == "" {
		return nil, net.ErrClosed
	}
	far, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	near, mine := net.Pipe()
	w.carry(pair(from, to), mine, far)
	return near, nil
}

// carry passes bytes on in both directions.
func (w *network) carry(p [2]NodeID, a, b net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns == nil {
		w.conns = map[net.Conn]bool{}
	}
	if w.closed {
		a.Close()
		b.Close()
		return
	}
	w.conns[a], w.conns[b] = true, true
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		w.wg.Go(func() {
			defer w.drop(a, b)
			io.Copy(way[1], &held{way[0], w, p})
		})
	}
}

func (w *network) drop(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(w.conns, c)
	}
}

// held is one direction of a connection.
type held struct {
	net.Conn
	network *network
	pair    [2]NodeID
}

// Read returns what was sent while the network is not cut. The end of a connection is held, too.
func (h *held) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	w := h.network
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.cut[h.pair] && !w.closed {
		w.changed.Wait()
	}
	return n, err
}

func (w *network) close() {
	w.mu.Lock()
	w.closed = true
	for c := range w.conns {
		c.Close()
	}
	w.changed.Broadcast()
	w.mu.Unlock()
	w.wg.Wait()
}
