package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/embedded/cluster"
)

// The first byte of a request from one node to another.
const (
	askTopicTree = 'T' // a message to the control topic of the topic tree
	askClaims    = 'C' // about the node of a client, and its session
	askAddress   = 'A' // at which clients reach the node
	askDrained   = 'D' // whether it refuses clients
	askFlows     = 'F' // of its streams
	askShared    = 'P' // of the data of the program
	askComplete  = 'M' // that the node complete these, before it leaves
	// and askTime, askStreams, askBridge
)

// ClusterMode returns the mode of the cluster that this broker is a node of, "" for none.
// It is not known while the node cannot take part.
func (b *Broker) ClusterMode() (mode string, known bool) {
	if b.cluster == nil {
		return "", true
	}
	info, err := b.cluster.node.Info()
	return info.SyncMode, err == nil || errors.Is(err, cluster.ErrNotClustered)
}

// NodeNumber returns the number of this node in its cluster, 0 if it is in none.
func (b *Broker) NodeNumber() int {
	if b.cluster == nil {
		return 0
	}
	info, err := b.cluster.node.Info()
	if err != nil {
		return 0
	}
	return int(info.Self)
}

// hpNodes returns the numbers of this node and, in ascending order, of all nodes of an HP
// cluster; otherwise none.
func (m *member) hpNodes() (self int, nodes []int, err error) {
	if m == nil {
		return 0, nil, nil
	}
	info, err := m.node.Info()
	switch {
	case errors.Is(err, cluster.ErrNotClustered), err != nil && m.sharing() != sharesRetained:
		return 0, nil, nil
	case err != nil:
		return 0, nil, &broker.Error{Kind: broker.Unavailable, Msg: "the broker's cluster is not known at the moment: " + err.Error(), Err: err}
	case info.SyncMode != broker.SyncHP:
		return 0, nil, nil
	}
	for _, n := range info.Nodes {
		nodes = append(nodes, int(n.NodeID))
	}
	slices.Sort(nodes)
	return int(info.Self), nodes, nil
}

// askTopics sends a command about topics to another node, and decodes the data of the
// response.
func (b *Broker) askTopics(ctx context.Context, nodeID int, c control.Command, data any) error {
	const correlation = "node"
	answer, err := b.cluster.node.Ask(ctx, cluster.NodeID(nodeID), append([]byte{askTopicTree}, c.Encode(correlation)...))
	if err != nil {
		return nodeError(c.Name, err)
	}
	err = control.Read(answer, correlation, data)
	if refusal, ok := errors.AsType[control.Refusal](err); ok {
		return refusal.Classify(c.Name, broker.CapTopicTree)
	}
	if err != nil {
		return &broker.Error{Kind: broker.Internal, Op: c.Name, Msg: "its answer cannot be understood", Err: err}
	}
	return nil
}

// nodeError returns why a node did not respond.
func nodeError(op string, err error) error {
	switch {
	case errors.Is(err, cluster.ErrUnconfirmed):
		return &broker.Error{Kind: broker.Unconfirmed, Op: op, Msg: "it did not answer in time: it may have been carried out", Err: err}
	case errors.Is(err, cluster.ErrUnknownNode):
		return &broker.Error{Kind: broker.NotFound, Op: op, Msg: "the cluster has no such node", Err: err}
	}
	return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "it cannot be reached at the moment", Err: err}
}

// answer handles a request of another node.
func (m *member) answer(ctx context.Context, from cluster.NodeID, request []byte) ([]byte, error) {
	kind, body, err := splitKind(request)
	if err != nil {
		return nil, err
	}
	switch p := m.peering.Load(); {
	case kind == askTime:
		return m.encodeTime(), nil
	case kind == askAddress:
		return []byte(m.clientAddress()), nil
	case kind == askDrained:
		return m.encodeDrained(), nil
	case kind == askFlows:
		return m.broker.encodeFlows()
	case kind == askComplete:
		m.maintainOnce(ctx)
		return nil, nil
	case kind == askShared:
		return m.answerShared(ctx, body)
	case kind == askTopicTree:
		return m.broker.answerTopics(ctx, body)
	case kind == askStreams:
		return m.answerHost(ctx, from, func(ctx context.Context) []byte { return control.Streams(ctx, m.broker, m.broker.GetLicense, body) })
	case kind == askBridge:
		bridgeID, payload, _ := bytes.Cut(body, []byte{0})
		return m.answerHost(ctx, from, func(ctx context.Context) []byte { return control.Bridge(ctx, m.broker, string(bridgeID), payload) })
	case kind == askClaims && p != nil:
		return p.claims.Serve(ctx, int(from), body)
	}
	return nil, errors.ErrUnsupported
}

// answerTopics handles another node's command about this node's topics.
func (b *Broker) answerTopics(ctx context.Context, request []byte) ([]byte, error) {
	return responseOf(ctx, control.TopicTree(ctx, b.tree, nil, request))
}

// mayPublish refuses a message from the API on a node of a full cluster that does not lead:
// it would reach no subscriber and be stored nowhere.
func (m *member) mayPublish() error {
	if m == nil || m.sharing() != sharesEverything || m.node.IsLeader() {
		return nil
	}
	msg := "the broker does not lead its cluster of syncmode full, so no subscriber would receive the message: publish it at the leader"
	if leader, known := m.node.Leader(); known {
		msg += fmt.Sprintf(", node %d", leader)
	}
	return &broker.Error{Kind: broker.Conflict, Op: "publish", Msg: msg}
}
