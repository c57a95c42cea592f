package bridges

import "sync/atomic"

// Meter counts what a connector does beside delivering. It is safe for
// concurrent use.
type Meter struct {
	Inbound atomic.Int64 // messages brought to the broker
	Looped  atomic.Int64 // messages not brought, as they had been here
	Dropped atomic.Int64 // messages that the broker refused, or had no room for
}
