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

// Bounds of the cluster port. A connection beyond the first waits until another one ends, or the
// oldest that is not a member's is closed for it; a request beyond the second delays further
// requests of its connection; a connection beyond the third or fourth is closed.
const (
	maxConns   = 512
	maxServing = 64 // on one connection
	maxData    = 16 // of one node, for data
	maxMQTT    = 32 // of one node, for MQTT
	maxHTTP    = 32 // of one node, for HTTP
)

// handshakeTime is the default time limit of a handshake.
const handshakeTime = 5 * time.Second

// maxFormerPayload bounds the request of a node that is no longer a member.
const maxFormerPayload = 4 << 10

// acceptLogInterval bounds how often failures to accept are logged.
const acceptLogInterval = time.Minute

// port accepts the connections of other nodes: one listener for all protocols and for
// each cluster that the node is, or was, in. It accepts only nodes with a certificate of
// that cluster.
type port struct {
	listener net.Listener
	log      *slog.Logger

	credentials func(uuid string) *credentials                                                  // for a cluster; nil for an unknown one
	consensus   func(b *credentials, from *presented, conn net.Conn) bool                       // accepts a connection of protocolRaft; false refuses it
	data        func(b *credentials, from *presented, conn net.Conn) bool                       // accepts a connection of protocolData; false refuses it
	mqtt        func(b *credentials, from *presented, conn net.Conn) bool                       // accepts a connection of protocolMQTT; false refuses it
	http        func(b *credentials, from *presented, conn net.Conn) bool                       // accepts a connection of protocolHTTP; false refuses it
	answer      func(ctx context.Context, b *credentials, from *presented, request frame) frame // handles one request of protocolRPC

	refusals  *refusals
	handshake time.Duration // time limit of a handshake, and of writing a response; 0 is handshakeTime

	ctx   context.Context // of the answers
	stop  context.CancelFunc
	wg    sync.WaitGroup
	slots chan struct{}

	mu     sync.Mutex // guards the fields below
	closed bool
	conns  map[*inboundConn]struct{}
	count  uint64 // of all connections since open
}

// inboundConn is a connection that another node has opened.
type inboundConn struct {
	net.Conn // with TLS
	raw      net.Conn
	onClose  func()
	once     sync.Once

	began     uint64 // number of the connection, in order
	uuid      string // of the cluster; set after the handshake, as the three below
	from      *presented
	protocol  string
	isMember  bool
	isEvicted bool // closed in favour of another connection
}

// Close ends the connection at once: without a close_notify alert,
// which could block.
func (g *inboundConn) Close() error {
	err := g.raw.Close()
	g.once.Do(g.onClose)
	return err
}

// open begins to listen. The caller has set the callbacks and options.
func (p *port) open(ctx context.Context, address string) error {
	listening := net.ListenConfig{KeepAliveConfig: keepAlive, Control: func(network, address string, c syscall.RawConn) error {
		return setTCPUserTimeout(ctx, network, address, c)
	}}
	l, err := listening.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("open the cluster port: %w", err)
	}
	p.listener, p.conns, p.slots = l, map[*inboundConn]struct{}{}, make(chan struct{}, maxConns)
	p.handshake = cmp.Or(p.handshake, handshakeTime)
	p.ctx, p.stop = context.WithCancel(ctx)
	p.wg.Go(p.accept)
	return nil
}

func (p *port) accept() {
	var logged time.Time // when it was last logged
	for {
		if !p.reserve() {
			return
		}
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // an error of the system, for example no free descriptor
			<-p.slots
			if now := time.Now(); now.Sub(logged) >= acceptLogInterval {
				logged = now
				p.log.Warn("connections to the cluster port cannot be accepted", "error", err)
			}
			pause(p.ctx, 100*time.Millisecond)
			continue
		}
		if g := p.track(conn); g != nil {
			go p.handle(g) // counted by receive
		}
	}
}

// reserve waits until one more connection may be accepted. Where there are too many, the
// oldest that is not a member's is closed, so that others cannot keep members out.
func (p *port) reserve() bool {
	select {
	case p.slots <- struct{}{}:
		return true
	default:
	}
	p.evictOldest()
	select {
	case p.slots <- struct{}{}:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// evictOldest closes the oldest connection that is not a member's.
func (p *port) evictOldest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var oldest *inboundConn
	for g := range p.conns {
		if !g.isMember && (oldest == nil || g.began < oldest.began) {
			oldest = g
		}
	}
	if oldest != nil {
		oldest.isEvicted = true
		oldest.raw.Close() // its user closes it
	}
}

var errTooMany = errors.New("there are too many connections to the cluster port, and this one was not a member's")

// causeOf returns why a connection failed: its error, or the reason why it was closed.
func (p *port) causeOf(g *inboundConn, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.isEvicted {
		return errTooMany
	}
	return err
}

// pause waits for a duration or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// track adds a connection until it is closed. It returns nil after close.
func (p *port) track(conn net.Conn) *inboundConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		conn.Close()
		<-p.slots
		return nil
	}
	p.count++
	g := &inboundConn{raw: conn, began: p.count}
	g.onClose = func() {
		p.mu.Lock()
		delete(p.conns, g)
		p.mu.Unlock()
		<-p.slots
		p.wg.Done()
	}
	p.conns[g] = struct{}{}
	p.wg.Add(1)
	return g
}

// handle authenticates the node at the other end and serves the protocol that it has chosen.
func (p *port) handle(g *inboundConn) {
	b, from, protocol, err := p.identify(g)
	if err != nil {
		p.refuse(g, p.causeOf(g, err))
		g.Close()
		return
	}
	switch protocol {
	case protocolRaft:
		if !p.admitted(b, g) || !p.consensus(b, from, g) {
			p.refuse(g, fmt.Errorf("%w: node %s", errNotMember, from.name))
			g.Close()
		}
	case protocolData:
		p.accepted(b, g, maxData, p.data)
	case protocolMQTT:
		p.accepted(b, g, maxMQTT, p.mqtt)
	case protocolHTTP:
		p.accepted(b, g, maxHTTP, p.http)
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

func (p *port) identify(g *inboundConn) (b *credentials, from *presented, protocol string, err error) {
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
	if from, err = b.accepted(cs); err != nil {
		return nil, nil, "", err
	}
	p.mu.Lock()
	g.Conn, g.uuid, g.from, g.protocol = conn, b.uuid, from, cs.NegotiatedProtocol
	if g.protocol != protocolRPC { // which checks each request instead
		g.Conn = checked{conn, b, from, b.own.Load()}
	}
	p.mu.Unlock()
	return b, from, cs.NegotiatedProtocol, nil
}

// accepted passes a connection of a member on, unless its node has more than maxConns of this protocol.
func (p *port) accepted(b *credentials, g *inboundConn, maxConns int, pass func(*credentials, *presented, net.Conn) bool) {
	if p.hasTooMany(g, maxConns) {
		g.Close()
	} else if !p.admitted(b, g) || !pass(b, g.from, g) {
		p.refuse(g, fmt.Errorf("%w: node %s", errNotMember, g.from.name))
		g.Close()
	}
}

// hasTooMany reports whether a node has more than maxConns connections of a protocol, including this
// one.
func (p *port) hasTooMany(g *inboundConn, maxConns int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for other := range p.conns {
		if other.protocol == g.protocol && other.uuid == g.uuid && other.from.memberRef == g.from.memberRef {
			n++
		}
	}
	if n > maxConns {
		p.log.Warn("a node opens too many connections of a protocol to the cluster port", "node", int(g.from.id), "protocol", g.protocol, "bound", maxConns)
	}
	return n > maxConns
}

// admitted records whether a connection is a member's.
func (p *port) admitted(b *credentials, g *inboundConn) bool {
	is := b.isMember(g.from) == nil
	p.mu.Lock()
	defer p.mu.Unlock()
	g.isMember = is
	return is
}

// answerOnce handles one request of a removed node, which may only learn of its removal. The
// request is bounded in size and time.
func (p *port) answerOnce(b *credentials, from *presented, g *inboundConn) {
	g.SetDeadline(time.Now().Add(p.handshake))
	f, err := readFrame(io.LimitReader(g, maxFormerPayload))
	if err != nil {
		return
	}
	a := p.answerInTime(p.ctx, b, from, f)
	if _, err := g.Write(a.append(nil)); err != nil {
		p.log.Debug("the request of a removed node cannot be answered", "node", int(from.id), "error", err)
	}
}

// serve handles requests until the connection ends.
func (p *port) serve(b *credentials, from *presented, g *inboundConn) {
	ctx, cancel := context.WithCancel(p.ctx)
	var wg sync.WaitGroup
	defer wg.Wait() // responses are still written
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

// answerInTime handles a request within its time limit.
func (p *port) answerInTime(ctx context.Context, b *credentials, from *presented, f frame) frame {
	const most = uint64(10 * time.Minute / time.Millisecond)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(min(f.number, most))*time.Millisecond)
	defer cancel()
	a := p.answer(ctx, b, from, f)
	a.id = f.id
	return a
}
