package suite

import (
	"net"
	"runtime"
	"sync"
	"testing"
)

// Network connects the machines of a test, in processes of their own or in this one, which
// have numbers. Paths between them can be cut: data in transit, the end of a connection
// included, stays where it is until the path is healed, and neither side is notified, as
// when a cable is pulled.
type Network struct {
	tasks sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	hosts   map[string]int // numbers of machines by the address that they connect from
	cut     map[Path]bool
	conns   map[net.Conn]bool
	closed  bool
}

// Path is the direction from one machine to another, by numbers.
type Path struct{ From, To int }

// Between returns both paths between two machines.
func Between(a, b int) []Path { return []Path{{a, b}, {b, a}} }

// NewNetwork returns a network without machines. It is closed after the test.
func NewNetwork(t testing.TB) *Network {
	w := &Network{hosts: map[string]int{}, cut: map[Path]bool{}, conns: map[net.Conn]bool{}}
	w.changed = sync.NewCond(&w.mu)
	t.Cleanup(w.Close)
	return w
}

// Attach forwards connections from other machines to the port of a machine, host:port,
// and returns the address that they dial. A machine is identified by the host, which it
// must connect from and have to itself; see Host.
func (w *Network) Attach(t testing.TB, machine int, address string) (advertised string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the loopback interface has one address only, which does not show who connects")
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.hosts[host] = machine
	w.mu.Unlock()
	advertised = Listen(t, func(conn net.Conn) { w.connect(conn, machine, address) })
	t.Cleanup(w.Close) // first, as a connection may be held back
	return advertised
}

// connect forwards a connection until its end. An isolated machine gets none.
func (w *Network) connect(in net.Conn, to int, address string) {
	from, ok := w.sender(in)
	if !ok || !w.await(Path{from, to}) || !w.await(Path{to, from}) {
		return
	}
	out, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	w.Forward(in, out, from, to)
}

func (w *Network) sender(conn net.Conn) (number int, known bool) {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	w.mu.Lock()
	defer w.mu.Unlock()
	number, known = w.hosts[host]
	return number, known && err == nil
}

// Forward copies data between a connection of the machine from and one of the machine to,
// in both directions, until either ends, and closes both.
func (w *Network) Forward(fromConn, toConn net.Conn, from, to int) {
	defer toConn.Close()
	defer fromConn.Close()
	if !w.add(fromConn, toConn) {
		return
	}
	defer w.remove(fromConn, toConn)
	var both sync.WaitGroup
	both.Go(func() { w.pump(toConn, fromConn, Path{from, to}) })
	both.Go(func() { w.pump(fromConn, toConn, Path{to, from}) })
	both.Wait()
}

// ForwardInBackground forwards like Forward, and returns at once. Close waits for its end.
func (w *Network) ForwardInBackground(fromConn, toConn net.Conn, from, to int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		fromConn.Close()
		toConn.Close()
		return
	}
	w.tasks.Go(func() { w.Forward(fromConn, toConn, from, to) })
}

func (w *Network) add(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range conns {
		w.conns[conn] = true
	}
	return !w.closed
}

func (w *Network) remove(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range conns {
		delete(w.conns, conn)
	}
}

// pump copies one direction. Its end ends the other one.
func (w *Network) pump(dst, src net.Conn, on Path) {
	defer dst.Close()
	defer src.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := src.Read(b)
		if !w.await(on) {
			return
		}
		if _, failed := dst.Write(b[:n]); err != nil || failed != nil {
			return
		}
	}
}

// await waits while a path is cut. It returns false once the network is closed.
func (w *Network) await(on Path) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.cut[on] && !w.closed {
		w.changed.Wait()
	}
	return !w.closed
}

// IsCut reports whether a path is cut.
func (w *Network) IsCut(on Path) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[on]
}

// Cut cuts paths.
func (w *Network) Cut(paths ...Path) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, on := range paths {
		w.cut[on] = true
	}
}

// Heal undoes cuts: those of paths, or all if none is given.
func (w *Network) Heal(paths ...Path) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(paths) == 0 {
		clear(w.cut)
	}
	for _, on := range paths {
		delete(w.cut, on)
	}
	w.changed.Broadcast()
}

// Close closes all connections and waits until they are.
func (w *Network) Close() {
	w.mu.Lock()
	w.closed = true
	w.changed.Broadcast()
	for conn := range w.conns {
		conn.Close()
	}
	w.mu.Unlock()
	w.tasks.Wait()
}
