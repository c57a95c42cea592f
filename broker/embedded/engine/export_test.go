package engine

import "math"

// ForgetForeseen gives up what the log has not brought, as if its time was over.
func (e *Engine) ForgetForeseen() {
	e.retained.mu.Lock()
	e.retained.now = func() int64 { return math.MaxInt64 }
	e.retained.mu.Unlock()
	e.retained.giveUp()
}
