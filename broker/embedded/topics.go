package embedded

import (
	"context"
	"iter"
	"slices"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/pages"
	"signalbox/broker/topictree"
)

const (
	opListTopics = "listTopics"
	opGetTTL     = "getTTL"
	opSetTTL     = "setTTL"
)

// longestTTL bounds the time to live of topics in the tree.
const longestTTL = 10 * 365 * 24 * time.Hour

func (b *Broker) newTree() *topictree.Tracker {
	return topictree.New(topictree.Options{Now: b.now, Subscriptions: b.filters})
}

// filters yields each subscribed filter with its number of clients.
func (b *Broker) filters() iter.Seq2[string, int] {
	return topictree.Grouped(func(yield func(string) bool) {
		_, all := b.engine.Subscriptions(0, -1, nil)
		for _, s := range all {
			if !yield(s.Filter) {
				return
			}
		}
	})
}

// HPNodes returns the numbers of the nodes of the HP cluster that this broker is in.
func (b *Broker) HPNodes(context.Context) ([]int, error) {
	_, nodes, err := b.cluster.hpNodes()
	return nodes, err
}

// ListTopics returns the topics in use: this broker's or, in an HP cluster, a node's or
// those of all nodes.
func (b *Broker) ListTopics(ctx context.Context, nodeID, offset, count int) ([]broker.TopicTree, error) {
	return eachNode(b, opListTopics, nodeID,
		func() broker.TopicTree { return b.tree.Page(offset, count) },
		func(id int) (broker.TopicTree, error) { return b.askTree(ctx, id, offset, count) })
}

// askTree returns a part of the topic tree of another node.
func (b *Broker) askTree(ctx context.Context, nodeID, offset, count int) (broker.TopicTree, error) {
	return pages.Tree(ctx, offset, count, func(ctx context.Context, count, offset int) (broker.TopicTree, error) {
		var t control.Topics
		err := b.askTopics(ctx, nodeID, control.ListTopics(count, offset), &t)
		return t.TopicTree, err
	})
}

// SelectTopics yields the selected topics, of this broker or of nodes as ListTopics does.
func (b *Broker) SelectTopics(ctx context.Context, nodeID int, s broker.TopicSelection) ([]iter.Seq[broker.KnownTopic], error) {
	return eachNode(b, opListTopics, nodeID,
		func() iter.Seq[broker.KnownTopic] { return b.tree.Select(s) },
		func(id int) (iter.Seq[broker.KnownTopic], error) {
			tree, err := b.askTree(ctx, id, 0, -1)
			return pages.Select(tree, s), err
		})
}

// TopicValues returns the numbers of topics over time. They are recorded here only, so not for
// another node and not for several.
func (b *Broker) TopicValues(_ context.Context, nodeID int, topics []string) ([]broker.TopicValues, error) {
	_, nodes, err := b.cluster.hpNodes()
	if err != nil {
		return nil, err
	}
	none := broker.NotRecorded(broker.ValuesUnobserved, topics...)
	if nodeID == 0 && len(nodes) > 1 {
		return none, nil
	}
	all, err := eachNode(b, opListTopics, nodeID,
		func() []broker.TopicValues { return b.tree.Values(topics) },
		func(int) ([]broker.TopicValues, error) { return none, nil })
	return slices.Concat(all...), err
}

// KnownTopics yields the topics in use; in an HP cluster, those of this node.
func (b *Broker) KnownTopics() iter.Seq[string] { return b.tree.Names() }

// GetTTL returns how long a topic is shown after its last message, in seconds.
func (b *Broker) GetTTL(ctx context.Context, nodeID int) ([]int64, error) {
	return eachNode(b, opGetTTL, nodeID, b.ttl, func(id int) (int64, error) { return b.askTTL(ctx, id, control.GetTTL()) })
}

func (b *Broker) ttl() int64 { return int64(b.tree.TTL() / time.Second) }

func (b *Broker) askTTL(ctx context.Context, nodeID int, c control.Command) (int64, error) {
	var t control.TTL
	err := b.askTopics(ctx, nodeID, c, &t)
	return t.TTL, err
}

// SetTTL sets that time, on all nodes of an HP cluster unless one is named.
func (b *Broker) SetTTL(ctx context.Context, nodeID int, seconds int64) error {
	if seconds < 0 || seconds > int64(longestTTL/time.Second) {
		return &broker.Error{Kind: broker.Invalid, Op: opSetTTL, Msg: "the time to live must be from 0 seconds to ten years"}
	}
	self, nodes, err := b.cluster.hpNodes()
	if err != nil {
		return err
	}
	set := func(id int) error {
		if id != self {
			_, err := b.askTTL(ctx, id, control.SetTTL(seconds))
			return err
		}
		b.tree.SetTTL(time.Duration(seconds) * time.Second)
		return nil
	}
	switch {
	case nodeID != 0:
		_, err = broker.OneNode(opSetTTL, nodes, nodeID, func(id int) (struct{}, error) { return struct{}{}, set(id) })
		return err
	case len(nodes) > 0:
		ready := func(id int) (err error) {
			if id != self {
				_, err = b.askTTL(ctx, id, control.GetTTL())
			}
			return err
		}
		return broker.SetNodes(opSetTTL, nodes, ready, set)
	}
	return set(self)
}

// eachNode returns the result of this broker or of another node, by its number, or those of
// all nodes of the HP cluster for 0.
func eachNode[T any](b *Broker, op string, nodeID int, here func() T, there func(id int) (T, error)) ([]T, error) {
	self, nodes, err := b.cluster.hpNodes()
	if err != nil {
		return nil, err
	}
	ask := func(id int) (T, error) {
		if id == self {
			return here(), nil
		}
		return there(id)
	}
	switch {
	case nodeID != 0:
		one, err := broker.OneNode(op, nodes, nodeID, ask)
		if err != nil {
			return nil, err
		}
		return []T{one}, nil
	case len(nodes) > 0:
		return broker.AskNodes(op, nodes, ask)
	}
	return []T{here()}, nil
}
