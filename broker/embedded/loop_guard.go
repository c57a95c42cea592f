package embedded

import (
	"signalbox/broker/embedded/engine"
	"signalbox/broker/messaging"
)

// Guard sets the loop guard, until end is called.
func (m *adapter) Guard(b messaging.Border) (end func()) {
	return m.engine.SetLoopGuard(loopGuard{m, b})
}

// loopGuard adapts a messaging.Border to the engine.
type loopGuard struct {
	adapter   *adapter
	messaging messaging.Border
}

// Identity returns this broker's name among bridges.
func (b loopGuard) Identity() string { return b.messaging.Identity() }

// Admit reports whether a message is accepted.
func (b loopGuard) Admit(m *engine.Message) bool {
	s := b.adapter.fromEngine(m)
	return b.messaging.Admit(&s)
}

// Depart returns the properties of a message that leaves the broker.
func (b loopGuard) Depart(m *engine.Message) []byte {
	s := b.adapter.fromEngine(m)
	return b.messaging.Depart(&s)
}

// Withdraw undoes Admit.
func (b loopGuard) Withdraw(m *engine.Message) {
	s := b.adapter.fromEngine(m)
	b.messaging.Withdraw(&s)
}
