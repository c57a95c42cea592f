package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// Link carries messages to another node. Its methods are called on the goroutine
// of whoever publishes.
type Link interface {
	// Take is given a message, in the order of each publisher and, of retained
	// ones, in the order of all. It must not block.
	Take(m *Message, c Forward)
	// Backlog returns how many messages wait for the node, and whether that is more
	// than half of what may.
	Backlog() (messages int, half bool)
	// WaitForCapacity waits while it is more than half, as long as that becomes less.
	WaitForCapacity()
}

// Forward is for whom a message goes to another node.
type Forward struct {
	Direct bool     // for all who are subscribed there by themselves
	Shares []string // for one member each of these shared subscriptions
	QoS    byte     // the greatest it is delivered with there
	// Kept says that the message stays where it is if the node does not take it, so
	// that it is not lost.
	Kept bool
	// Receipt, where it is not nil, is committed once, when the node has stored the
	// message as far as it must. There is none at QoS 0.
	Receipt Receipt
}

// Receipt is notified of the outcome of a message that a sender waits for.
type Receipt interface {
	// Committed does not wait. An error says that the message cannot be stored, or,
	// where it is ErrGone, that nobody waits for the node any longer.
	Committed(err error)
}

// ErrGone says that another node was not reached for too long.
var ErrGone = errors.New("the node is gone")

// Interest is what those who are subscribed to one filter ask for.
type Interest struct {
	QoS  byte // the greatest
	Away bool // of a shared subscription only members are left that are away
}

// Peer is another node as the engine knows it: subscribed to what somebody is
// subscribed to there. Two sessions stand for it in the index, which are no
// clients and never given anything: one for shared subscriptions of which only
// members are left that are away, one for all the rest.
type Peer struct {
	engine        *Engine
	link          Link
	linked        atomic.Bool
	lost          atomic.Bool // it was not reached for too long; its link takes nothing above QoS 0
	present, away *Session

	mu      sync.Mutex // guards what follows; held while calling the index
	routes  map[string]announced
	renewal uint64 // of the whole table
	removed bool
}

// announced is an Interest, and the latest renewal of the table that it was in.
type announced struct {
	Interest
	renewal uint64
}

// AddPeer makes another node known, which has no subscriptions at first.
func (e *Engine) AddPeer(name string, l Link) *Peer {
	p := &Peer{engine: e, link: l, routes: map[string]announced{}}
	p.present = &Session{engine: e, peer: p, clientID: name}
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

// Remove forgets the node, and with it its subscriptions.
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

// SetLinked reports whether the node can be reached at present. While it cannot,
// members of shared subscriptions there count as away.
func (p *Peer) SetLinked(linked bool) {
	p.linked.Store(linked)
	if linked {
		p.lost.Store(false)
	}
}

// Lose has the node treated as lost until it is linked again: publishers are told
// of no subscribers there, and a shared subscription has its members there chosen
// only where it has no others. Its link is given messages all the same, so that
// each that is lost is counted.
func (p *Peer) Lose() { p.lost.Store(true) }

// enter puts a subscription into the index. mu is held.
func (p *Peer) enter(filter string, i Interest) {
	p.engine.index.Subscribe(filter, p.stands(i), topics.Options{QoS: i.QoS, RetainAsPublished: true})
}

// Announce notes what is asked for at the node for a filter, in place of what
// was. A filter that is none is passed over.
func (p *Peer) Announce(filter string, i Interest) {
	if !packet.ValidFilter(filter) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.removed {
		return
	}
	old, had := p.routes[filter]
	p.routes[filter] = announced{i, p.renewal}
	p.enter(filter, i)
	if had && p.stands(old.Interest) != p.stands(i) {
		p.engine.index.Unsubscribe(filter, p.stands(old.Interest))
	}
}

// stands returns the session that stands for the node in the index.
func (p *Peer) stands(i Interest) *Session {
	if i.Away {
		return p.away
	}
	return p.present
}

// Withdraw notes that no client is subscribed to a filter at the node any more.
func (p *Peer) Withdraw(filter string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(filter)
}

// drop forgets what is asked for. mu is held.
func (p *Peer) drop(filter string) {
	if old, had := p.routes[filter]; had {
		p.engine.index.Unsubscribe(filter, p.stands(old.Interest))
		delete(p.routes, filter)
	}
}

// Renew begins a whole table of what is announced by the node: Prune, at its
// end, withdraws what was not in it.
func (p *Peer) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewal++
}

// Prune withdraws what was not announced since Renew.
func (p *Peer) Prune() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for filter, a := range p.routes {
		if a.renewal != p.renewal {
			p.drop(filter)
		}
	}
}

// Routes is the number of filters that a client is subscribed to at the node.
func (p *Peer) Routes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.routes)
}

// presence is that of a session that stands for the node.
func (p *Peer) presence(s *Session) (present, keeps bool) {
	return s == p.present && p.linked.Load(), true
}

// backlog is that of a session that stands for the node.
func (p *Peer) backlog() (messages int, half bool) {
	if !p.linked.Load() {
		return 0, false
	}
	return p.link.Backlog()
}

// isLost reports whether the session stands for a node that was not reached for too
// long.
func (s *Session) isLost() bool { return s.peer != nil && s.peer.lost.Load() }

// Reassign passes a message to other members of shared subscriptions of which the
// node has none any more. It reports whether all of them have another member.
func (p *Peer) Reassign(m *Message, shares []string, receipt Receipt) (all bool) {
	e, pub := p.engine, p.engine.newPublication()
	pub.receipt = receipt
	m = m.again()
	var touched []*Conn
	var chosen []sharedTarget
	taken := 0
	for _, g := range e.index.Match(m.Topic).Groups {
		if !slices.Contains(shares, g.Filter) {
			continue
		}
		c, taker := e.routeShared(g, m, p.isNot, pub, &touched)
		if taker == byPeer {
			chosen = append(chosen, c)
		}
		if taker != byNone {
			taken++
		}
	}
	e.forward(m, false, nil, chosen, pub)
	for _, c := range touched {
		c.flush()
	}
	if !pub.storeAny() && receipt != nil {
		receipt.Committed(nil)
	}
	return taken == len(shares)
}

func (p *Peer) isNot(s *Session) bool { return s.peer != p }

// awaitPeerCapacity waits while too much waits for other nodes.
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
