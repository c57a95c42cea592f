package cluster

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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

// handshakeTime is how long a connection may take to say who it is, where a port has no
// time of its own.
const handshakeTime = 5 * time.Second

// maxFormerPayload bounds the request of a node that is not a member any more.
const maxFormerPayload = 4 << 10

// complaintInterval is how often it is logged at most that nothing is accepted.
const complaintInterval = time.Minute

// port is where others reach this node: one listener for all protocols and for
// each cluster that the node is, or was, in. It lets nobody in but nodes with a
// certificate of that cluster.
type port struct {
	listener net.Listener
	log      *slog.Logger

	credentials func(uuid string) *credentials                                                  // nil where the node has none
	consensus   func(b *credentials, from *presented, conn net.Conn) bool                       // takes a connection of protocolRaft over; false refuses it
	data        func(b *credentials, from *presented, conn net.Conn) bool                       // takes a connection of protocolData over; false refuses it
	answer      func(ctx context.Context, b *credentials, from *presented, request frame) frame // answers one request of protocolRPC

	refusals  *refusals
	handshake time.Duration // for a connection to say who it is, and to take an answer; 0 is handshakeTime

	ctx   context.Context // of the answers
	stop  context.CancelFunc
	wg    sync.WaitGroup
	rooms chan struct{}

	mu     sync.Mutex // guards the fields below
	closed bool
	guests map[*guest]struct{}
	count  uint64 // of all that there were
}

// guest is a connection that somebody opened. It is over when it is closed.
type guest struct {
	net.Conn // with TLS
	raw      net.Conn
	over     func()
	once     sync.Once

	began    uint64 // a number that grows from connection to connection
	uuid     string // set once it is known, as the three below
	from     *presented
	protocol string
	isMember bool
	hasEnded bool // to make room for another connection
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
	p.handshake = cmp.Or(p.handshake, handshakeTime)
	p.ctx, p.stop = context.WithCancel(ctx)
	p.wg.Go(p.accept)
	return nil
}

func (p *port) accept() {
	var complained time.Time // when it was last logged
	for {
		if !p.reserve() {
			return
		}
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of the system's: no descriptor is left, say
			<-p.rooms
			if now := time.Now(); now.Sub(complained) >= complaintInterval {
				complained = now
				p.log.Warn("connections to the cluster port cannot be accepted", "error", err)
			}
			pause(p.ctx, 100*time.Millisecond)
			continue
		}
		if g := p.receive(conn); g != nil {
			go p.welcome(g) // counted by receive
		}
	}
}

// reserve waits until there may be one more connection. Where there are too many, the
// oldest of those that are no member's ends for it, so that members are not kept out by
// others.
func (p *port) reserve() bool {
	select {
	case p.rooms <- struct{}{}:
		return true
	default:
	}
	p.endOldest()
	select {
	case p.rooms <- struct{}{}:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// endOldest ends the oldest connection that is not known to be a member's.
func (p *port) endOldest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var oldest *guest
	for g := range p.guests {
		if !g.isMember && (oldest == nil || g.began < oldest.began) {
			oldest = g
		}
	}
	if oldest != nil {
		oldest.hasEnded = true
		oldest.raw.Close() // whoever uses it closes it
	}
}

var errTooMany = errors.New("there are too many connections to the cluster port, and this one was not a member's")

// causeOf returns why a connection failed: the error that it has shown, or what ended it.
func (p *port) causeOf(g *guest, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.hasEnded {
		return errTooMany
	}
	return err
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
	p.count++
	g := &guest{raw: conn, began: p.count}
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
		p.refuse(g, p.causeOf(g, err))
		g.Close()
		return
	}
	switch protocol {
	case protocolRaft:
		if !p.admitted(b, g) || !p.consensus(b, from, g) {
			p.refuse(g, fmt.Errorf("%w: node %s", errStranger, from.name))
			g.Close()
		}
	case protocolData:
		if p.crowded(g) {
			g.Close()
		} else if !p.admitted(b, g) || !p.data(b, from, g) {
			p.refuse(g, fmt.Errorf("%w: node %s", errStranger, from.name))
			g.Close()
		}
	case protocolRPC:
		if p.admitted(b, g) {
			p.serve(b, from, g)
		} else {
			p.answerOnce(b, from, g)
		}
		g.Close()
	default:
		g.Close()
	}
}

func (p *port) identify(g *guest) (b *credentials, from *presented, protocol string, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.handshake)
	defer cancel()
	conn := tls.Server(g.raw, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if b = p.credentials(hello.ServerName); b == nil {
			return nil, errors.New("the node knows no such cluster")
		}
		return b.server(), nil
	}})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, nil, "", err
	}
	cs := conn.ConnectionState()
	if from, err = b.read(cs); err != nil {
		return nil, nil, "", err
	}
	p.mu.Lock()
	g.Conn, g.uuid, g.from, g.protocol = conn, b.uuid, from, cs.NegotiatedProtocol
	if g.protocol != protocolRPC { // where each request is looked at
		g.Conn = checked{conn, b, from, b.own.Load()}
	}
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
		if other.protocol == g.protocol && other.uuid == g.uuid && other.from.ref == g.from.ref {
			n++
		}
	}
	if n > maxData {
		p.log.Warn("a node opens too many connections for data", "node", int(g.from.id))
	}
	return n > maxData
}

// admitted notes whether a connection is a member's.
func (p *port) admitted(b *credentials, g *guest) bool {
	is := b.isMember(g.from) == nil
	p.mu.Lock()
	defer p.mu.Unlock()
	g.isMember = is
	return is
}

// answerOnce answers one request of a node that was a member once. It may learn of that,
// and not keep anything here waiting.
func (p *port) answerOnce(b *credentials, from *presented, g *guest) {
	g.SetDeadline(time.Now().Add(p.handshake))
	f, err := readFrame(io.LimitReader(g, maxFormerPayload))
	if err != nil {
		return
	}
	a := p.answerInTime(p.ctx, b, from, f)
	if _, err := g.Write(a.append(nil)); err != nil {
		p.log.Debug("a node that was a member cannot be answered", "node", int(from.id), "error", err)
	}
}

// serve answers requests until the connection ends.
func (p *port) serve(b *credentials, from *presented, g *guest) {
	ctx, cancel := context.WithCancel(p.ctx)
	var wg sync.WaitGroup
	defer wg.Wait() // what is answered by then is still written
	defer cancel()
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
			g.SetWriteDeadline(time.Now().Add(p.handshake))
			if _, err := g.Write(a.append(nil)); err != nil {
				g.raw.Close()
			}
		})
	}
}

// answerInTime gives an answer the time its request has.
func (p *port) answerInTime(ctx context.Context, b *credentials, from *presented, f frame) frame {
	const most = uint64(10 * time.Minute / time.Millisecond)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(min(f.number, most))*time.Millisecond)
	defer cancel()
	a := p.answer(ctx, b, from, f)
	a.id = f.id
	return a
}

// cut ends the connections of those who are not to have one any more.
func (p *port) cut(unwanted func(uuid string, from *presented) bool) {
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

// finish ends the connections of a cluster that this node does not take part in any more.
// Requests that were begun are answered before: one may be what this node leaves for, and
// then the other side waits to hear that this one knows.
func (p *port) finish(uuid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for g := range p.guests {
		switch {
		case g.uuid != uuid:
		case g.protocol == protocolRPC:
			g.raw.SetReadDeadline(time.Unix(1, 0)) // no more requests come
		default:
			g.raw.Close() // whoever uses it closes it
		}
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
