package embedded

import (
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
)

// testNetwork is the connections between the cluster ports of nodes. Pairs of nodes can be
// partitioned: data in transit between them stays where it is, and neither node is
// notified, as when a cable is pulled.
type testNetwork struct {
	t *testing.T

	mu     sync.Mutex // guards what follows
	parted map[[2]int]chan struct{}
	conns  map[net.Conn][2]int
	closed bool
}

func newWires(t *testing.T) *testNetwork {
	w := &testNetwork{t: t, parted: map[[2]int]chan struct{}{}, conns: map[net.Conn][2]int{}}
	t.Cleanup(w.close)
	return w
}

// attach routes the connections to a node through this network. A connecting node is
// identified by its address.
func (w *testNetwork) attach(n *node) {
	_, port, _ := net.SplitHostPort(n.config.Cluster.Listen)
	n.config.Cluster.Listen = net.JoinHostPort("127.0.0."+strconv.Itoa(100+n.at.NodeID), port)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { l.Close() })
	n.at.Port = l.Addr().(*net.TCPAddr).Port
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			from := int(conn.RemoteAddr().(*net.TCPAddr).IP.To4()[3]) - 100
			go w.forward(pairOf(from, n.at.NodeID), conn, n.config.Cluster.Listen)
		}
	}()
}

func pairOf(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

// forward forwards one connection.
func (w *testNetwork) forward(pair [2]int, in net.Conn, to string) {
	defer in.Close()
	if !w.note(pair, in) {
		return
	}
	defer w.forget(in)
	w.await(pair)
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	go func() {
		w.pump(pair, in, out)
		in.Close()
		out.Close()
	}()
	w.pump(pair, out, in)
}

func (w *testNetwork) note(pair [2]int, c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.conns[c] = pair
	}
	return !w.closed
}

func (w *testNetwork) forget(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

// await waits until two nodes are not partitioned.
func (w *testNetwork) await(pair [2]int) {
	w.mu.Lock()
	joined := w.parted[pair]
	w.mu.Unlock()
	if joined != nil {
		<-joined
	}
}

func (w *testNetwork) pump(pair [2]int, from io.Reader, to io.Writer) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.await(pair)
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// partition separates two nodes.
func (w *testNetwork) partition(a, b int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parted[pairOf(a, b)] == nil {
		w.parted[pairOf(a, b)] = make(chan struct{})
	}
}

// heal reconnects them.
func (w *testNetwork) heal(a, b int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.parted[pairOf(a, b)]; c != nil {
		close(c)
		delete(w.parted, pairOf(a, b))
	}
}

// isolate partitions a node from all others, or reconnects it.
func (w *testNetwork) isolate(all nodes, n *node, apart bool) {
	for _, other := range all {
		if apart && other != n {
			w.partition(n.at.NodeID, other.at.NodeID)
		} else if other != n {
			w.heal(n.at.NodeID, other.at.NodeID)
		}
	}
}

func (w *testNetwork) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, c := range w.parted {
		close(c)
	}
	clear(w.parted)
	for c := range w.conns {
		c.Close()
	}
}
