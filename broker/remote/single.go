package remote

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
)

// singleConnection is what is known of whether a broker keeps more than one connection
// of this service. A Mosquitto that takes user names for client ids ends one for the
// other, and this service would make each again for ever.
type singleConnection struct {
	checking chan struct{}                  // full while somebody finds out
	why      atomic.Pointer[broker.Missing] // why there must be no second one; nil where there may be
}

// maySecond returns an error of kind Unsupported where the broker keeps one connection
// of this service only. With each session that is found out once, before the first other
// connection is made: a further one is made for a moment, and must not cost the session.
func (b *Broker) maySecond(ctx context.Context, op string, feature broker.Capability) error {
	select {
	case b.single.checking <- struct{}{}:
	case <-ctx.Done():
		return b.unavailable(op, ctx.Err())
	}
	defer func() { <-b.single.checking }()
	for lost := 0; b.single.why.Load() == nil; lost++ {
		s, err := b.link.current(ctx)
		if err != nil {
			return b.unavailable(op, err)
		}
		if s.second || !b.costsSession(ctx, s) {
			return nil
		}
		if lost+1 == maxLosses { // the first one may have been chance
			b.noteSingle()
		}
	}
	return b.knownSingle(op, feature)
}

// costsSession makes another connection for a moment and reports whether the session was
// lost to it. Where none can be made, whoever needs one will find out.
func (b *Broker) costsSession(ctx context.Context, s *session) bool {
	ctx, cancel := context.WithTimeout(ctx, b.timing.connect)
	defer cancel()
	conn, f := b.endpoint.Open(ctx, new(atomic.Bool))
	if f != nil {
		return false
	}
	v := &visit{wire: newWire(conn, 1, b.timing.write, b.log)}
	defer v.wire.Close()
	defer context.AfterFunc(ctx, func() { v.wire.Close() })()
	if v.greet(b.credentials()) != nil {
		return false
	}
	err := s.fence(ctx)
	v.write(packets.NewControlPacket(packets.Disconnect)) //nolint:errcheck // it is closed next
	s.second = err == nil
	return errors.Is(err, errLost)
}

// noteSingle notes that there must be no second connection, until the connection is
// stored anew.
func (b *Broker) noteSingle() {
	b.single.why.Store(&broker.Missing{
		Reason: "the broker ends a connection of " + whom(b.username) + " when another one is made, as a Mosquitto does with use_username_as_clientid true",
		Remedy: "let this service in by a listener without that setting, and save the connection again; meanwhile give it a user name that no other client has",
	})
	b.log.Warn("the broker keeps one connection of this service only; what needs more is not offered", "setting", "use_username_as_clientid")
	b.link.isSingle(b.single.why.Load())
}

// isSingle has the offer of the last session say what must not be made up.
func (l *link) isSingle(why *broker.Missing) {
	l.mu.Lock()
	o := l.offered
	l.mu.Unlock()
	o.isSingle(why)
}

// isSingle withdraws what is made up over further connections, and notes why.
func (o *offer) isSingle(why *broker.Missing) {
	if why == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lacked == nil {
		o.lacked = map[broker.Capability]lack{}
	}
	for _, c := range o.made {
		if !slices.Contains(o.caps, c) {
			o.lacked[c] = lack{reason: why.Reason, remedy: why.Remedy, decided: true}
		}
	}
	o.made = nil
}

// knownSingle is maySecond as far as it is known.
func (b *Broker) knownSingle(op string, feature broker.Capability) error {
	why := b.single.why.Load()
	if why == nil {
		return nil
	}
	return broker.Missing{Feature: feature, Reason: why.Reason, Remedy: why.Remedy}.Error(op)
}
