package brokertest

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

type action int

const (
	passing action = iota
	cuttingBefore
	cuttingAfter
	dropping
	holding
	garbling
	refusing
)

// fault is what a proxy does to the packets of some types; without types, to
// all.
type fault struct {
	action  action
	kinds   []PacketType
	garbage []byte
	struck  chan struct{} // closed by strike
	over    chan struct{} // closed when the fault is in force no more
	once    sync.Once
}

func newFault(a action, kinds ...PacketType) *fault {
	return &fault{action: a, kinds: kinds, struck: make(chan struct{}), over: make(chan struct{})}
}

func (f *fault) strike() { f.once.Do(func() { close(f.struck) }) }

// meet notes that the fault has met a packet, which tells nothing where that is unasked.
func (f *fault) meet(pkt packet) {
	if !pkt.unasked() {
		f.strike()
	}
}

// concerns tells whether the fault does that to such a packet.
func (f *fault) concerns(a action, pkt packet) bool {
	return f.action == a && (len(f.kinds) == 0 || slices.Contains(f.kinds, pkt.kind()))
}

// fromClient hands the client's packet to the broker; false ends the link.
func (p *Proxy) fromClient(l *link, pkt packet) bool {
	f := p.current()
	switch {
	case f.concerns(cuttingBefore, pkt) && p.claim(f):
		l.cut()
		f.strike()
		return false
	case f.concerns(cuttingAfter, pkt) && p.claim(f):
		l.muted.Store(true)
		if _, err := l.broker.Write(pkt); err == nil {
			l.hangUp()
			f.strike()
		}
		return false
	}
	_, err := l.broker.Write(pkt)
	return err == nil
}

// fromBroker hands the broker's packet to the client; false ends the link.
func (p *Proxy) fromBroker(l *link, pkt packet) bool {
	f := p.current()
	switch {
	case l.muted.Load():
		return true
	case f.concerns(dropping, pkt):
		f.meet(pkt)
		return true
	case f.concerns(garbling, pkt) && !pkt.unasked() && p.claim(f):
		defer f.strike()
		pkt = f.garbage
	}
	_, err := l.client.Write(pkt)
	return err == nil
}

// link is one client's connection and its counterpart to the broker.
type link struct {
	client, broker *net.TCPConn
	muted          atomic.Bool   // the broker's packets go nowhere any more
	over           chan struct{} // closed by cut
	once           sync.Once
}

// cut ends both connections.
func (l *link) cut() {
	l.once.Do(func() {
		l.client.Close()
		l.broker.Close()
		close(l.over)
	})
}

// hangUp ends the client's connection, lets the broker read what it was sent,
// and waits until the broker has closed its side too.
func (l *link) hangUp() {
	l.muted.Store(true)
	l.client.Close()
	l.broker.CloseWrite() //nolint:errcheck // it may be closed already
	<-l.over
}
