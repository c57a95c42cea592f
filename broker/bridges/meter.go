package bridges

import "sync/atomic"

// Meter counts what a connector does in addition to delivering. It is safe for concurrent use.
type Meter struct {
	Inbound atomic.Int64 // messages published to the broker
	Looped  atomic.Int64 // messages not published because they have been here
	Dropped atomic.Int64 // messages that the broker refused, or that exceeded a bound
}
