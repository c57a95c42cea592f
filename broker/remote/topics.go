package remote

import (
	"context"
	"errors"
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

// maxTTL is the maximum TTL in seconds: ten years.
const maxTTL = 10 * 365 * 24 * 60 * 60

// startTree emulates the topic tree, until ctx ends.
func (b *Broker) startTree(ctx context.Context) {
	b.tree = topictree.NewFollower(allTopicsSubscriber{b}, topictree.Options{Now: b.now})
	b.wg.Go(func() {
		<-ctx.Done()
		b.tree.Close()
	})
}

// emulated returns the capabilities that this package can emulate.
func (b *Broker) emulated() []broker.Capability {
	var made []broker.Capability
	if b.hosted.Streams() != nil {
		made = append(made, broker.CapStreams)
	}
	if b.hosted.Bridges() != nil {
		made = append(made, broker.CapBridges)
	}
	if b.tree != nil {
		made = append(made, broker.CapTopicTree, broker.CapTTL)
	}
	return made
}

// HPNodes returns the nodes of the broker's HP cluster, or nil if it is not in one.
func (b *Broker) HPNodes(ctx context.Context) ([]int, error) {
	var c control.HACluster
	err := b.AskHA(ctx, control.GetCluster(), &c)
	switch broker.KindOf(err) {
	case broker.Unsupported, broker.NotFound, broker.Conflict:
		return nil, nil
	}
	if err != nil || c.SyncMode != broker.SyncHP {
		return nil, err
	}
	nodes := make([]int, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = n.NodeID
	}
	slices.Sort(nodes)
	return nodes, nil
}

// ListTopics returns topic trees: of the connected node, of a given node, or of each node of
// an HP cluster. A tree is kept by the broker, or emulated from what it publishes since the
// first request.
func (b *Broker) ListTopics(ctx context.Context, nodeID, offset, count int) ([]broker.TopicTree, error) {
	return eachNode(ctx, b, opListTopics, nodeID, func(id int) (broker.TopicTree, error) {
		tree, err := b.brokerTree(ctx, id, offset, count)
		if id != 0 {
			return tree, err
		}
		made, err := b.emulatedTree(ctx, err)
		if made != nil {
			return emulatedPage(ctx, made, offset, count)
		}
		return tree, err
	})
}

// SelectTopics yields the selected topics, of trees as ListTopics returns. A tree that the
// broker keeps is read as a whole: it cannot be asked for a part.
func (b *Broker) SelectTopics(ctx context.Context, nodeID int, s broker.TopicSelection) ([]iter.Seq[broker.KnownTopic], error) {
	return eachNode(ctx, b, opListTopics, nodeID, func(id int) (iter.Seq[broker.KnownTopic], error) {
		tree, err := b.brokerTree(ctx, id, 0, -1)
		if id != 0 {
			return pages.Select(tree, s), err
		}
		made, err := b.emulatedTree(ctx, err)
		if made != nil {
			topics, err := made.Select(ctx, s)
			return topics, notFollowed(err)
		}
		return pages.Select(tree, s), err
	})
}

// TopicValues returns the numbers of topics over time. They are recorded for an emulated tree
// only: the messages of any other do not pass this service.
func (b *Broker) TopicValues(ctx context.Context, nodeID int, topics []string) ([]broker.TopicValues, error) {
	all, err := eachNode(ctx, b, opListTopics, nodeID, func(id int) ([]broker.TopicValues, error) {
		if id != 0 || b.link.offers(broker.CapTopicTree) {
			return nil, nil
		}
		_, err := b.brokerTree(ctx, 0, 0, 0)
		made, err := b.emulatedTree(ctx, err)
		if made == nil {
			return nil, err
		}
		values, err := made.Values(ctx, topics)
		return values, notFollowed(err)
	})
	if err != nil || len(all) == 1 && all[0] != nil {
		return slices.Concat(all...), err
	}
	return broker.NotRecorded(broker.ValuesUnobserved, topics...), nil
}

// KnownTopics yields the topics of the emulated tree. One that the broker keeps itself is not
// known here.
func (b *Broker) KnownTopics() iter.Seq[string] {
	if b.tree == nil {
		return func(func(string) bool) {}
	}
	return b.tree.Names()
}

// GetTTL returns after how many seconds a topic leaves the tree.
func (b *Broker) GetTTL(ctx context.Context, nodeID int) ([]int64, error) {
	return eachNode(ctx, b, opGetTTL, nodeID, func(id int) (int64, error) { return b.ttl(ctx, id) })
}

// eachNode calls ask for one node, for all nodes if nodeID is 0, or with 0 for the broker
// itself if there are no nodes.
func eachNode[T any](ctx context.Context, b *Broker, op string, nodeID int, ask func(id int) (T, error)) ([]T, error) {
	nodes, err := b.HPNodes(ctx)
	switch {
	case err != nil:
		return nil, err
	case nodeID == 0 && len(nodes) > 0:
		return broker.AskNodes(op, nodes, ask)
	}
	var one T
	if nodeID != 0 {
		one, err = broker.OneNode(op, nodes, nodeID, ask)
	} else {
		one, err = ask(0)
	}
	if err != nil {
		return nil, err
	}
	return []T{one}, nil
}

// ttl asks the broker, or another node of its cluster through it.
func (b *Broker) ttl(ctx context.Context, nodeID int) (int64, error) {
	var t control.TTL
	err := b.ask(ctx, broker.CapTTL, control.TopicTreeTopic, control.GetTTL().On(nodeID), &t)
	if nodeID != 0 {
		return t.TTL, err
	}
	made, err := b.emulatedTree(ctx, err)
	if made != nil {
		return int64(made.TTL() / time.Second), nil
	}
	return t.TTL, err
}

// SetTTL sets after how many seconds a topic leaves the tree. For an emulated tree it applies
// until the connection is closed.
func (b *Broker) SetTTL(ctx context.Context, nodeID int, seconds int64) error {
	nodes, err := b.HPNodes(ctx)
	if err != nil {
		return err
	}
	set := func(id int) error {
		return b.ask(ctx, broker.CapTTL, control.TopicTreeTopic, control.SetTTL(seconds).On(id), nil)
	}
	switch {
	case nodeID != 0:
		_, err = broker.OneNode(opSetTTL, nodes, nodeID, func(id int) (struct{}, error) { return struct{}{}, set(id) })
		return err
	case len(nodes) > 0:
		ready := func(id int) error { _, err := b.ttl(ctx, id); return err }
		return broker.SetNodes(opSetTTL, nodes, ready, set)
	}
	made, err := b.emulatedTree(ctx, set(0))
	if made != nil {
		made.SetTTL(time.Duration(min(seconds, maxTTL)) * time.Second)
	}
	return err
}

// emulatedTree returns the emulated tree if a request failed because the broker keeps none,
// otherwise the request's error.
func (b *Broker) emulatedTree(ctx context.Context, err error) (*topictree.Follower, error) {
	e, ok := errors.AsType[*broker.Error](err)
	switch {
	case !ok || e.Kind != broker.Unsupported || b.link.offers(broker.CapTopicTree):
		return nil, err
	case b.tree == nil:
		return nil, &broker.Error{Kind: e.Kind, Op: e.Op, Feature: e.Feature,
			Msg: "the broker keeps no topic tree, and the connection's member topictree forbids making one", Err: err}
	}
	if err := b.checkSecondConnection(ctx, e.Op, e.Feature); err != nil {
		return nil, err
	}
	return b.tree, nil
}

// emulatedPage returns a page of an emulated tree.
func emulatedPage(ctx context.Context, tree *topictree.Follower, offset, count int) (broker.TopicTree, error) {
	page, err := tree.Page(ctx, offset, count)
	return page, notFollowed(err)
}

// notFollowed returns the error of a tree that cannot be emulated at the moment.
func notFollowed(err error) error {
	if _, ok := errors.AsType[*broker.Error](err); ok || err == nil {
		return err
	}
	return &broker.Error{Kind: broker.Unavailable, Op: opListTopics, Msg: "what is published could not be subscribed to in time", Err: err}
}

// brokerTree returns a page of the tree kept by the broker, or by another node of its cluster.
func (b *Broker) brokerTree(ctx context.Context, nodeID, offset, count int) (broker.TopicTree, error) {
	return pages.Tree(ctx, offset, count, func(ctx context.Context, count, offset int) (broker.TopicTree, error) {
		var t control.Topics
		err := b.ask(ctx, broker.CapTopicTree, control.TopicTreeTopic, control.ListTopics(count, offset).On(nodeID), &t)
		return t.TopicTree, err
	})
}
