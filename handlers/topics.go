package handlers

import (
	"context"
	"encoding/json"

	"signalbox/broker"
)

// NodeQuery names a node of an HP cluster; 0 means all.
type NodeQuery struct {
	NodeID int `query:"nodeid" default:"0" min:"0" doc:"Node of an HP cluster; absent means every node."`
}

// ListTopicsRequest asks for the topic tree.
type ListTopicsRequest struct {
	BrokerPath
	Paging
	NodeQuery
}

// TopicTrees is one topic tree, or a list with one per node.
type TopicTrees struct {
	trees   []broker.TopicTree
	perNode bool
}

// MarshalJSON writes the tree itself where there is one node to speak for.
func (t TopicTrees) MarshalJSON() ([]byte, error) {
	if !t.perNode && len(t.trees) == 1 {
		return json.Marshal(t.trees[0])
	}
	return json.Marshal(t.trees)
}

// OneOf gives the shapes for the document.
func (TopicTrees) OneOf() []any { return []any{broker.TopicTree{}, []broker.TopicTree{}} }

// ListTopics gives the topics in use.
func (a *API) ListTopics(ctx context.Context, r *ListTopicsRequest) (TopicTrees, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return TopicTrees{}, err
	}
	trees, err := b.ListTopics(ctx, r.NodeID, r.Offset, r.Count)
	return TopicTrees{trees: trees, perNode: r.row.ClusterMode == "hp" && r.NodeID == 0}, err
}

// GetTTLRequest asks for the time to live of topics.
type GetTTLRequest struct {
	BrokerPath
	NodeQuery
}

// TTLRecord is the time, in seconds, after which a topic is removed: TTLSec
// for one node, TTLs for every node of an HP cluster.
type TTLRecord struct {
	TTLSec *int64  `json:"ttl_sec,omitempty"`
	TTLs   []int64 `json:"ttls,omitempty"`
}

// GetTTL gives the time to live of topics.
func (a *API) GetTTL(ctx context.Context, r *GetTTLRequest) (TTLRecord, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return TTLRecord{}, err
	}
	ttls, err := b.GetTTL(ctx, r.NodeID)
	if err != nil {
		return TTLRecord{}, err
	}
	if r.row.ClusterMode == "hp" && r.NodeID == 0 || len(ttls) != 1 {
		return TTLRecord{TTLs: ttls}, nil
	}
	return TTLRecord{TTLSec: &ttls[0]}, nil
}

// SetTTLRequest holds the time to live of topics.
type SetTTLRequest struct {
	BrokerPath
	NodeQuery
	Body struct {
		TTLSec int64 `json:"ttl_sec" required:"true" min:"0" doc:"Seconds after which a topic that is not used is removed."`
	}
}

// SetTTL changes the time to live of topics.
func (a *API) SetTTL(ctx context.Context, r *SetTTLRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.SetTTL(ctx, r.NodeID, r.Body.TTLSec)
}
