package topictree

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"signalbox/broker"
)

// Subscriber is a broker that can be subscribed to.
type Subscriber interface {
	// Subscribe subscribes to a filter and calls deliver with each message that
	// is published from then on, but not with retained messages from before. It
	// does not call deliver after the feed has ended, and waits only for
	// deliver, which must return at once. The context bounds only the call to
	// Subscribe.
	Subscribe(ctx context.Context, filter string, deliver func(topic string, payload []byte, qos byte, retain bool)) (broker.Feed, error)
}

// tidyInterval is how often a Follower checks whether the tree is still
// watched.
const tidyInterval = 10 * time.Second

// ErrClosed is returned by a Follower after Close.
var ErrClosed = errors.New("the topic tree is closed")

// Follower maintains the topic tree of a broker that has none, by subscribing
// to all topics. It subscribes at a request and unsubscribes when there was
// none for ten TTLs. Therefore the response to a first request has no topics
// yet. If the subscription is lost, the next request subscribes again, and the
// tree starts empty.
//
// It has no information about subscribed filters.
type Follower struct {
	tracker *Tracker
	source  Subscriber

	lifetime   context.Context // ends with Close
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
	lock       chan struct{} // a mutex that can be waited for with a context; guards feed
	feed       broker.Feed   // nil while not subscribed
}

// NewFollower returns a Follower that is not subscribed yet. It must be closed.
func NewFollower(source Subscriber, o Options) *Follower {
	o.Subscriptions = nil
	f := &Follower{tracker: New(o), source: source, lock: make(chan struct{}, 1)}
	f.lifetime, f.cancel = context.WithCancel(context.Background())
	return f
}

// TTL is how long a topic stays after its last message.
func (f *Follower) TTL() time.Duration { return f.tracker.TTL() }

// SetTTL changes how long a topic stays. With 0 the Follower does not
// subscribe.
func (f *Follower) SetTTL(ttl time.Duration) { f.tracker.SetTTL(ttl) }

// Names yields the topics at the moment, sorted. It does not subscribe: there are none
// unless a request for a page has, not long ago.
func (f *Follower) Names() iter.Seq[string] { return f.tracker.Names() }

// Page returns a part of the topics, sorted; a count of -1 is for all. It
// subscribes to the broker if necessary. The error is that of the subscription,
// or of the context, which bounds the wait.
func (f *Follower) Page(ctx context.Context, offset, count int) (broker.TopicTree, error) {
	if f.TTL() > 0 {
		if err := f.follow(ctx); err != nil {
			return broker.TopicTree{}, err
		}
	}
	return f.tracker.Page(offset, count), nil
}

// Select yields the selected topics, sorted. It subscribes as Page does.
func (f *Follower) Select(ctx context.Context, s broker.TopicSelection) (iter.Seq[broker.KnownTopic], error) {
	if f.TTL() > 0 {
		if err := f.follow(ctx); err != nil {
			return nil, err
		}
	}
	return f.tracker.Select(s), nil
}

// Values returns the numbers of topics over time. It subscribes as Page does.
func (f *Follower) Values(ctx context.Context, topics []string) ([]broker.TopicValues, error) {
	if f.TTL() > 0 {
		if err := f.follow(ctx); err != nil {
			return nil, err
		}
	}
	return f.tracker.Values(topics), nil
}

// follow subscribes unless there is a subscription.
func (f *Follower) follow(ctx context.Context) error {
	select {
	case f.lock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.lock }()
	f.tracker.markRequested() // so that stop does not end the feed from here on
	switch {
	case f.lifetime.Err() != nil:
		return ErrClosed
	case f.feed != nil:
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.lifetime, cancel)()
	feed, err := f.source.Subscribe(ctx, "#", f.tracker.Observe)
	if err != nil {
		return err
	}
	f.feed = feed
	f.goroutines.Go(func() { f.maintain(feed) })
	return nil
}

// maintain runs until a feed has ended or is no longer watched, and stops it.
func (f *Follower) maintain(feed broker.Feed) {
	tick := time.NewTicker(tidyInterval)
	defer tick.Stop()
	for {
		ended := false
		select {
		case <-tick.C:
			f.tracker.Tidy()
		case <-feed.Lost():
			ended = true
		case <-f.lifetime.Done():
			ended = true
		}
		if f.stop(feed, ended) {
			return
		}
	}
}

// stop stops a feed that has ended or is no longer watched, and reports whether
// it did. It removes the topics, whose messages would soon be out of date.
func (f *Follower) stop(feed broker.Feed, ended bool) bool {
	f.lock <- struct{}{}
	defer func() { <-f.lock }()
	if !ended && f.tracker.Watched() {
		return false
	}
	feed.Stop()
	f.feed = nil
	f.tracker.removeAll()
	return true
}

// Close unsubscribes and waits for all goroutines. The tree is empty from then
// on.
func (f *Follower) Close() {
	f.cancel()
	f.lock <- struct{}{} // wait for a subscription in progress
	<-f.lock
	f.goroutines.Wait()
}
