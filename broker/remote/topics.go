package remote

import (
	"context"
	"errors"
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
	if b.own.streams != nil {
		made = append(made, broker.CapStreams)
	}
	if b.own.bridges != nil {
		made = append(made, broker.CapBridges)
	}
	if b.tree != nil {
		made = append(made, broker.CapTopicTree, broker.CapTTL)
	}
	return made
}

// HPNodes asks the broker whether it is in an HP cluster, if it knows clusters.
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

// ListTopics gives topic trees: of the node that this connection leads to, of the
// node that is named or, where the broker is in an HP cluster, of each. A tree is
// the one that the broker keeps, otherwise one that is made of what it publishes
// from the first question on.
func (b *Broker) ListTopics(ctx context.Context, nodeID, offset, count int) ([]broker.TopicTree, error) {
	return eachNode(ctx, b, opListTopics, nodeID, func(id int) (broker.TopicTree, error) {
		tree, err := b.kept(ctx, id, offset, count)
		if id != 0 {
			return tree, err
		}
		made, err := b.insteadOf(ctx, err)
		if made != nil {
			return followed(ctx, made, offset, count)
		}
		return tree, err
	})
}

// GetTTL gives after how many seconds a topic leaves the tree.
func (b *Broker) GetTTL(ctx context.Context, nodeID int) ([]int64, error) {
	return eachNode(ctx, b, opGetTTL, nodeID, func(id int) (int64, error) { return b.ttl(ctx, id) })
}

// eachNode asks one node by its number, all of them for 0, or the broker itself,
// by the number 0, where there are no nodes.
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
	made, err := b.insteadOf(ctx, err)
	if made != nil {
		return int64(made.TTL() / time.Second), nil
	}
	return t.TTL, err
}

// SetTTL changes after how many seconds a topic leaves the tree. For a tree that
// the broker does not keep, it counts until the connection is closed.
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
	made, err := b.insteadOf(ctx, set(0))
	if made != nil {
		made.SetTTL(time.Duration(min(seconds, maxTTL)) * time.Second)
	}
	return err
}

// insteadOf gives the tree that is made here if a request came to nothing because
// the broker keeps none. Otherwise it gives the request's error.
func (b *Broker) insteadOf(ctx context.Context, err error) (*topictree.Follower, error) {
	e, ok := errors.AsType[*broker.Error](err)
	switch {
	case !ok || e.Kind != broker.Unsupported || b.link.offers(broker.CapTopicTree):
		return nil, err
	case b.tree == nil:
		return nil, &broker.Error{Kind: e.Kind, Op: e.Op, Feature: e.Feature,
			Msg: "the broker keeps no topic tree, and the connection's member topictree forbids making one", Err: err}
	}
	if err := b.maySecond(ctx, e.Op, e.Feature); err != nil {
		return nil, err
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

// kept reads a part of the tree that the broker keeps, or that another node of its
// cluster does.
func (b *Broker) kept(ctx context.Context, nodeID, offset, count int) (broker.TopicTree, error) {
	return pages.Tree(ctx, offset, count, func(ctx context.Context, count, offset int) (broker.TopicTree, error) {
		var t control.Topics
		err := b.ask(ctx, broker.CapTopicTree, control.TopicTreeTopic, control.ListTopics(count, offset).On(nodeID), &t)
		return t.TopicTree, err
	})
}
