package brokertest

import (
	"bufio"
	"net"
	"sync"
	"testing"
)

// Proxy is a way to a broker that breaks on demand. It understands plain MQTT
// over TCP, because a fault has to strike between packets: at a PUBLISH, say,
// and not at a ping that happens to come first. It passes everything on until
// it is told otherwise; the fault set last is the one in force.
//
// Each method that sets a fault returns a channel that is closed when the
// fault has struck. A fault that strikes once leaves the proxy passing. None strikes
// at a ping, its answer or a message of $SYS, which may come at any time.
type Proxy struct {
	Addr string // host:port to connect to
	URL  string // mqtt://…

	target string
	ln     net.Listener
	wg     sync.WaitGroup
	gone   chan struct{} // closed when the test is over

	mu       sync.Mutex // guards the fields below; never held during I/O
	fault    *fault
	links    map[*link]struct{}
	accepted int
}

// NewProxy starts a proxy to the broker at target, host:port. When the test is
// over it ends every connection and waits for all it started.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start the proxy: %v", err)
	}
	p := &Proxy{
		Addr: ln.Addr().String(), URL: "mqtt://" + ln.Addr().String(),
		target: target, ln: ln, gone: make(chan struct{}),
		fault: newFault(passing), links: map[*link]struct{}{},
	}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		close(p.gone)
		ln.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Pass takes the fault away; what was held goes on.
func (p *Proxy) Pass() { p.set(newFault(passing)) }

// CutBefore ends the connection at the client's next packet of that type,
// which does not reach the broker.
func (p *Proxy) CutBefore(kind PacketType) <-chan struct{} {
	return p.set(newFault(cuttingBefore, kind))
}

// CutAfter lets the client's next packet of that type reach the broker and
// ends the connection before the broker can answer. The fault has struck when
// the broker has closed its side, having handled what it got.
func (p *Proxy) CutAfter(kind PacketType) <-chan struct{} {
	return p.set(newFault(cuttingAfter, kind))
}

// DropAnswers swallows every PUBLISH from the broker and keeps the connection,
// acknowledgements and pings alive. It has struck when one was swallowed, and
// goes on.
func (p *Proxy) DropAnswers() <-chan struct{} { return p.set(newFault(dropping, Publish)) }

// Silence swallows everything from the broker and keeps the connection open.
func (p *Proxy) Silence() <-chan struct{} { return p.set(newFault(dropping)) }

// Hold keeps everything, in both directions and in order, until another fault
// or Pass is set. It has struck when there is something to hold.
func (p *Proxy) Hold() <-chan struct{} { return p.set(newFault(holding)) }

// Garbage gives the client these bytes in place of the broker's next PUBLISH, of another
// topic than those of $SYS.
func (p *Proxy) Garbage(b []byte) <-chan struct{} {
	f := newFault(garbling, Publish)
	f.garbage = b
	return p.set(f)
}

// Refuse closes new connections as soon as they are there.
func (p *Proxy) Refuse() <-chan struct{} { return p.set(newFault(refusing)) }

// Sever closes new connections as soon as they are there, and ends every connection
// there is now: nothing of what was held passes.
func (p *Proxy) Sever() {
	p.mu.Lock()
	old := p.fault
	p.fault = newFault(refusing)
	p.mu.Unlock()
	p.Cut()
	close(old.over)
}

// Cut ends every connection there is now.
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

// Accepted counts the connections that clients have made so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// set puts a fault in the place of another, whose gate opens.
func (p *Proxy) set(f *fault) <-chan struct{} {
	p.mu.Lock()
	old := p.fault
	p.fault = f
	p.mu.Unlock()
	close(old.over)
	return f.struck
}

func (p *Proxy) current() *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// claim takes a fault that strikes once; only the first gets it.
func (p *Proxy) claim(f *fault) bool {
	p.mu.Lock()
	won := p.fault == f
	if won {
		p.fault = newFault(passing)
	}
	p.mu.Unlock()
	if won {
		close(f.over)
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
		if f := p.current(); f.action == refusing {
			conn.Close()
			f.strike()
			continue
		}
		p.wg.Go(func() { p.serve(conn.(*net.TCPConn)) })
	}
}

// serve joins one client to the broker until either side ends.
func (p *Proxy) serve(client *net.TCPConn) {
	conn, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	l := &link{client: client, broker: conn.(*net.TCPConn), over: make(chan struct{})}
	p.enter(l)
	defer p.leave(l)
	var down sync.WaitGroup
	down.Go(func() {
		p.pump(l, l.broker, p.fromBroker)
		l.cut()
	})
	p.pump(l, l.client, p.fromClient)
	l.hangUp()
	down.Wait()
}

// enter makes the link known to Cut, and cuts it when the test is over already.
func (p *Proxy) enter(l *link) {
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	select {
	case <-p.gone:
		l.cut()
	default:
	}
}

func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// pump hands packets on, one by one, until one side ends or a fault ends it.
func (p *Proxy) pump(l *link, src net.Conn, hand func(*link, packet) bool) {
	r := bufio.NewReader(src)
	for {
		pkt, err := readPacket(r)
		if err != nil || !p.admit(l, pkt) || !hand(l, pkt) {
			return
		}
	}
}

// admit waits while packets are held; false means that the link is over.
func (p *Proxy) admit(l *link, pkt packet) bool {
	for {
		f := p.current()
		if f.action != holding {
			return true
		}
		f.meet(pkt)
		select {
		case <-f.over:
		case <-l.over:
			return false
		}
	}
}
