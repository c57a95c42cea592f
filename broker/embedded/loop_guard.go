package embedded

import "signalbox/broker/messaging"

// Guard sets the loop guard that the engine asks; see messaging.GuardedBroker.
func (m *adapter) Guard(g messaging.LoopGuard) (end func()) { return m.engine.SetLoopGuard(g) }
