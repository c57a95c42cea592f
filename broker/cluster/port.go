package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// Bounds of the cluster port. A connection beyond the first waits until another
// one ends; a request beyond the second keeps its own connection waiting; a
// connection beyond the third is closed.
const (
	maxConns   = 512
	maxServing = 64 // on one connection
	maxData    = 16 // of one node, for data
)

// handshakeTime is how long a connection may take to say who it is.
const handshakeTime = 5 * time.Second

// port is where others reach this node: one listener for all protocols and for
// each cluster that the node is, or was, in. It lets nobody in but nodes with a
// certificate of that cluster.
type port struct {
	listener net.Listener
	log      *slog.Logger

	badge     func(uuid string) *badge                                           // nil where the node has none
	consensus func(b *badge, from ref, conn net.Conn) bool                       // takes a connection of protocolRaft over; false refuses it
	data      func(b *badge, from ref, conn net.Conn) bool                       // takes a connection of protocolData over; false refuses it
	answer    func(ctx context.Context, b *badge, from ref, request frame) frame // answers one request of protocolRPC

	ctx   context.Context // of the answers
	stop  context.CancelFunc
	wg    sync.WaitGroup
	rooms chan struct{}

	mu     sync.Mutex // guards the fields below
	closed bool
	guests map[*guest]struct{}
}

// guest is a connection that somebody opened. It is over when it is closed.
type guest struct {
	net.Conn // with TLS
	raw      net.Conn
	over     func()
	once     sync.Once

	uuid     string // set once it is known, as the two below
	from     ref
	protocol string
}

// Close ends the connection at once: the other side is told nothing that could
// keep this one waiting.
func (g *guest) Close() error {
	err := g.raw.Close()
	g.once.Do(g.over)
	return err
}

// open begins to listen. The caller has set all but what is made here.
func (p *port) open(ctx context.Context, address string) error {
	listening := net.ListenConfig{KeepAliveConfig: keepAlive, Control: func(network, address string, c syscall.RawConn) error {
		return notSilent(ctx, network, address, c)
	}}
	l, err := listening.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("open the cluster port: %w", err)
	}
	p.listener, p.guests, p.rooms = l, map[*guest]struct{}{}, make(chan struct{}, maxConns)
	p.ctx, p.stop = context.WithCancel(ctx)
	p.wg.Go(p.accept)
	return nil
}

func (p *port) accept() {
	for {
		select {
		case p.rooms <- struct{}{}:
		case <-p.ctx.Done():
			return
		}
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of the system's: no descriptor is left, say
			<-p.rooms
			p.log.Warn("a connection to the cluster port cannot be accepted", "err", err)
			pause(p.ctx, 100*time.Millisecond)
			continue
		}
		if g := p.receive(conn); g != nil {
			go p.welcome(g) // counted by receive
		}
	}
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// receive counts a connection, until it is closed.
func (p *port) receive(conn net.Conn) *guest {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		conn.Close()
		<-p.rooms
		return nil
	}
	g := &guest{raw: conn}
	g.over = func() {
		p.mu.Lock()
		delete(p.guests, g)
		p.mu.Unlock()
		<-p.rooms
		p.wg.Done()
	}
	p.guests[g] = struct{}{}
	p.wg.Add(1)
	return g
}

// welcome finds out who is there and what it wants.
func (p *port) welcome(g *guest) {
	b, from, protocol, err := p.identify(g)
	if err != nil {
		p.log.Debug("a connection to the cluster port is refused", "peer", g.raw.RemoteAddr().String(), "err", err)
		g.Close()
		return
	}
	switch protocol {
	case protocolRaft:
		if !p.consensus(b, from, g) {
			g.Close()
		}
	case protocolData:
		if p.crowded(g) || !p.data(b, from, g) {
			g.Close()
		}
	case protocolRPC:
		p.serve(b, from, g)
		g.Close()
	default:
		g.Close()
	}
}

func (p *port) identify(g *guest) (b *badge, from ref, protocol string, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, handshakeTime)
	defer cancel()
	conn := tls.Server(g.raw, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if b = p.badge(hello.ServerName); b == nil {
			return nil, errors.New("the node knows no such cluster")
		}
		return b.server(), nil
	}})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, ref{}, "", err
	}
	cs := conn.ConnectionState()
	if from, err = b.peer(cs); err != nil {
		return nil, ref{}, "", err
	}
	p.mu.Lock()
	g.Conn, g.uuid, g.from, g.protocol = conn, b.uuid, from, cs.NegotiatedProtocol
	p.mu.Unlock()
	return b, from, cs.NegotiatedProtocol, nil
}

// crowded tells whether somebody has too many connections for data, with this
// one.
func (p *port) crowded(g *guest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for other := range p.guests {
		if other.protocol == g.protocol && other.uuid == g.uuid && other.from == g.from {
			n++
		}
	}
	if n > maxData {
		p.log.Warn("a node opens too many connections for data", "node", int(g.from.id))
	}
	return n > maxData
}

// serve answers requests until the connection ends.
func (p *port) serve(b *badge, from ref, g *guest) {
	ctx, cancel := context.WithCancel(p.ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	defer g.Close()
	serving := make(chan struct{}, maxServing)
	var writing sync.Mutex
	for r := bufio.NewReader(g); ; {
		f, err := readFrame(r)
		if err != nil {
			return
		}
		serving <- struct{}{}
		wg.Go(func() {
			defer func() { <-serving }()
			a := p.answerInTime(ctx, b, from, f)
			writing.Lock()
			defer writing.Unlock()
			g.SetWriteDeadline(time.Now().Add(handshakeTime))
			if _, err := g.Write(a.append(nil)); err != nil {
				g.raw.Close()
			}
		})
	}
}

// answerInTime gives an answer the time its request has.
func (p *port) answerInTime(ctx context.Context, b *badge, from ref, f frame) frame {
	const most = uint64(10 * time.Minute / time.Millisecond)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(min(f.number, most))*time.Millisecond)
	defer cancel()
	a := p.answer(ctx, b, from, f)
	a.id = f.id
	return a
}

// cut ends the connections of those who are not to have one any more.
func (p *port) cut(unwanted func(uuid string, from ref) bool) {
	p.mu.Lock()
	var out []*guest
	for g := range p.guests {
		if g.uuid != "" && unwanted(g.uuid, g.from) {
			out = append(out, g)
		}
	}
	p.mu.Unlock()
	for _, g := range out {
		g.raw.Close() // whoever uses it closes it
	}
}

// close ends all connections, and waits for what was begun on them.
func (p *port) close() error {
	err := p.listener.Close()
	p.stop()
	p.mu.Lock()
	p.closed = true
	for g := range p.guests {
		g.raw.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
	return err
}
