package remote

import (
	"context"
	"errors"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/topictree"
)

const opListTopics = "listTopics"

// maxTTL is the longest TTL in seconds: ten years.
const maxTTL = 10 * 365 * 24 * 60 * 60

// makeTree has a topic tree made where the broker keeps none, until the context
// ends.
func (b *Broker) makeTree(ctx context.Context) {
	b.tree = topictree.NewFollower(everybody{b}, topictree.Options{Now: b.now})
	b.wg.Go(func() {
		<-ctx.Done()
		b.tree.Close()
	})
}

// madeUp is what this package makes up for where the broker does not offer it.
func (b *Broker) madeUp() []broker.Capability {
	if b.tree == nil {
		return nil
	}
	return []broker.Capability{broker.CapTopicTree, broker.CapTTL}
}

// ListTopics gives the topic tree of the node that this connection leads to: the
// one that the broker keeps, otherwise one that is made of what it publishes from
// the first question on.
func (b *Broker) ListTopics(ctx context.Context, _, offset, count int) ([]broker.TopicTree, error) {
	var t control.Topics
	made, err := b.insteadOf(b.ask(ctx, broker.CapTopicTree, control.TopicTreeTopic, control.ListTopics(count, offset), &t))
	if made != nil {
		t.TopicTree, err = followed(ctx, made, offset, count)
	}
	if err != nil {
		return nil, err
	}
	return []broker.TopicTree{t.TopicTree}, nil
}

// GetTTL gives after how many seconds a topic leaves the tree.
func (b *Broker) GetTTL(ctx context.Context, _ int) ([]int64, error) {
	var t control.TTL
	made, err := b.insteadOf(b.ask(ctx, broker.CapTTL, control.TopicTreeTopic, control.GetTTL(), &t))
	if made != nil {
		t.TTL = int64(made.TTL() / time.Second)
	}
	if err != nil {
		return nil, err
	}
	return []int64{t.TTL}, nil
}

// SetTTL changes after how many seconds a topic leaves the tree. For a tree that
// the broker does not keep, it counts until the connection is closed.
func (b *Broker) SetTTL(ctx context.Context, _ int, seconds int64) error {
	made, err := b.insteadOf(b.ask(ctx, broker.CapTTL, control.TopicTreeTopic, control.SetTTL(seconds), nil))
	if made != nil {
		made.SetTTL(time.Duration(min(seconds, maxTTL)) * time.Second)
	}
	return err
}

// insteadOf gives the tree that is made here if a request came to nothing because
// the broker keeps none. Otherwise it gives the request's error.
func (b *Broker) insteadOf(err error) (*topictree.Follower, error) {
	e, ok := errors.AsType[*broker.Error](err)
	switch {
	case !ok || e.Kind != broker.Unsupported || b.link.offers(broker.CapTopicTree):
		return nil, err
	case b.tree == nil:
		return nil, &broker.Error{Kind: e.Kind, Op: e.Op, Feature: e.Feature,
			Msg: "the broker keeps no topic tree, and the connection's member topictree forbids making one", Err: err}
	}
	return b.tree, nil
}

// followed gives a part of a tree that is made of what the broker publishes.
func followed(ctx context.Context, tree *topictree.Follower, offset, count int) (broker.TopicTree, error) {
	page, err := tree.Page(ctx, offset, count)
	if err == nil {
		return page, nil
	}
	if _, ok := errors.AsType[*broker.Error](err); !ok {
		err = &broker.Error{Kind: broker.Unavailable, Op: opListTopics, Msg: "what is published could not be subscribed to in time", Err: err}
	}
	return broker.TopicTree{}, err
}
