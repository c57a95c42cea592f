package brokertest

import (
	"bufio"
	"net"
	"sync"
	"testing"
)

// Proxy is a proxy in front of a broker that injects faults. It understands plain MQTT over TCP,
// because a fault applies to certain packets: to a PUBLISH, for example, and not to a ping that
// happens to come first. It forwards everything until a fault is set; the last one is in force.
//
// Each method that sets a fault returns a channel that is closed when the fault has taken effect.
// A fault that takes effect once leaves the proxy forwarding. No fault is triggered by a ping,
// its response or a message of $SYS, which may arrive at any time.
type Proxy struct {
	Addr string // host:port to connect to
	URL  string // mqtt://…

	target string
	ln     net.Listener
	wg     sync.WaitGroup
	done   chan struct{} // closed when the test is over

	mu       sync.Mutex // guards the fields below; never held during I/O
	fault    *fault
	links    map[*link]struct{}
	accepted int
}

// NewProxy starts a proxy for the broker at target, host:port. After the test it closes every
// connection and waits for its goroutines.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start the proxy: %v", err)
	}
	p := &Proxy{
		Addr: ln.Addr().String(), URL: "mqtt://" + ln.Addr().String(),
		target: target, ln: ln, done: make(chan struct{}),
		fault: newFault(actionPass), links: map[*link]struct{}{},
	}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		close(p.done)
		ln.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Pass removes the fault; held packets are forwarded.
func (p *Proxy) Pass() { p.set(newFault(actionPass)) }

// CutBefore closes the connection at the client's next packet of that type, which does not reach
// the broker.
func (p *Proxy) CutBefore(kind PacketType) <-chan struct{} {
	return p.set(newFault(actionCutBefore, kind))
}

// CutAfter forwards the client's next packet of that type and closes the connection before the
// broker can respond. It has taken effect when the broker has closed its side, after processing
// the packet.
func (p *Proxy) CutAfter(kind PacketType) <-chan struct{} {
	return p.set(newFault(actionCutAfter, kind))
}

// DropAnswers discards every PUBLISH from the broker and keeps the connection, acknowledgements
// and pings. It has taken effect when one was discarded, and stays in force.
func (p *Proxy) DropAnswers() <-chan struct{} { return p.set(newFault(actionDrop, Publish)) }

// Silence discards everything from the broker and keeps the connection open.
func (p *Proxy) Silence() <-chan struct{} { return p.set(newFault(actionDrop)) }

// Hold holds everything back, in both directions and in order, until another fault or Pass is
// set. It has taken effect when a packet is held.
func (p *Proxy) Hold() <-chan struct{} { return p.set(newFault(actionHold)) }

// Garbage sends these bytes to the client in place of the broker's next PUBLISH outside $SYS.
func (p *Proxy) Garbage(b []byte) <-chan struct{} {
	f := newFault(actionGarble, Publish)
	f.garbage = b
	return p.set(f)
}

// Refuse closes new connections at once.
func (p *Proxy) Refuse() <-chan struct{} { return p.set(newFault(actionRefuse)) }

// Sever closes all connections, and new ones at once: held packets are discarded.
func (p *Proxy) Sever() {
	p.mu.Lock()
	old := p.fault
	p.fault = newFault(actionRefuse)
	p.mu.Unlock()
	p.Cut()
	close(old.done)
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	live := make([]*link, 0, len(p.links))
	for l := range p.links {
		live = append(live, l)
	}
	p.mu.Unlock()
	for _, l := range live {
		l.cut()
	}
}

// Accepted returns how many connections clients have made.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// set replaces the fault, and releases what the previous one held.
func (p *Proxy) set(f *fault) <-chan struct{} {
	p.mu.Lock()
	old := p.fault
	p.fault = f
	p.mu.Unlock()
	close(old.done)
	return f.triggered
}

func (p *Proxy) current() *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// consume consumes a fault that takes effect once. It reports true to the first caller only.
func (p *Proxy) consume(f *fault) bool {
	p.mu.Lock()
	won := p.fault == f
	if won {
		p.fault = newFault(actionPass)
	}
	p.mu.Unlock()
	if won {
		close(f.done)
	}
	return won
}

func (p *Proxy) accept() {
	for {
		conn, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.accepted++
		p.mu.Unlock()
		if f := p.current(); f.action == actionRefuse {
			conn.Close()
			f.trigger()
			continue
		}
		p.wg.Go(func() { p.serve(conn.(*net.TCPConn)) })
	}
}

// serve forwards between a client and the broker until either side ends.
func (p *Proxy) serve(client *net.TCPConn) {
	conn, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	l := &link{client: client, broker: conn.(*net.TCPConn), done: make(chan struct{})}
	p.register(l)
	defer p.unregister(l)
	var down sync.WaitGroup
	down.Go(func() {
		p.pump(l, l.broker, p.fromBroker)
		l.cut()
	})
	p.pump(l, l.client, p.fromClient)
	l.closeGracefully()
	down.Wait()
}

// register registers the link for Cut, and cuts it if the test is over.
func (p *Proxy) register(l *link) {
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	select {
	case <-p.done:
		l.cut()
	default:
	}
}

func (p *Proxy) unregister(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// pump forwards packets until one side ends or a fault ends the link.
func (p *Proxy) pump(l *link, src net.Conn, forward func(*link, packet) bool) {
	r := bufio.NewReader(src)
	for {
		pkt, err := readPacket(r)
		if err != nil || !p.awaitRelease(l, pkt) || !forward(l, pkt) {
			return
		}
	}
}

// awaitRelease waits while packets are held; false means that the link has ended.
func (p *Proxy) awaitRelease(l *link, pkt packet) bool {
	for {
		f := p.current()
		if f.action != actionHold {
			return true
		}
		f.triggerBy(pkt)
		select {
		case <-f.done:
		case <-l.done:
			return false
		}
	}
}
