package pages

import (
	"context"
	"iter"
	"time"

	"signalbox/broker"
)

// Tree reads a part of both lists of a topic tree, count -1 for all from offset on.
// A large tree does not fit into one answer; what is fetched holds a part of both
// lists, and is fetched once for both.
func Tree(ctx context.Context, offset, count int, fetch func(ctx context.Context, count, offset int) (broker.TopicTree, error)) (tree broker.TopicTree, err error) {
	parts := treeParts{fetch: fetch, fetched: map[[2]int]broker.TopicTree{}}
	p, s := &tree.PublishTopics, &tree.SubscribeTopics
	p.Count, p.Topics, p.Data, err = collect(ctx, offset, count, Source[broker.PublishTopic]{
		Name: func(t broker.PublishTopic) string { return t.Topic }, Fetch: parts.published})
	if err != nil {
		return tree, err
	}
	s.Count, s.Topics, s.Data, err = collect(ctx, offset, count, Source[broker.SubscribeTopic]{
		Name: func(t broker.SubscribeTopic) string { return t.Topic }, Fetch: parts.subscribed})
	return tree, err
}

// Select yields the selected topics of a tree.
func Select(tree broker.TopicTree, s broker.TopicSelection) iter.Seq[broker.KnownTopic] {
	return func(yield func(broker.KnownTopic) bool) {
		for _, t := range tree.PublishTopics.Data {
			if s.Has(t.Topic) && !yield(broker.KnownTopic{Name: t.Topic, TopicState: State(t)}) {
				return
			}
		}
	}
}

// collect reads a part of a list to its end.
func collect[T any](ctx context.Context, offset, count int, src Source[T]) (total int, names []string, items []T, err error) {
	page, err := List(ctx, src, broker.ListOptions[T]{Offset: offset, Count: count})
	if err != nil {
		return 0, nil, nil, err
	}
	names, items = []string{}, []T{}
	for item, err := range page.Items {
		if err != nil {
			return 0, nil, nil, err
		}
		names, items = append(names, src.Name(item)), append(items, item)
	}
	return page.Total, names, items, nil
}

// treeParts are parts of a topic tree that were fetched already.
type treeParts struct {
	fetch   func(ctx context.Context, count, offset int) (broker.TopicTree, error)
	fetched map[[2]int]broker.TopicTree // by count and offset
}

func (p *treeParts) get(ctx context.Context, count, offset int) (broker.TopicTree, error) {
	key := [2]int{count, offset}
	if t, ok := p.fetched[key]; ok {
		return t, nil
	}
	t, err := p.fetch(ctx, count, offset)
	if err == nil {
		p.fetched[key] = t
	}
	return t, err
}

func (p *treeParts) published(ctx context.Context, _ bool, count, offset int) (int, []broker.PublishTopic, error) {
	t, err := p.get(ctx, count, offset)
	return t.PublishTopics.Count, t.PublishTopics.Data, err
}

func (p *treeParts) subscribed(ctx context.Context, _ bool, count, offset int) (int, []broker.SubscribeTopic, error) {
	t, err := p.get(ctx, count, offset)
	return t.SubscribeTopics.Count, t.SubscribeTopics.Data, err
}

// State is the state of a topic in a tree that another broker keeps: its rate is not known.
type State broker.PublishTopic

// Last returns the topic.
func (s State) Last() broker.PublishTopic { return broker.PublishTopic(s) }

// Rate reports that no rate is known.
func (State) Rate(time.Time) (perSecond float64, known bool) { return 0, false }
