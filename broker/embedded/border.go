package embedded

import (
	"signalbox/broker/embedded/engine"
	"signalbox/broker/messaging"
)

// Guard has a border looked after.
func (m *seam) Guard(b messaging.Border) (end func()) { return m.engine.SetLoopGuard(border{m, b}) }

// border is one as the engine asks it.
type border struct {
	seam *seam
	asks messaging.Border
}

// Identity is what this broker is called among bridges.
func (b border) Identity() string { return b.asks.Identity() }

// Admit asks about a message.
func (b border) Admit(m *engine.Message) bool {
	s := b.seam.taken(m)
	return b.asks.Admit(&s)
}

// Depart asks for the properties of one.
func (b border) Depart(m *engine.Message) []byte {
	s := b.seam.taken(m)
	return b.asks.Depart(&s)
}

// Withdraw takes an admittance back.
func (b border) Withdraw(m *engine.Message) {
	s := b.seam.taken(m)
	b.asks.Withdraw(&s)
}
