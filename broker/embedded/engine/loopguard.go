package engine

import (
	"bytes"

	"signalbox/broker/mqtt/packet"
)

// LoopGuard is where messages come in that have crossed bridges between brokers.
// Its methods are called on the goroutines of publishers, of subscribers and of the
// store, Depart with the lock of a session held; they must not block.
type LoopGuard interface {
	// Identity is what this broker is called among bridges.
	Identity() string
	// Admit is given a message of a client with the property of bridges, and reports whether
	// it is to be delivered; it has been here before where not.
	Admit(m *Message) bool
	// Depart returns the properties with which a message goes to a bridge that takes
	// it from here.
	Depart(m *Message) []byte
	// Withdraw takes back the admittance of a message that could not be stored. It
	// will come again.
	Withdraw(m *Message)
}

// SetLoopGuard has a border looked after, until end. There is one at a time: the last.
func (e *Engine) SetLoopGuard(b LoopGuard) (end func()) {
	own := &b
	e.loopGuard.Store(own)
	return func() { e.loopGuard.CompareAndSwap(own, nil) }
}

// bridgePropertyPrefix begins the user property of bridges.
var bridgePropertyPrefix = append([]byte{0, byte(len(packet.BridgeProperty))}, packet.BridgeProperty...)

// passes reports whether a message may come in. One that comes to nothing later is
// withdrawn then.
func (e *Engine) passes(m *Message, pub *publication) bool {
	b := e.loopGuard.Load()
	if b == nil || len(m.Properties) == 0 || !bytes.Contains(m.Properties, bridgePropertyPrefix) {
		return true
	}
	if !(*b).Admit(m) {
		return false
	}
	pub.withdraw = func() { (*b).Withdraw(m) }
	return true
}

// nameFor returns what a bridge that connects is told this broker is called.
func (e *Engine) nameFor(hello *packet.Connect) string {
	if b := e.loopGuard.Load(); b != nil && hello.Peer != "" {
		return (*b).Identity()
	}
	return ""
}

// toBridge returns the properties of a message for a bridge, nil for its own.
func (e *Engine) toBridge(m *Message) []byte {
	if b := e.loopGuard.Load(); b != nil {
		return (*b).Depart(m)
	}
	return nil
}

// Serial is a number that no other message has while this process runs.
func (e *Engine) Serial(m *Message) uint64 {
	if n := m.serial.Load(); n != 0 {
		return n
	}
	m.serial.CompareAndSwap(0, e.serials.Add(1))
	return m.serial.Load()
}
