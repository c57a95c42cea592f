package handlers

import (
	"context"
	"encoding/json"

	"signalbox/broker"
)

// NodePath names a broker and, if that is an HP cluster, one of its nodes; 0 means all.
type NodePath struct {
	BrokerPath
	NodeID int `query:"nodeid" default:"0" min:"0" doc:"Number of a node of an HP cluster; 0 or absent means every node. It must be absent for any other broker."`
}

// topicsOf returns the broker whose topics are requested. A node number is refused if
// there are no nodes; a broker may be in a cluster that the project does not know.
func (a *API) topicsOf(ctx context.Context, p *NodePath) (broker.Broker, error) {
	b, err := a.live(&p.BrokerPath)
	if err != nil || p.NodeID == 0 || a.modeOf(p.row) == broker.SyncHP {
		return b, err
	}
	nodes, err := b.HPNodes(ctx)
	if err == nil && len(nodes) == 0 {
		err = Invalid(FieldError{"query.nodeid", "is for the nodes of an HP cluster, which this broker is not"})
	}
	return b, err
}

// everyNode reports whether the response has an entry per node.
func (a *API) everyNode(p *NodePath) bool { return p.NodeID == 0 && a.modeOf(p.row) == broker.SyncHP }

// ListTopicsRequest asks for the topic tree.
type ListTopicsRequest struct {
	NodePath
	Paging
}

// TopicTrees is one topic tree, or a list with one per node.
type TopicTrees struct {
	trees   []broker.TopicTree
	perNode bool
}

// MarshalJSON encodes the tree itself if there is one node.
func (t TopicTrees) MarshalJSON() ([]byte, error) {
	if !t.perNode && len(t.trees) == 1 {
		return json.Marshal(t.trees[0])
	}
	return json.Marshal(t.trees)
}

// OneOf returns the variants for the document.
func (TopicTrees) OneOf() []any { return []any{broker.TopicTree{}, []broker.TopicTree{}} }

// ListTopics returns the topics in use.
func (a *API) ListTopics(ctx context.Context, r *ListTopicsRequest) (TopicTrees, error) {
	b, err := a.topicsOf(ctx, &r.NodePath)
	if err != nil {
		return TopicTrees{}, err
	}
	trees, err := b.ListTopics(ctx, r.NodeID, r.Offset, r.Count)
	return TopicTrees{trees: trees, perNode: a.everyNode(&r.NodePath)}, err
}

// GetTTLRequest asks for the time to live of topics.
type GetTTLRequest struct{ NodePath }

// TTLRecord is the time, in seconds, after which a topic is removed: TTLSec
// for one node, TTLs for every node of an HP cluster.
type TTLRecord struct {
	TTLSec *int64  `json:"ttl_sec,omitempty" doc:"Seconds after which an unused topic is removed, for a single broker or one node. Absent if ttls is present." example:"60"`
	TTLs   []int64 `json:"ttls,omitempty" doc:"As ttl_sec, one for each node of an HP cluster, in the order of their numbers. Absent if ttl_sec is present." example:"-"`
}

// GetTTL returns the time to live of topics.
func (a *API) GetTTL(ctx context.Context, r *GetTTLRequest) (TTLRecord, error) {
	b, err := a.topicsOf(ctx, &r.NodePath)
	if err != nil {
		return TTLRecord{}, err
	}
	ttls, err := b.GetTTL(ctx, r.NodeID)
	if err != nil {
		return TTLRecord{}, err
	}
	if a.everyNode(&r.NodePath) || len(ttls) != 1 {
		return TTLRecord{TTLs: ttls}, nil
	}
	return TTLRecord{TTLSec: &ttls[0]}, nil
}

// SetTTLRequest holds the time to live of topics.
type SetTTLRequest struct {
	NodePath
	Body struct {
		TTLSec int64 `json:"ttl_sec" required:"true" min:"0" max:"315360000" doc:"Seconds after which an unused topic is removed, at most ten years; 0 keeps no topics." example:"60"`
	}
}

// SetTTL changes the time to live of topics.
func (a *API) SetTTL(ctx context.Context, r *SetTTLRequest) error {
	b, err := a.topicsOf(ctx, &r.NodePath)
	if err != nil {
		return err
	}
	return b.SetTTL(ctx, r.NodeID, r.Body.TTLSec)
}
