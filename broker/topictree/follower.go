package topictree

import (
	"context"
	"errors"
	"sync"
	"time"

	"signalbox/broker"
)

// Subscriber is a broker that can be subscribed to.
type Subscriber interface {
	// Subscribe subscribes to a filter and calls deliver with each message that
	// is published from then on, never with one that was retained before, until
	// the feed ends. It does not call it after that, and waits for nobody but
	// deliver, which returns at once. The context bounds the subscribing only.
	Subscribe(ctx context.Context, filter string, deliver func(topic string, payload []byte, qos byte, retain bool)) (Feed, error)
}

// Feed is a subscription that stands.
type Feed interface {
	// Lost is closed when the subscription is gone.
	Lost() <-chan struct{}
	// Stop ends the subscription. It may be called more than once.
	Stop()
}

// tidyEvery is how often a Follower looks whether anybody still asks.
const tidyEvery = 10 * time.Second

// ErrClosed is the answer of a Follower that is closed.
var ErrClosed = errors.New("the topic tree is closed")

// Follower keeps the topic tree of a broker that has none, by subscribing to
// everything. It does so from a question on until no caller has asked for ten TTLs;
// the answer to a first question therefore holds no topics yet. A subscription
// that is lost is made again by the next question, and the tree begins anew.
//
// Subscribed filters it knows nothing of.
type Follower struct {
	tracker *Tracker
	source  Subscriber

	life context.Context // ends with Close
	end  context.CancelFunc
	task sync.WaitGroup
	turn chan struct{} // holds one while somebody subscribes or stops; it guards what follows
	feed Feed          // nil for none
}

// NewFollower makes a Follower that does not follow anything yet. Close must be
// called in the end.
func NewFollower(source Subscriber, o Options) *Follower {
	o.Subscriptions = nil
	f := &Follower{tracker: New(o), source: source, turn: make(chan struct{}, 1)}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// TTL is for how long a topic stays after its last message.
func (f *Follower) TTL() time.Duration { return f.tracker.TTL() }

// SetTTL changes for how long a topic stays. With 0 the broker is not followed.
func (f *Follower) SetTTL(ttl time.Duration) { f.tracker.SetTTL(ttl) }

// Page gives a part of the topics, in order, count -1 for all, and has the broker
// followed. Its error is the subscriber's, or that of the context, which bounds
// the waiting.
func (f *Follower) Page(ctx context.Context, offset, count int) (broker.TopicTree, error) {
	if f.TTL() > 0 {
		if err := f.follow(ctx); err != nil {
			return broker.TopicTree{}, err
		}
	}
	return f.tracker.Page(offset, count), nil
}

// follow subscribes, unless that has been done.
func (f *Follower) follow(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.turn }()
	f.tracker.ask() // from here on nobody stops it
	switch {
	case f.life.Err() != nil:
		return ErrClosed
	case f.feed != nil:
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.life, cancel)()
	feed, err := f.source.Subscribe(ctx, "#", f.tracker.Observe)
	if err != nil {
		return err
	}
	f.feed = feed
	f.task.Go(func() { f.attend(feed) })
	return nil
}

// attend tidies up while a feed is of use, and ends it.
func (f *Follower) attend(feed Feed) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		over := false
		select {
		case <-tick.C:
			f.tracker.Tidy()
		case <-feed.Lost():
			over = true
		case <-f.life.Done():
			over = true
		}
		if f.stop(feed, over) {
			return
		}
	}
}

// stop ends a feed that is over or that nobody asks for, and forgets what came
// by it, which would soon not be the last of its topic any more.
func (f *Follower) stop(feed Feed, over bool) bool {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	if !over && f.tracker.Watched() {
		return false
	}
	feed.Stop()
	f.feed = nil
	f.tracker.forget()
	return true
}

// Close ends following and waits for it. The tree is empty from then on.
func (f *Follower) Close() {
	f.end()
	f.turn <- struct{}{} // who subscribes comes to an end first
	<-f.turn
	f.task.Wait()
}
