package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// Link carries messages to another node. Its methods are called on the goroutines of
// publishers.
type Link interface {
	// Take queues a message. The calls are in the order of each publisher and, for
	// retained messages, in the order of all. It must not block.
	Take(m *Message, c Forward)
	// Backlog returns the number of queued messages, and reports whether the queue is
	// more than half full.
	Backlog() (messages int, half bool)
	// WaitForCapacity waits while the queue is more than half full and makes progress.
	WaitForCapacity()
}

// Forward is the recipients of a message at another node.
type Forward struct {
	Direct bool     // all non-shared subscribers
	Shares []string // one member of each of these shared subscriptions
	QoS    byte     // the greatest QoS of its deliveries there
	// Kept means that the message is not lost if the node does not take it, because it is
	// still in a queue here.
	Kept bool
	// Temporary means that the message need not outlive the node: the sessions that get it
	// above QoS 0 end with their connections.
	Temporary bool
	// Receipt, if not nil, is called once, when the node has stored the message as far as
	// it must. There is none at QoS 0.
	Receipt Receipt
}

// Receipt is notified of the outcome of a message for whose acknowledgement a sender waits.
type Receipt interface {
	// Committed does not wait. An error means that the message cannot be stored; ErrGone
	// means that the node is unreachable, and publishers no longer wait for it.
	Committed(err error)
}

// ErrGone reports that another node was unreachable for too long, or removed.
var ErrGone = errors.New("the node is unreachable")

// Interest is what the subscribers of one filter need.
type Interest struct {
	QoS       byte // the greatest of the subscriptions
	Away      bool // all members of the shared subscription are disconnected
	Temporary bool // no session that outlives its connection has one above QoS 0
}

// Peer is another node, subscribed here to the filters that have subscribers there. Three
// sessions, which are not clients, represent it in the index: one for shared subscriptions
// whose members are all disconnected, one for what is temporary, one for all others. So
// matching, routes and the turns of shared subscriptions are the same code as for clients.
type Peer struct {
	engine                   *Engine
	link                     Link
	linked                   atomic.Bool
	lost                     atomic.Bool // unreachable for too long
	present, temporary, away *Session

	mu      sync.Mutex // guards what follows; held while calling the index
	routes  map[string]announced
	renewal uint64 // of the full table, counted by Renew
	removed bool
}

// announced is an Interest, and the latest renewal of the table that contained it.
type announced struct {
	Interest
	renewal uint64
}

// AddPeer adds another node, at first without subscriptions.
func (e *Engine) AddPeer(name string, l Link) *Peer {
	p := &Peer{engine: e, link: l, routes: map[string]announced{}}
	p.present = &Session{engine: e, peer: p, clientID: name}
	p.temporary = &Session{engine: e, peer: p, clientID: name}
	p.away = &Session{engine: e, peer: p, clientID: name}
	e.changePeers(func(all []*Peer) []*Peer { return append(all, p) })
	return p
}

func (e *Engine) changePeers(change func([]*Peer) []*Peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*Peer
	if old := e.peers.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = change(all)
	e.peers.Store(&all)
}

// Remove removes the node and its subscriptions.
func (p *Peer) Remove() {
	p.mu.Lock()
	p.removed = true
	for filter := range p.routes {
		p.drop(filter)
	}
	p.mu.Unlock()
	p.engine.changePeers(func(all []*Peer) []*Peer {
		return slices.DeleteFunc(all, func(other *Peer) bool { return other == p })
	})
}

// SetLinked sets whether the node can be reached. While it cannot, the members of shared
// subscriptions there count as disconnected.
func (p *Peer) SetLinked(linked bool) {
	p.linked.Store(linked)
	if linked {
		p.lost.Store(false)
	}
}

// Lose marks the node as lost until it is linked again: temporary subscribers there do not
// count as matching subscribers, and members there of a shared subscription are chosen only if
// it has no others. Its link is still given messages, to store or to count them.
func (p *Peer) Lose() { p.lost.Store(true) }

// enter adds a subscription to the index. mu is held.
func (p *Peer) enter(filter string, i Interest) {
	p.engine.index.Subscribe(filter, p.stands(i), topics.Options{QoS: i.QoS, RetainAsPublished: true})
}

// Announce sets the Interest of the node in a filter, and reports whether it has changed. An
// invalid filter is ignored.
func (p *Peer) Announce(filter string, i Interest) (changed bool) {
	if !packet.ValidFilter(filter) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.removed {
		return false
	}
	old, had := p.routes[filter]
	if had && old.Interest == i {
		p.routes[filter] = announced{i, p.renewal}
		return false
	}
	p.routes[filter] = announced{i, p.renewal}
	p.enter(filter, i)
	if had && p.stands(old.Interest) != p.stands(i) {
		p.engine.index.Unsubscribe(filter, p.stands(old.Interest))
	}
	return true
}

// stands returns the session that represents the node in the index.
func (p *Peer) stands(i Interest) *Session {
	switch {
	case i.Away:
		return p.away
	case i.Temporary:
		return p.temporary
	}
	return p.present
}

// Withdraw removes a filter that has no subscribers at the node any more.
func (p *Peer) Withdraw(filter string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(filter)
}

// drop removes a filter. mu is held.
func (p *Peer) drop(filter string) {
	if old, had := p.routes[filter]; had {
		p.engine.index.Unsubscribe(filter, p.stands(old.Interest))
		delete(p.routes, filter)
	}
}

// Renew begins a full table of the node's filters. Prune, at its end, removes those that
// were not announced since.
func (p *Peer) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewal++
}

// Prune removes the filters that were not announced since Renew, and returns them.
func (p *Peer) Prune() (dropped []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for filter, a := range p.routes {
		if a.renewal != p.renewal {
			p.drop(filter)
			dropped = append(dropped, filter)
		}
	}
	return dropped
}

// Routes returns the number of filters that have subscribers at the node.
func (p *Peer) Routes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.routes)
}

// presence is Session.presence for a session that represents the node.
func (p *Peer) presence(s *Session) (present, keeps bool) {
	return s != p.away && p.linked.Load(), true
}

// backlog is Session.backlog for a session that represents the node.
func (p *Peer) backlog() (messages int, half bool) {
	if !p.linked.Load() {
		return 0, false
	}
	return p.link.Backlog()
}

// absence is how far the subscribers that a session stands for are out of reach.
type absence int

const (
	reachable absence = iota
	lost              // their node is lost
	ended             // so is their node, with which their sessions end
)

func (s *Session) absence() absence {
	switch {
	case s.peer == nil || !s.peer.lost.Load():
		return reachable
	case s == s.peer.temporary:
		return ended
	}
	return lost
}

// Reassign sends a message to other members of shared subscriptions that have no member at
// the node any more. It returns those that have no other member.
func (p *Peer) Reassign(m *Message, shares []string, receipt Receipt) (left []string) {
	e, pub := p.engine, p.engine.newPublication()
	pub.receipt = receipt
	m = m.clone()
	var touched []*Conn
	var chosen []sharedTarget
	left = slices.Clone(shares)
	for _, g := range e.index.Match(m.Topic).Groups {
		if !slices.Contains(shares, g.Filter) {
			continue
		}
		c, taker := e.routeShared(g, m, p.isNot, pub, &touched)
		if taker == byPeer {
			chosen = append(chosen, c)
		}
		if taker != byNone {
			left = slices.DeleteFunc(left, func(share string) bool { return share == g.Filter })
		}
	}
	e.forward(m, false, nil, chosen, pub)
	for _, c := range touched {
		c.flush()
	}
	if !pub.storeAny() && receipt != nil {
		receipt.Committed(nil)
	}
	return left
}

func (p *Peer) isNot(s *Session) bool { return s.peer != p }

// isPeerBehind reports whether the queue of a link is more than half full.
func (e *Engine) isPeerBehind() bool {
	peers := e.peers.Load()
	return peers != nil && slices.ContainsFunc(*peers, func(p *Peer) bool {
		_, half := p.backlog()
		return half
	})
}

// awaitPeerCapacity waits while the queue of a link is more than half full.
func (e *Engine) awaitPeerCapacity() {
	peers := e.peers.Load()
	if peers == nil {
		return
	}
	for _, p := range *peers {
		if _, half := p.backlog(); half {
			p.link.WaitForCapacity()
		}
	}
}
