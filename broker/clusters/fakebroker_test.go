package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
)

// fakeNetwork is a network of brokers and their clusters.
type fakeNetwork struct {
	mu      sync.Mutex // guards the network and all brokers in it
	brokers map[string]*fakeBroker
	made    int
	variant variant
}

// variant is a variant of how brokers create a cluster.
type variant int

const (
	variantOurs   variant = iota // every node in the description is listed at once, and joins with an invitation
	variantOthers                // like ours without invitations; a leader is elected when all have joined
	variantSlow                  // only the first node is listed, until the others are added
)

// fakeCluster is a cluster according to its nodes.
type fakeCluster struct {
	name, uuid string
	listed     []int
	members    map[int]*fakeBroker
	leader     int
	term       int64
}

// elect elects a running node if a majority runs.
func (g *fakeCluster) elect(all bool) {
	alive := []int{}
	for id, p := range g.members {
		if !p.stopped && slices.Contains(g.listed, id) {
			alive = append(alive, id)
		}
	}
	need := len(g.listed)/2 + 1
	if all && g.term == 0 {
		need = len(g.listed)
	}
	switch {
	case len(alive) < need:
		g.leader = 0
	case !slices.Contains(alive, g.leader):
		g.leader, g.term = slices.Min(alive), g.term+1
	}
}

// fakeBroker is a fake broker.
type fakeBroker struct {
	network       *fakeNetwork
	name          string
	cluster       *fakeCluster
	id            int
	log           []string
	stopped       bool // it does not run
	unreachable   bool // it is unreachable for the service
	silent        bool // it does not respond
	noClusters    bool // it does not support clusters
	drained       bool
	hasJoined     bool             // it has the access control of a cluster in place of its own
	fails         map[string]error // errors that it returns for commands without executing them
	lostResponses map[string]bool  // commands whose response is lost
	after         map[string]func()

	noConsensus bool // its consensus does not run

	cutOff   string    // why the leader cannot reach it
	cutUntil time.Time // when it is reached, zero for never
	old      bool      // as a leader it does not report that

	standby int // for how many requests it has no vote after it has joined

	onFail func() // called when it has returned one of fails
}

// AskHA implements Asker.
func (p *fakeBroker) AskHA(ctx context.Context, c control.HACommand, data any) error {
	switch {
	case ctx.Err() != nil:
		return &broker.Error{Kind: broker.Unavailable, Op: c.Name(), Msg: "not sent", Err: ctx.Err()}
	case p.stopped || p.unreachable:
		return &broker.Error{Kind: broker.Unavailable, Op: c.Name(), Msg: p.name + " refuses connections"}
	case p.noClusters:
		return broker.NotSupported(c.Name(), broker.CapCluster)
	case p.silent:
		<-ctx.Done()
		return &broker.Error{Kind: broker.Unconfirmed, Op: c.Name(), Msg: p.name + " does not answer", Err: ctx.Err()}
	}
	p.network.mu.Lock()
	defer p.network.mu.Unlock()
	if name := c.Name(); name != "getCluster" && name != "getRaftStatus" {
		p.log = append(p.log, name)
	}
	if err := p.fails[c.Name()]; err != nil {
		if p.onFail != nil {
			p.onFail()
		}
		return err
	}
	answer := control.HA(ctx, p, c.Encode("x"))
	if then := p.after[c.Name()]; then != nil {
		then()
	}
	if p.lostResponses[c.Name()] {
		return &broker.Error{Kind: broker.Unconfirmed, Op: c.Name(), Msg: "the answer of " + p.name + " is lost"}
	}
	return control.ReadHA(c, answer, "x", data)
}

// isCutOff reports whether the leader cannot reach the broker.
func (p *fakeBroker) isCutOff() bool {
	return p.cutOff != "" && (p.cutUntil.IsZero() || time.Now().Before(p.cutUntil))
}

type invitation struct{ UUID string }

func (p *fakeBroker) join(g *fakeCluster, id int) {
	p.cluster, p.id = g, id
	g.members[id] = p
	g.elect(p.network.variant == variantOthers)
}

func (p *fakeBroker) leave() {
	if p.cluster != nil {
		delete(p.cluster.members, p.id)
		p.cluster.elect(false)
		p.cluster = nil
	}
}

func (p *fakeBroker) invite(id int) (control.Invitation, error) {
	return control.NewInvitation(id, invitation{p.cluster.uuid})
}

func (p *fakeBroker) CreateCluster(_ context.Context, s control.HASpec) (made control.HACreated, err error) {
	if p.cluster != nil {
		return made, control.ErrInCluster
	}
	p.network.made++
	g := &fakeCluster{name: s.ClusterName, uuid: fmt.Sprint("uuid", p.network.made), members: map[int]*fakeBroker{}}
	var mine int
	for _, n := range s.Nodes {
		if n.Mine {
			mine = n.NodeID
		}
		if n.Mine || p.network.variant != variantSlow {
			g.listed = append(g.listed, n.NodeID)
		}
	}
	p.join(g, mine)
	if p.network.variant == variantOurs {
		g.leader, g.term = mine, 1
	}
	for _, n := range s.Nodes {
		if n.Mine || p.network.variant == variantOthers {
			continue
		}
		i, e := p.invite(n.NodeID)
		made.Invitations, err = append(made.Invitations, i), errors.Join(err, e)
	}
	return made, err
}

func (p *fakeBroker) JoinCluster(_ context.Context, s control.HASpec) error {
	if p.cluster != nil {
		return control.ErrInCluster
	}
	at := slices.IndexFunc(s.Nodes, func(n control.HANode) bool { return n.Mine })
	var i invitation
	if s.Invitation != nil {
		if err := s.Invitation.Open(&i); err != nil {
			return err
		}
	}
	for _, o := range p.network.brokers {
		if o.cluster != nil && (i.UUID == o.cluster.uuid || i.UUID == "" && p.network.variant == variantOthers && s.ClusterName == o.cluster.name) {
			p.join(o.cluster, s.Nodes[at].NodeID)
			p.hasJoined = true
			return nil
		}
	}
	return &broker.Error{Kind: broker.Invalid, Msg: "Invalid invitation"}
}

func (p *fakeBroker) leads() error {
	if p.cluster == nil {
		return control.ErrNoCluster
	}
	if p.cluster.elect(false); p.cluster.leader != p.id {
		return control.ErrNotLeader
	}
	return nil
}

func (p *fakeBroker) AddNode(_ context.Context, _ string, n control.HANode) (added control.HAAdded, err error) {
	if err := p.leads(); err != nil {
		return added, err
	}
	if slices.Contains(p.cluster.listed, n.NodeID) && p.cluster.members[n.NodeID] != nil {
		return added, control.ErrMember
	}
	if !slices.Contains(p.cluster.listed, n.NodeID) {
		p.cluster.listed = append(p.cluster.listed, n.NodeID)
	}
	if p.network.variant == variantOthers {
		return added, nil
	}
	i, err := p.invite(n.NodeID)
	return control.HAAdded{Invitation: &i}, err
}

func (p *fakeBroker) RemoveNode(_ context.Context, _ string, n control.HANode) error {
	if err := p.leads(); err != nil {
		return err
	}
	if !slices.Contains(p.cluster.listed, n.NodeID) {
		return control.ErrNoNode
	}
	g := p.cluster
	g.listed = slices.DeleteFunc(g.listed, func(id int) bool { return id == n.NodeID })
	if gone := g.members[n.NodeID]; gone != nil && !gone.stopped && !gone.unreachable {
		gone.leave()
	}
	return nil
}

func (p *fakeBroker) LeaveCluster(_ context.Context, name string, _ control.HANode) error {
	if p.cluster == nil {
		return control.ErrNoCluster
	}
	if p.cluster.name != name {
		return control.ErrClusterName
	}
	g := p.cluster
	g.listed = slices.DeleteFunc(g.listed, func(id int) bool { return id == p.id })
	p.leave()
	return nil
}

func (p *fakeBroker) DeleteCluster(_ context.Context, name string) error {
	if err := p.leads(); err != nil {
		return err
	}
	if p.cluster.name != name {
		return control.ErrClusterName
	}
	for _, o := range p.cluster.members {
		if !o.stopped {
			o.cluster = nil
		}
	}
	return nil
}

func (p *fakeBroker) DrainNode(context.Context, string) error {
	for _, other := range p.cluster.members {
		if other != p && !other.drained {
			p.drained = true
			return nil
		}
	}
	return control.ErrNoOther
}

func (p *fakeBroker) UndrainNode(context.Context, string) error {
	p.drained = false
	return nil
}

func (p *fakeBroker) UndoJoin(context.Context, string) error {
	switch {
	case p.cluster != nil:
		return control.ErrInCluster
	case !p.hasJoined:
		return control.ErrNothingKept
	}
	p.hasJoined = false
	return nil
}

func (p *fakeBroker) SetLeader(context.Context, string, int) error { return nil }

func (p *fakeBroker) GetCluster(context.Context) (control.HACluster, error) {
	if p.cluster == nil {
		return control.HACluster{}, control.ErrNoCluster
	}
	p.cluster.elect(p.network.variant == variantOthers)
	if p.isCutOff() {
		return control.HACluster{UUID: p.cluster.uuid}, nil
	}
	c := control.HACluster{ClusterName: p.cluster.name, UUID: p.cluster.uuid, SyncMode: "dynsec", Leader: p.cluster.leader}
	for _, id := range p.cluster.listed {
		c.Nodes = append(c.Nodes, control.HANode{NodeID: id, Address: fmt.Sprint("10.0.0.", id), Port: 7000, Mine: id == p.id})
	}
	return c, nil
}

func (p *fakeBroker) GetRaftStatus(context.Context) (broker.RaftStatus, error) {
	s := broker.RaftStatus{Nodes: []broker.RaftNode{}}
	if p.cluster == nil || p.noConsensus {
		return s, nil
	}
	p.cluster.elect(p.network.variant == variantOthers)
	s.State, s.CurrentTerm, s.LastStored = stateCandidate, p.cluster.term, 10
	if p.drained {
		s.Drain = broker.Drain{Drained: true, SessionsLeft: 7}
	}
	if p.cluster.leader == p.id {
		s.State = stateLeader
	} else if p.cluster.leader > 0 && slices.Contains(p.cluster.listed, p.id) {
		s.State = stateFollower
	}
	for _, id := range p.cluster.listed {
		other := p.cluster.members[id]
		if other == nil {
			continue
		}
		n := broker.RaftNode{ID: id, Role: 1}
		if other.isCutOff() {
			n.Role = roleSpare
			if !p.old {
				n.Error = other.cutOff
			}
		}
		if p.cluster.leader == p.id && other.standby > 0 {
			n.Role, other.standby = 0, other.standby-1
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s, nil
}

func (p *fakeBroker) IsLeader(context.Context) (bool, error) {
	return p.cluster != nil && p.leads() == nil, nil
}
