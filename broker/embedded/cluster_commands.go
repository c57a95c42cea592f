package embedded

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/embedded/cluster"
)

// defaultMode is the syncmode of a cluster if none is given.
const defaultMode = "dynsec"

// commander executes commands about clusters for one requester. In syncmode full the broker
// closes its ordinary listeners and their connections, so a requester connected to one of
// these would not receive the response and could not connect afterwards.
type commander struct {
	*member
	survives bool // the requester's connection survives that
}

// mayCommand refuses a command that closes or opens listeners.
func (c commander) mayCommand(shares sharing) error {
	if shares == sharesEverything && !c.survives {
		return control.ErrAdminOnly
	}
	return nil
}

// checkSpec returns the cluster that this broker is to create or join, and what its nodes
// share, unless the broker must not enter such a cluster.
func (c commander) checkSpec(s control.HASpec) (spec cluster.Spec, shares sharing, err error) {
	spec = cluster.Spec{Name: s.ClusterName, SyncMode: cmp.Or(s.SyncMode, defaultMode), Shared: c.broker.config.Shared != nil}
	for _, n := range s.Nodes {
		spec.Members = append(spec.Members, memberOf(n))
		if n.Mine {
			spec.Self = cluster.NodeID(n.NodeID)
		}
	}
	if err := c.checkExpected(spec.Name); err != nil {
		return spec, shares, err
	}
	shares, known := syncModes[spec.SyncMode]
	switch {
	case !known:
		return spec, shares, control.ErrSyncMode
	case shares == sharesEverything && !c.broker.listeners.HasAdminOnly():
		return spec, shares, control.ErrAdminOnly
	}
	return spec, shares, c.mayCommand(shares)
}

// ClusterTopic is the control topic of commands about the cluster.
const ClusterTopic = control.HATopic

func memberOf(n control.HANode) cluster.Member {
	return cluster.Member{NodeID: cluster.NodeID(n.NodeID), Address: n.Address, Port: n.Port}
}

// CreateCluster creates a cluster with this broker as its first node. The state to be
// shared is this broker's.
func (c commander) CreateCluster(ctx context.Context, s control.HASpec) (created control.HACreated, err error) {
	spec, shares, err := c.checkSpec(s)
	if err != nil {
		return created, err
	}
	var invitations []cluster.Invitation
	err = c.enter(shares, spec.Shared, func() (err error) {
		invitations, err = c.node.Create(ctx, spec)
		return err
	})
	if err != nil {
		return created, controlError(err)
	}
	created.Info = spec.Warning()
	for _, i := range invitations {
		out, err := c.seal(i)
		if err != nil {
			return created, err
		}
		created.Invitations = append(created.Invitations, out)
	}
	return created, nil
}

// JoinCluster accepts an invitation. If the cluster cannot admit the node now, the node
// goes on waiting.
func (c commander) JoinCluster(ctx context.Context, s control.HASpec) error {
	spec, shares, err := c.checkSpec(s)
	if err != nil {
		return err
	}
	var invitation cluster.Invitation
	if s.Invitation == nil {
		return control.ErrInvitation
	}
	if err := s.Invitation.Open(&invitation); err != nil {
		return err
	}
	if err := c.checkInvitation(invitation); err != nil {
		return err
	}
	err = c.enter(shares, invitation.Shared, func() error {
		if err := c.keep(ctx, spec, invitation.Shared); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, joinTimeout)
		defer cancel()
		return c.node.Join(ctx, spec, invitation)
	})
	if errors.Is(err, cluster.ErrWaiting) {
		c.broker.log.Info("the broker waits to be admitted to the cluster", "cluster", s.ClusterName)
		return nil
	}
	return controlError(err)
}

// checkName refuses a command about another cluster. A node that waits to be admitted does
// not know the name of its cluster yet.
func (m *member) checkName(clustername string) error {
	info, err := m.node.Info()
	if err == nil && info.Name != clustername && info.Name != "" {
		return control.ErrClusterName
	}
	return controlError(err)
}

// AddNode invites a broker, or a member that lost its data.
func (m *member) AddNode(ctx context.Context, clustername string, n control.HANode) (added control.HAAdded, err error) {
	if err := m.checkName(clustername); err != nil {
		return added, err
	}
	invitation, err := m.node.AddNode(ctx, memberOf(n))
	if err != nil {
		return added, controlError(err)
	}
	out, err := m.seal(invitation)
	added.Invitation = &out
	return added, err
}

// RemoveNode removes a member.
func (m *member) RemoveNode(ctx context.Context, clustername string, n control.HANode) error {
	if err := m.checkName(clustername); err != nil {
		return err
	}
	id := cluster.NodeID(n.NodeID)
	m.completeLeaving(ctx, id)
	return controlError(m.node.RemoveNode(ctx, id))
}

// LeaveCluster removes this broker from its cluster.
func (c commander) LeaveCluster(ctx context.Context, clustername string, _ control.HANode) error {
	return c.leave(ctx, clustername, func(ctx context.Context) error {
		if c.isIncomplete() {
			c.maintainOnce(ctx)
		}
		return c.node.Leave(ctx)
	})
}

// DeleteCluster dissolves the cluster.
func (c commander) DeleteCluster(ctx context.Context, clustername string) error {
	return c.leave(ctx, clustername, func(ctx context.Context) error {
		c.completeLeaving(ctx)
		return c.node.Delete(ctx)
	})
}

// leave executes a command that ends the membership, and makes the shared state this
// broker's own.
func (c commander) leave(ctx context.Context, clustername string, do func(context.Context) error) error {
	if err := c.mayCommand(c.sharing()); err != nil {
		return err
	}
	if err := c.checkName(clustername); err != nil {
		return err
	}
	if err := do(ctx); err != nil {
		return controlError(err)
	}
	return controlError(c.reconcile(context.WithoutCancel(ctx)))
}

// SetLeader transfers the leadership.
func (m *member) SetLeader(ctx context.Context, clustername string, nodeid int) error {
	if err := m.checkName(clustername); err != nil {
		return err
	}
	return controlError(m.node.SetLeader(ctx, cluster.NodeID(nodeid)))
}

// How long, and how often, a node is asked again while it is leaving its cluster, which
// usually takes one commit.
const (
	infoTimeout       = time.Second
	infoRetryInterval = 10 * time.Millisecond
)

// info returns what the node knows of its cluster. A caller must not take a node that is
// leaving for one that has left.
func (m *member) info(ctx context.Context) (cluster.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	again := time.NewTicker(infoRetryInterval)
	defer again.Stop()
	for {
		info, err := m.node.Info()
		if !errors.Is(err, cluster.ErrNoLeader) {
			return info, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return info, err
		}
	}
}

// GetCluster returns the description of the cluster. It returns ErrNoCluster only when the
// access control is this broker's own again: the caller may change it next.
func (m *member) GetCluster(ctx context.Context) (control.HACluster, error) {
	info, err := m.info(ctx)
	if errors.Is(err, cluster.ErrNotClustered) && !m.isEntering() {
		if err := m.reconcile(context.WithoutCancel(ctx)); err != nil {
			return control.HACluster{}, controlError(err)
		}
	}
	if err != nil {
		return control.HACluster{}, controlError(err)
	}
	c := control.HACluster{
		ClusterName: info.Name, UUID: info.UUID, Version: info.Format, SyncMode: info.SyncMode, Leader: int(info.Leader),
	}
	for _, n := range info.Nodes {
		c.Nodes = append(c.Nodes, control.HANode{NodeID: int(n.NodeID), Address: n.Address, Port: n.Port, Mine: n.NodeID == info.Self})
	}
	return c, nil
}

// GetRaftStatus returns the status of the consensus.
func (m *member) GetRaftStatus(context.Context) (broker.RaftStatus, error) {
	s := m.node.Status()
	status := broker.RaftStatus{
		Nodes: []broker.RaftNode{}, State: s.State, CommitIndex: int64(s.CommitIndex), LastApplied: int64(s.LastApplied),
		LastStored: int64(s.LastStored), CurrentTerm: int64(s.Term), SyncMode: s.SyncMode, ErrorMessage: s.ErrMsg, Warning: s.Warning,
	}
	status.Drain, status.Backlog = m.drainState(), m.backlogs()
	for _, n := range s.Nodes {
		node := broker.RaftNode{ID: int(n.NodeID), Address: n.Address, Role: n.Role}
		if n.Err != nil {
			node.Error = contactError(n.Err)
		}
		status.Nodes = append(status.Nodes, node)
	}
	return status, nil
}

// drainState returns whether the node is drained.
func (m *member) drainState() broker.Drain {
	if !m.drained.isOn() {
		return broker.Drain{}
	}
	return broker.Drain{Drained: true, SessionsLeft: m.broker.engine.Divertible()}
}

// contactError returns why the leader has no contact to a node, without the node's name.
func contactError(err error) string {
	cause := cmp.Or(errors.Unwrap(err), err)
	op, ok := errors.AsType[*net.OpError](err)
	isAlert := ok && op.Op == "remote error" // as package tls has it
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no response in time"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), isAlert, noTLS:
		return "what listens there does not respond as the node's cluster port: " + cause.Error()
	}
	return cause.Error()
}

// IsLeader reports whether this broker leads.
func (m *member) IsLeader(context.Context) (bool, error) { return m.node.IsLeader(), nil }
