package cluster

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"

	"signalbox/scripts/suite"
)

// network connects the nodes of a fleet.
type network struct {
	*suite.Network

	mu      sync.Mutex // guards nodes and stopped
	nodes   [16]*Node  // nil where none runs
	stopped [16]bool   // where one has run: connections are refused
}

func newNetwork(t testing.TB) *network { return &network{Network: suite.NewNetwork(t)} }

// set sets which node is reached under an id, nil for none.
func (w *network) set(id NodeID, n *Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[id], w.stopped[id] = n, n == nil
}

// at returns which node is reached under an id, nil for none.
func (w *network) at(id NodeID) *Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[id]
}

// absence returns the error of a connection to a node that does not run.
func (w *network) absence(id NodeID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped[id] {
		return syscall.ECONNREFUSED
	}
	return net.ErrClosed
}

// isolate cuts a node off from all others, mend undoes that.
func (w *network) isolate(id NodeID) { w.Cut(w.around(id)...) }
func (w *network) mend(id NodeID)    { w.Heal(w.around(id)...) }

// around returns the paths between a node and all others.
func (w *network) around(id NodeID) (paths []suite.Path) {
	for other := range w.nodes {
		if NodeID(other) != id {
			paths = append(paths, suite.Between(int(id), other)...)
		}
	}
	return paths
}

// dial connects one node to another one.
func (w *network) dial(ctx context.Context, from NodeID, hostPort string) (net.Conn, error) {
	var to NodeID
	if _, err := fmt.Sscanf(hostPort, "node%d.test:7000", &to); err != nil {
		return nil, err
	}
	if w.IsCut(suite.Path{From: int(from), To: int(to)}) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	n := w.at(to)
	if n == nil {
		return nil, w.absence(to)
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
	w.ForwardInBackground(mine, far, int(from), int(to))
	return near, nil
}
