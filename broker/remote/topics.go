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
	var made []broker.Capability
	if b.own != nil {
		made = append(made, broker.CapStreams)
	}
	if b.tree != nil {
		made = append(made, broker.CapTopicTree, broker.CapTTL)
	}
	return made
}

// ListTopics gives the topic tree of the node that this connection leads to: the
// one that the broker keeps, otherwise one that is made of what it publishes from
// the first question on.
func (b *Broker) ListTopics(ctx context.Context, _, offset, count int) ([]broker.TopicTree, error) {
	tree, err := b.kept(ctx, offset, count)
	made, err := b.insteadOf(err)
	if made != nil {
		tree, err = followed(ctx, made, offset, count)
	}
	if err != nil {
		return nil, err
	}
	return []broker.TopicTree{tree}, nil
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

// kept reads a part of the tree that the broker keeps. A large one does not fit
// into one answer, so it is fetched page by page.
func (b *Broker) kept(ctx context.Context, offset, count int) (tree broker.TopicTree, err error) {
	pages := treePages{broker: b, fetched: map[[2]int]broker.TopicTree{}}
	p, s := &tree.PublishTopics, &tree.SubscribeTopics
	p.Count, p.Topics, p.Data, err = collect(ctx, offset, count, source[broker.PublishTopic]{
		name: func(t broker.PublishTopic) string { return t.Topic }, fetch: pages.published})
	if err != nil {
		return tree, err
	}
	s.Count, s.Topics, s.Data, err = collect(ctx, offset, count, source[broker.SubscribeTopic]{
		name: func(t broker.SubscribeTopic) string { return t.Topic }, fetch: pages.subscribed})
	return tree, err
}

// collect reads a part of a list to its end.
func collect[T any](ctx context.Context, offset, count int, src source[T]) (total int, names []string, items []T, err error) {
	page, err := list(ctx, src, broker.ListOptions[T]{Offset: offset, Count: count})
	if err != nil {
		return 0, nil, nil, err
	}
	names, items = []string{}, []T{}
	for item, err := range page.Items {
		if err != nil {
			return 0, nil, nil, err
		}
		names, items = append(names, src.name(item)), append(items, item)
	}
	return page.Total, names, items, nil
}

// treePages are parts of a topic tree. Each holds a part of both lists, and is
// fetched once for both.
type treePages struct {
	broker  *Broker
	fetched map[[2]int]broker.TopicTree // by count and offset
}

func (p *treePages) get(ctx context.Context, count, offset int) (broker.TopicTree, error) {
	key := [2]int{count, offset}
	if t, ok := p.fetched[key]; ok {
		return t, nil
	}
	var t control.Topics
	err := p.broker.ask(ctx, broker.CapTopicTree, control.TopicTreeTopic, control.ListTopics(count, offset), &t)
	if err == nil {
		p.fetched[key] = t.TopicTree
	}
	return t.TopicTree, err
}

func (p *treePages) published(ctx context.Context, _ bool, count, offset int) (int, []broker.PublishTopic, error) {
	t, err := p.get(ctx, count, offset)
	return t.PublishTopics.Count, t.PublishTopics.Data, err
}

func (p *treePages) subscribed(ctx context.Context, _ bool, count, offset int) (int, []broker.SubscribeTopic, error) {
	t, err := p.get(ctx, count, offset)
	return t.SubscribeTopics.Count, t.SubscribeTopics.Data, err
}
