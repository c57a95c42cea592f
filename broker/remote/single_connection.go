package remote

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
	"signalbox/broker/mqtt/dial"
)

// singleConnection records whether a broker keeps more than one connection of this service. A
// Mosquitto that uses user names as client ids closes one for the other, and both would be
// made again for ever.
type singleConnection struct {
	checking chan struct{}                  // semaphore of the check
	why      atomic.Pointer[broker.Missing] // why a second connection is not possible; nil if it may be
}

// checkSecondConnection returns an error of kind Unsupported if the broker keeps only one
// connection of this service. This is checked once per session, before the first other
// connection: a short connection must not end the session.
func (b *Broker) checkSecondConnection(ctx context.Context, op string, feature broker.Capability) error {
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
		if s.secondAllowed || !b.endsSession(ctx, s) {
			return nil
		}
		if lost+1 == maxLosses { // the first one may have been chance
			b.recordSingleConnection()
		}
	}
	return b.singleConnectionError(op, feature)
}

// endsSession makes another connection and reports whether the session was lost to it. If none
// can be made, the later user of one will notice.
func (b *Broker) endsSession(ctx context.Context, s *session) bool {
	ctx, cancel := context.WithTimeout(ctx, b.timing.connectTimeout)
	defer cancel()
	conn, f := b.endpoint.Open(ctx, new(dial.Handshake))
	if f != nil {
		return false
	}
	v := &shortConn{conn: newCheckedConn(conn, 1, b.timing.writeTimeout, b.log)}
	defer v.conn.Close()
	defer context.AfterFunc(ctx, func() { v.conn.Close() })()
	if v.handshake(b.connectPacket()) != nil {
		return false
	}
	err := s.barrier(ctx)
	v.write(packets.NewControlPacket(packets.Disconnect)) //nolint:errcheck // it is closed next
	s.secondAllowed = err == nil
	return errors.Is(err, errLost)
}

// recordSingleConnection records that no second connection is possible, until the connection
// is stored anew.
func (b *Broker) recordSingleConnection() {
	b.single.why.Store(&broker.Missing{
		Reason: "the broker ends a connection of " + describeUser(b.username) + " when another one is made, as a Mosquitto does with use_username_as_clientid true",
		Remedy: "let this service in by a listener without that setting, and save the connection again; meanwhile give it a user name that no other client has",
	})
	b.log.Warn("the broker keeps one connection of this service only; what needs more is not offered", "setting", "use_username_as_clientid")
	b.link.removeEmulated(b.single.why.Load())
}

// removeEmulated updates the offer of the last session.
func (l *link) removeEmulated(why *broker.Missing) {
	l.mu.Lock()
	o := l.offered
	l.mu.Unlock()
	o.removeEmulated(why)
}

// removeEmulated removes capabilities that are emulated by further connections, and records
// why.
func (o *offer) removeEmulated(why *broker.Missing) {
	if why == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.missingBy == nil {
		o.missingBy = map[broker.Capability]missingFeature{}
	}
	for _, c := range o.emulated {
		if !slices.Contains(o.caps, c) {
			o.missingBy[c] = missingFeature{reason: why.Reason, remedy: why.Remedy, decided: true}
		}
	}
	o.emulated = nil
}

// singleConnectionError is checkSecondConnection without a check.
func (b *Broker) singleConnectionError(op string, feature broker.Capability) error {
	why := b.single.why.Load()
	if why == nil {
		return nil
	}
	return broker.Missing{Feature: feature, Reason: why.Reason, Remedy: why.Remedy}.Error(op)
}
