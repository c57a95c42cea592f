package embedded

import (
	"context"
	"errors"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/embedded/cluster"
)

// defaultMode is the syncmode of a cluster for which none is said.
const defaultMode = "dynsec"

// commander is who commands about clusters. In syncmode full this broker closes
// its ordinary listeners, and ends their connections: who came over one of these
// would not hear an answer, and would find nobody afterwards.
type commander struct {
	*member
	stays bool // it is not ended then
}

// mayEnter refuses to enter a cluster in a mode.
func (c commander) mayEnter(mode sharing) error {
	if mode == sharesEverything && !c.broker.doors.HasAdminOnly() {
		return control.ErrAdminOnly
	}
	return c.mayCommand(mode)
}

// mayCommand refuses a command by which the listeners are closed or opened.
func (c commander) mayCommand(mode sharing) error {
	if mode == sharesEverything && !c.stays {
		return control.ErrAdminOnly
	}
	return nil
}

// CreateCluster makes a cluster of which this broker is the first node.
func (c commander) CreateCluster(ctx context.Context, s control.HASpec) (created control.HACreated, err error) {
	mode, known := syncModes[specOf(s).SyncMode]
	if !known {
		return created, control.ErrSyncMode
	}
	if err := c.mayEnter(mode); err != nil {
		return created, err
	}
	return c.member.CreateCluster(ctx, s)
}

// JoinCluster accepts an invitation.
func (c commander) JoinCluster(ctx context.Context, s control.HASpec) error {
	mode, known := syncModes[specOf(s).SyncMode]
	if !known {
		return control.ErrSyncMode
	}
	if err := c.mayEnter(mode); err != nil {
		return err
	}
	return c.member.JoinCluster(ctx, s)
}

// LeaveCluster takes this broker out.
func (c commander) LeaveCluster(ctx context.Context, clustername string, n control.HANode) error {
	if err := c.mayCommand(c.sharing()); err != nil {
		return err
	}
	return c.member.LeaveCluster(ctx, clustername, n)
}

// DeleteCluster dissolves the cluster.
func (c commander) DeleteCluster(ctx context.Context, clustername string) error {
	if err := c.mayCommand(c.sharing()); err != nil {
		return err
	}
	return c.member.DeleteCluster(ctx, clustername)
}

// specOf reads the description of a cluster.
func specOf(s control.HASpec) cluster.Spec {
	spec := cluster.Spec{Name: s.ClusterName, SyncMode: s.SyncMode}
	if spec.SyncMode == "" {
		spec.SyncMode = defaultMode
	}
	for _, n := range s.Nodes {
		spec.Members = append(spec.Members, memberOf(n))
		if n.Mine {
			spec.Self = cluster.NodeID(n.NodeID)
		}
	}
	return spec
}

func memberOf(n control.HANode) cluster.Member {
	return cluster.Member{NodeID: cluster.NodeID(n.NodeID), Address: n.Address, Port: n.Port}
}

// CreateCluster makes a cluster of which this broker is the first node. What is
// shared becomes everybody's as it is here.
func (m *member) CreateCluster(ctx context.Context, s control.HASpec) (created control.HACreated, err error) {
	spec := specOf(s)
	var invitations []cluster.Invitation
	err = m.enter(syncModes[spec.SyncMode], func() (err error) {
		invitations, err = m.node.Create(ctx, spec)
		return err
	})
	if err != nil {
		return created, told(err)
	}
	created.Info = spec.Warning()
	for _, i := range invitations {
		out, err := control.NewInvitation(int(i.NodeID), i)
		if err != nil {
			return created, err
		}
		created.Invitations = append(created.Invitations, out)
	}
	return created, nil
}

// JoinCluster accepts an invitation. Where the cluster cannot let the node in for
// now, it goes on waiting.
func (m *member) JoinCluster(ctx context.Context, s control.HASpec) error {
	var invitation cluster.Invitation
	if s.Invitation == nil {
		return control.ErrInvitation
	}
	if err := s.Invitation.Open(&invitation); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	spec := specOf(s)
	err := m.enter(syncModes[spec.SyncMode], func() error { return m.node.Join(ctx, spec, invitation) })
	if errors.Is(err, cluster.ErrWaiting) {
		m.broker.log.Info("the broker waits to be let into the cluster", "cluster", s.ClusterName)
		return nil
	}
	return told(err)
}

// named refuses a command about another cluster. A node that waits to be let in
// does not know the name of its cluster yet.
func (m *member) named(clustername string) error {
	info, err := m.node.Info()
	if err == nil && info.Name != clustername && info.Name != "" {
		return control.ErrClusterName
	}
	return told(err)
}

// AddNode makes a broker a member, or a member that lost its data one again.
func (m *member) AddNode(ctx context.Context, clustername string, n control.HANode) (added control.HAAdded, err error) {
	if err := m.named(clustername); err != nil {
		return added, err
	}
	invitation, err := m.node.AddNode(ctx, memberOf(n))
	if err != nil {
		return added, told(err)
	}
	out, err := control.NewInvitation(n.NodeID, invitation)
	added.Invitation = &out
	return added, err
}

// RemoveNode takes a member out.
func (m *member) RemoveNode(ctx context.Context, clustername string, n control.HANode) error {
	if err := m.named(clustername); err != nil {
		return err
	}
	return told(m.node.RemoveNode(ctx, cluster.NodeID(n.NodeID)))
}

// LeaveCluster takes this broker out.
func (m *member) LeaveCluster(ctx context.Context, clustername string, _ control.HANode) error {
	if err := m.named(clustername); err != nil {
		return err
	}
	return told(m.out(ctx, m.node.Leave))
}

// DeleteCluster dissolves the cluster.
func (m *member) DeleteCluster(ctx context.Context, clustername string) error {
	if err := m.named(clustername); err != nil {
		return err
	}
	return told(m.out(ctx, m.node.Delete))
}

// out has the node come to rest, and the access control be this broker's own.
func (m *member) out(ctx context.Context, do func(context.Context) error) error {
	if err := do(ctx); err != nil {
		return err
	}
	return m.settle(context.WithoutCancel(ctx))
}

// SetLeader hands the lead over.
func (m *member) SetLeader(ctx context.Context, clustername string, nodeid int) error {
	if err := m.named(clustername); err != nil {
		return err
	}
	return told(m.node.SetLeader(ctx, cluster.NodeID(nodeid)))
}

// How long, and how often, a node is asked again that is between two places: one
// that is leaving its cluster, as a rule for the length of one commit.
const (
	betweenPatience = time.Second
	betweenPause    = 10 * time.Millisecond
)

// info gives what the node knows of its cluster. Who reads it must not take a node
// that is just leaving for one that has left.
func (m *member) info(ctx context.Context) (cluster.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, betweenPatience)
	defer cancel()
	again := time.NewTicker(betweenPause)
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

// GetCluster tells of the cluster. That there is none it tells only when the
// access control is this broker's own again: who reads it may go on to change that.
func (m *member) GetCluster(ctx context.Context) (control.HACluster, error) {
	info, err := m.info(ctx)
	if errors.Is(err, cluster.ErrNotClustered) && !m.isEntering() {
		if err := m.settle(context.WithoutCancel(ctx)); err != nil {
			return control.HACluster{}, told(err)
		}
	}
	if err != nil {
		return control.HACluster{}, told(err)
	}
	c := control.HACluster{
		ClusterName: info.Name, UUID: info.UUID, Version: info.Format, SyncMode: info.SyncMode, Leader: int(info.Leader),
	}
	for _, n := range info.Nodes {
		c.Nodes = append(c.Nodes, control.HANode{NodeID: int(n.NodeID), Address: n.Address, Port: n.Port, Mine: n.NodeID == info.Self})
	}
	return c, nil
}

// GetRaftStatus tells of the consensus.
func (m *member) GetRaftStatus(context.Context) (broker.RaftStatus, error) {
	s := m.node.Status()
	status := broker.RaftStatus{
		Nodes: []broker.RaftNode{}, State: s.State, CommitIndex: int64(s.CommitIndex), LastApplied: int64(s.LastApplied),
		LastStored: int64(s.LastStored), CurrentTerm: int64(s.Term), SyncMode: s.SyncMode, ErrorMessage: s.ErrMsg,
	}
	for _, n := range s.Nodes {
		status.Nodes = append(status.Nodes, broker.RaftNode{ID: int(n.NodeID), Address: n.Address, Role: n.Role})
	}
	return status, nil
}

// IsLeader tells whether this broker leads.
func (m *member) IsLeader(context.Context) (bool, error) { return m.node.IsLeader(), nil }
