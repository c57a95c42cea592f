package streams

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// Replay runs a replay of a Log, for tests outside of the package that have a
// real one.
func Replay(ctx context.Context, kept Log, m messaging.Broker, d Definition, r broker.StreamReplay, total int64) (broker.StreamProgress, error) {
	p := newReplay(d, r, total, realClock{})
	err := p.run(ctx, kept, m)
	return p.progress(), err
}
