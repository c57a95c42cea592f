package embedded

import (
	"context"
	"iter"
	"time"

	"signalbox/broker"
	"signalbox/broker/topictree"
)

// longestTTL bounds the time to live of topics in the tree.
const longestTTL = 10 * 365 * 24 * time.Hour

func (b *Broker) newTree() *topictree.Tracker {
	return topictree.New(topictree.Options{Now: b.now, Subscriptions: b.filters})
}

// filters gives each filter that is subscribed to with the number of clients.
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

// ListTopics shows the topics in use.
func (b *Broker) ListTopics(_ context.Context, nodeID, offset, count int) ([]broker.TopicTree, error) {
	if err := onlyNode(nodeID, "listTopics"); err != nil {
		return nil, err
	}
	return []broker.TopicTree{b.tree.Page(offset, count)}, nil
}

// GetTTL tells for how long a topic is shown after its last message, in seconds.
func (b *Broker) GetTTL(_ context.Context, nodeID int) ([]int64, error) {
	if err := onlyNode(nodeID, "getTTL"); err != nil {
		return nil, err
	}
	return []int64{int64(b.tree.TTL() / time.Second)}, nil
}

// SetTTL changes that.
func (b *Broker) SetTTL(_ context.Context, nodeID int, seconds int64) error {
	if err := onlyNode(nodeID, "setTTL"); err != nil {
		return err
	}
	if seconds < 0 || seconds > int64(longestTTL/time.Second) {
		return &broker.Error{Kind: broker.Invalid, Op: "setTTL", Msg: "the time to live must be from 0 seconds to ten years"}
	}
	b.tree.SetTTL(time.Duration(seconds) * time.Second)
	return nil
}

// onlyNode refuses to speak for the nodes of a cluster.
func onlyNode(nodeID int, op string) error {
	if nodeID == 0 {
		return nil
	}
	return &broker.Error{Kind: broker.NotFound, Op: op, Msg: "the broker is no cluster; leave nodeid out"}
}
