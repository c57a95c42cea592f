package systemtest

import (
	"net"
	"runtime"
	"sync"
	"testing"

	"signalbox/scripts/suite"
)

// way is from one machine to another one, by numbers.
type way struct{ from, to int }

// wires lie between the cluster ports of machines. Each machine is known to the
// others by the address of its end of the wires. A way that is cut holds what is
// sent on it, and tells nobody; what is held goes on when the way is mended.
type wires struct {
	group sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	hosts   map[string]int // numbers of machines by where they connect from
	cut     map[way]bool
	open    map[net.Conn]bool
	closed  bool
}

func newWires(t testing.TB) *wires {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the loopback interface has one address only: nobody can tell who connects")
	}
	w := &wires{hosts: map[string]int{}, cut: map[way]bool{}, open: map[net.Conn]bool{}}
	w.changed = sync.NewCond(&w.mu)
	t.Cleanup(w.close)
	return w
}

// lay gives a machine its end of the wires.
func (w *wires) lay(t testing.TB, m *machine) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(suite.Host(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	m.reach = l.Addr().String()
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

func (w *wires) accept(l net.Listener, to int, address string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		w.group.Go(func() { w.connect(in, to, address) })
	}
}

// connect passes a connection on, to the end of it.
func (w *wires) connect(in net.Conn, to int, address string) {
	defer in.Close()
	from, ok := w.note(in)
	if !ok || !w.pass(way{from, to}) || !w.pass(way{to, from}) { // who is cut off gets no connection
		return
	}
	out, err := net.Dial("tcp", address)
	if err != nil {
		w.forget(in)
		return
	}
	defer out.Close()
	if _, ok := w.note(out); !ok {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { w.carry(out, in, way{from, to}) })
	both.Go(func() { w.carry(in, out, way{to, from}) })
	both.Wait()
	w.forget(in, out)
}

// note remembers a connection, and gives the number of the machine that it is
// from.
func (w *wires) note(conn net.Conn) (from int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, false
	}
	w.open[conn] = true
	at, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	return w.hosts[at], err == nil
}

func (w *wires) forget(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range conns {
		delete(w.open, conn)
	}
}

// carry copies one direction. The end of it ends the other one.
func (w *wires) carry(dst, src net.Conn, on way) {
	defer dst.Close()
	defer src.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := src.Read(b)
		if n > 0 {
			if !w.pass(on) {
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

// pass waits while a way is cut. It is false once there are no wires any more.
func (w *wires) pass(on way) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.cut[on] && !w.closed {
		w.changed.Wait()
	}
	return !w.closed
}

// sever cuts ways.
func (w *wires) sever(ways ...way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, on := range ways {
		w.cut[on] = true
	}
}

// mend undoes all cuts.
func (w *wires) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.cut)
	w.changed.Broadcast()
}

func (w *wires) close() {
	w.mu.Lock()
	w.closed = true
	w.changed.Broadcast()
	for conn := range w.open {
		conn.Close()
	}
	w.mu.Unlock()
	w.group.Wait()
}

// away gives the ways from one machine to others, and back gives those to it.
func away(m *machine, others []*machine) (ways []way) {
	for _, o := range others {
		ways = append(ways, way{m.id, o.id})
	}
	return ways
}

func back(m *machine, others []*machine) (ways []way) {
	for _, o := range others {
		ways = append(ways, way{o.id, m.id})
	}
	return ways
}
