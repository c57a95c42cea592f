package embedded

import (
	"fmt"
	"runtime/debug"

	"github.com/mochi-mqtt/server/v2/packets"
)

// connect starts serving an accepted connection.
func (b *Broker) connect(l *link) {
	if !b.registry.open(l, &b.tasks, b.serve) {
		l.Close() //nolint:errcheck // the broker is closing
	}
}

// serve runs a connection from CONNECT to its end.
func (b *Broker) serve(l *link) {
	defer close(l.done)
	defer b.finish(l)
	defer b.survive(l)
	err := b.server.EstablishConnection(fmt.Sprint(l.listener.id), l)
	b.log.Debug("connection ended", "remote", l.RemoteAddr().String(), "error", err)
}

// survive keeps a panic over one connection's packets from ending more than
// that connection. The server decodes some malformed packets out of bounds.
func (b *Broker) survive(l *link) {
	if p := recover(); p != nil {
		b.log.Error("a connection was ended because its packet could not be handled",
			"remote", l.RemoteAddr().String(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}

// finish leaves nothing of a connection behind but the session that waits for
// the client, if it is one that waits.
func (b *Broker) finish(l *link) {
	l.Close() //nolint:errcheck // nothing left to do with it
	b.endRetained(l)
	b.registry.leave(l)
	if l.client == nil {
		return
	}
	kept := l.established.Load() && b.settle(l)
	if l.established.Load() {
		b.meters.leave()
	}
	b.bequeath(l, kept)
	if !kept && l.account != nil {
		l.account.Release()
	}
}

// settle sees to it that the server is done with an established connection, and
// tells whether its session is kept.
func (b *Broker) settle(l *link) (kept bool) {
	if !l.ended {
		b.forsake(l)
	}
	if l.expired {
		return false
	}
	if l.cut.Load() {
		b.dropForbidden(l)
	}
	return true
}

// forsake does what the server does at the end of a connection, where it did
// not get that far.
func (b *Broker) forsake(l *link) {
	l.client.Stop(packets.ErrMalformedPacket)
	p := l.client.Properties
	l.expired = p.ProtocolVersion == 5 && p.Props.SessionExpiryInterval == 0 || p.ProtocolVersion < 5 && p.Clean
	if l.expired {
		b.erase(l)
		b.server.Clients.Delete(l.client.ID)
	}
}

// erase drops what a session holds in the server.
func (b *Broker) erase(l *link) {
	b.server.UnsubscribeClient(l.client)
	l.client.ClearInflights()
}

// bequeath publishes the Will, or keeps it with the session until it is due
// [MQTT-3.1.2-8], and gives the session up.
func (b *Broker) bequeath(l *link, kept bool) {
	w := l.will
	if !l.established.Load() || l.cut.Load() {
		w = nil
	}
	if w == nil {
		b.registry.rest(l, kept, nil, b.now())
		return
	}
	wait := w.wait(l.client.Properties.Props.SessionExpiryInterval)
	if !kept || wait == 0 {
		b.publishWill(w)
		w = nil
	}
	b.registry.rest(l, kept, w, b.now().Add(wait))
}

// expire ends a session that has waited too long. The server leaves its
// subscriptions to whoever uses the client id next; so they are dropped here.
func (b *Broker) expire(l *link) {
	b.meters.expired.Add(1)
	b.erase(l)
	if w := b.registry.expire(l); w != nil {
		b.publishWill(w)
	}
	l.account.Release()
}
