package systemtest

import (
	"net"
	"runtime"
	"sync"
	"testing"

	"signalbox/scripts/suite"
)

// path is from one machine to another, by numbers.
type path struct{ from, to int }

// network connects the cluster ports of machines. Each machine advertises the address
// of its proxy. A path that is cut silently holds back what is sent on it, until it is
// healed.
type network struct {
	group sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	hosts   map[string]int // numbers of machines by the address that they connect from
	severed map[path]bool
	open    map[net.Conn]bool
	closed  bool
}

func newNetwork(t testing.TB) *network {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the loopback interface has one address only, which does not show who connects")
	}
	w := &network{hosts: map[string]int{}, severed: map[path]bool{}, open: map[net.Conn]bool{}}
	w.changed = sync.NewCond(&w.mu)
	t.Cleanup(w.close)
	return w
}

// attach starts the proxy of a machine.
func (w *network) attach(t testing.TB, m *machine) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(suite.Host(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	m.advertised = l.Addr().String()
	from, _, err := net.SplitHostPort(m.cluster)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.hosts[from] = m.id
	w.mu.Unlock()
	w.group.Go(func() { w.accept(l, m.id, m.cluster) })
	t.Cleanup(func() { l.Close() })
}

func (w *network) accept(l net.Listener, to int, address string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		w.group.Go(func() { w.connect(in, to, address) })
	}
}

// connect forwards a connection until its end.
func (w *network) connect(in net.Conn, to int, address string) {
	defer in.Close()
	from, ok := w.add(in)
	if !ok || !w.awaitPath(path{from, to}) || !w.awaitPath(path{to, from}) { // an isolated machine gets no connection
		return
	}
	out, err := net.Dial("tcp", address)
	if err != nil {
		w.remove(in)
		return
	}
	defer out.Close()
	if _, ok := w.add(out); !ok {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { w.pump(out, in, path{from, to}) })
	both.Go(func() { w.pump(in, out, path{to, from}) })
	both.Wait()
	w.remove(in, out)
}

// add registers a connection, and returns the number of the machine that it is from.
func (w *network) add(conn net.Conn) (from int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, false
	}
	w.open[conn] = true
	at, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	return w.hosts[at], err == nil
}

func (w *network) remove(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range conns {
		delete(w.open, conn)
	}
}

// pump copies one direction. Its end ends the other one.
func (w *network) pump(dst, src net.Conn, on path) {
	defer dst.Close()
	defer src.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := src.Read(b)
		if n > 0 {
			if !w.awaitPath(on) {
				return
			}
			if _, err := dst.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// awaitPath waits while a path is cut. It returns false once the network is closed.
func (w *network) awaitPath(on path) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.severed[on] && !w.closed {
		w.changed.Wait()
	}
	return !w.closed
}

// cut cuts paths.
func (w *network) cut(paths ...path) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, on := range paths {
		w.severed[on] = true
	}
}

// heal undoes all cuts.
func (w *network) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.severed)
	w.changed.Broadcast()
}

func (w *network) close() {
	w.mu.Lock()
	w.closed = true
	w.changed.Broadcast()
	for conn := range w.open {
		conn.Close()
	}
	w.mu.Unlock()
	w.group.Wait()
}

// outgoing returns the paths from one machine to others, and incoming those to it.
func outgoing(m *machine, others []*machine) (paths []path) {
	for _, o := range others {
		paths = append(paths, path{m.id, o.id})
	}
	return paths
}

func incoming(m *machine, others []*machine) (paths []path) {
	for _, o := range others {
		paths = append(paths, path{o.id, m.id})
	}
	return paths
}
