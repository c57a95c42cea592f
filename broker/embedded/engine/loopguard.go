package engine

import (
	"bytes"

	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// SetLoopGuard sets the loop guard, until end is called. It replaces the one before.
func (e *Engine) SetLoopGuard(g messaging.LoopGuard) (end func()) {
	own := &g
	e.loopGuard.Store(own)
	return func() { e.loopGuard.CompareAndSwap(own, nil) }
}

// bridgePropertyPrefix is the encoded name of the user property of bridges.
var bridgePropertyPrefix = append([]byte{0, byte(len(packet.BridgeProperty))}, packet.BridgeProperty...)

// passes reports whether the loop guard admits a message. If the message cannot be stored,
// it is withdrawn from the guard.
func (e *Engine) passes(m *Message, pub *publication) bool {
	g := e.loopGuard.Load()
	if g == nil || len(m.Properties) == 0 || !bytes.Contains(m.Properties, bridgePropertyPrefix) {
		return true
	}
	if !(*g).Admit(m.Topic, m.Properties, m.QoS) {
		return false
	}
	pub.withdraw = func() { (*g).Withdraw(m.Topic, m.Properties) }
	return true
}

// nameFor returns the name of this broker for the CONNACK to a bridge, "" for other clients.
func (e *Engine) nameFor(hello *packet.Connect) string {
	if g := e.loopGuard.Load(); g != nil && hello.Peer != "" {
		return (*g).Identity()
	}
	return ""
}

// toBridge returns the properties of a message for a bridge, nil for the message's own.
func (e *Engine) toBridge(m *Message) []byte {
	if g := e.loopGuard.Load(); g != nil {
		return (*g).Depart(m.Topic, m.Properties, e.Serial(m))
	}
	return nil
}

// Serial returns a number that identifies a message while this process runs, also after
// the message was left in the store and read again, for one or several sessions. Bridges
// distinguish messages by it.
func (e *Engine) Serial(m *Message) uint64 {
	if n := m.serial.Load(); n != 0 {
		return n
	}
	m.serial.CompareAndSwap(0, e.serials.Add(1))
	return m.serial.Load()
}
