package embedded

import (
	"context"
	"slices"
	"sync"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// Listen adds a tap for each filter. They are lost when the broker is closed.
func (b *Broker) Listen(_ context.Context, filters []string, take func(broker.PublishedMessage)) (broker.Feed, error) {
	stops := make([]func(), 0, len(filters))
	for i, filter := range filters {
		stops = append(stops, b.engine.Open(filter, &listener{take, filters[:i]}))
	}
	return &feed{stop: sync.OnceFunc(func() {
		for _, stop := range stops {
			stop()
		}
	}), lost: b.life.closing}, nil
}

// feed is a number of active taps.
type feed struct {
	stop func()
	lost <-chan struct{}
}

// Lost returns a channel that is closed when the broker is closed.
func (f *feed) Lost() <-chan struct{} { return f.lost }

// Stop removes the taps.
func (f *feed) Stop() { f.stop() }

// listener is a tap that stores nothing. It leaves messages that an earlier filter of its
// feed matches to the tap of that.
type listener struct {
	take    func(broker.PublishedMessage)
	earlier []string
}

// Keeps returns false: no publisher waits for a listener.
func (*listener) Keeps() bool { return false }

// Take passes a message on.
func (l *listener) Take(m messaging.Message, notifier messaging.CommitNotifier) {
	if !slices.ContainsFunc(l.earlier, func(filter string) bool { return broker.FilterMatches(filter, m.Topic) }) {
		l.take(m.Published())
	}
	if notifier != nil {
		notifier.Committed(nil)
	}
}
