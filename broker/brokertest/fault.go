package brokertest

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

type faultAction int

const (
	actionPass faultAction = iota
	actionCutBefore
	actionCutAfter
	actionDrop
	actionHold
	actionGarble
	actionRefuse
)

// fault is what a proxy does to packets of some types; without types, to all.
type fault struct {
	action    faultAction
	kinds     []PacketType
	garbage   []byte
	triggered chan struct{} // closed by trigger
	done      chan struct{} // closed when the fault is no longer in force
	once      sync.Once
}

func newFault(a faultAction, kinds ...PacketType) *fault {
	return &fault{action: a, kinds: kinds, triggered: make(chan struct{}), done: make(chan struct{})}
}

func (f *fault) trigger() { f.once.Do(func() { close(f.triggered) }) }

// triggerBy triggers the fault, unless the packet is unsolicited.
func (f *fault) triggerBy(pkt packet) {
	if !pkt.isUnsolicited() {
		f.trigger()
	}
}

// appliesTo reports whether the fault has that action for such a packet.
func (f *fault) appliesTo(a faultAction, pkt packet) bool {
	return f.action == a && (len(f.kinds) == 0 || slices.Contains(f.kinds, pkt.kind()))
}

// fromClient forwards the client's packet; false ends the link.
func (p *Proxy) fromClient(l *link, pkt packet) bool {
	f := p.current()
	switch {
	case f.appliesTo(actionCutBefore, pkt) && p.consume(f):
		l.cut()
		f.trigger()
		return false
	case f.appliesTo(actionCutAfter, pkt) && p.consume(f):
		l.muted.Store(true)
		if _, err := l.broker.Write(pkt); err == nil {
			l.closeGracefully()
			f.trigger()
		}
		return false
	}
	_, err := l.broker.Write(pkt)
	return err == nil
}

// fromBroker forwards the broker's packet; false ends the link.
func (p *Proxy) fromBroker(l *link, pkt packet) bool {
	f := p.current()
	switch {
	case l.muted.Load():
		return true
	case f.appliesTo(actionDrop, pkt):
		f.triggerBy(pkt)
		return true
	case f.appliesTo(actionGarble, pkt) && !pkt.isUnsolicited() && p.consume(f):
		defer f.trigger()
		pkt = f.garbage
	}
	_, err := l.client.Write(pkt)
	return err == nil
}

// link is one client's connection and the corresponding one to the broker.
type link struct {
	client, broker *net.TCPConn
	muted          atomic.Bool   // the broker's packets are discarded
	done           chan struct{} // closed by cut
	once           sync.Once
}

// cut closes both connections.
func (l *link) cut() {
	l.once.Do(func() {
		l.client.Close()
		l.broker.Close()
		close(l.done)
	})
}

// closeGracefully closes the client's connection, lets the broker read what was sent, and waits
// until the broker has closed its side too.
func (l *link) closeGracefully() {
	l.muted.Store(true)
	l.client.Close()
	l.broker.CloseWrite() //nolint:errcheck // it may be closed already
	<-l.done
}
