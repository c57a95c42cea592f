package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"signalbox/broker"
	"signalbox/broker/control"
)

// hall is where brokers find each other, and clusters are.
type hall struct {
	mu     sync.Mutex // guards all that is in the hall
	papers map[string]*paper
	made   int
	manner manner
}

// manner is how brokers go about making a cluster.
type manner int

const (
	ours   manner = iota // all who were named count at once, and join with an invitation
	others               // as ours without invitations; there is a leader when all have joined
	slow                 // only the first counts, until the others are added
)

// ring is a cluster as its nodes know it.
type ring struct {
	name, uuid string
	counted    []int
	seated     map[int]*paper
	leader     int
	term       int64
}

// elect sees who leads now: somebody who lives, if a majority does.
func (g *ring) elect(all bool) {
	alive := []int{}
	for id, p := range g.seated {
		if !p.dead && slices.Contains(g.counted, id) {
			alive = append(alive, id)
		}
	}
	need := len(g.counted)/2 + 1
	if all && g.term == 0 {
		need = len(g.counted)
	}
	switch {
	case len(alive) < need:
		g.leader = 0
	case !slices.Contains(alive, g.leader):
		g.leader, g.term = slices.Min(alive), g.term+1
	}
}

// paper is a broker on paper.
type paper struct {
	hall  *hall
	name  string
	in    *ring
	id    int
	log   []string
	dead  bool             // it does not run
	cut   bool             // the service does not reach it
	mute  bool             // it does not answer
	plain bool             // it knows no clusters
	fails map[string]error // what it says to a command instead of doing it
	lost  map[string]bool  // commands whose answer is lost
	after map[string]func()

	between bool // its consensus does not run

	standby int // how many questions it has no vote for, once it is in

	onFail func() // called when it said one of fails
}

// AskHA is how the service reaches the broker.
func (p *paper) AskHA(ctx context.Context, c control.HACommand, data any) error {
	switch {
	case ctx.Err() != nil:
		return &broker.Error{Kind: broker.Unavailable, Op: c.Name(), Msg: "not sent", Err: ctx.Err()}
	case p.dead || p.cut:
		return &broker.Error{Kind: broker.Unavailable, Op: c.Name(), Msg: p.name + " refuses connections"}
	case p.plain:
		return broker.NotSupported(c.Name(), broker.CapCluster)
	case p.mute:
		<-ctx.Done()
		return &broker.Error{Kind: broker.Unconfirmed, Op: c.Name(), Msg: p.name + " does not answer", Err: ctx.Err()}
	}
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
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
	if p.lost[c.Name()] {
		return &broker.Error{Kind: broker.Unconfirmed, Op: c.Name(), Msg: "the answer of " + p.name + " is lost"}
	}
	return control.ReadHA(c, answer, "x", data)
}

type invitation struct{ UUID string }

func (p *paper) sit(g *ring, id int) {
	p.in, p.id = g, id
	g.seated[id] = p
	g.elect(p.hall.manner == others)
}

func (p *paper) stand() {
	if p.in != nil {
		delete(p.in.seated, p.id)
		p.in.elect(false)
		p.in = nil
	}
}

func (p *paper) invite(id int) (control.Invitation, error) {
	return control.NewInvitation(id, invitation{p.in.uuid})
}

func (p *paper) CreateCluster(_ context.Context, s control.HASpec) (made control.HACreated, err error) {
	if p.in != nil {
		return made, control.ErrInCluster
	}
	p.hall.made++
	g := &ring{name: s.ClusterName, uuid: fmt.Sprint("uuid", p.hall.made), seated: map[int]*paper{}}
	var mine int
	for _, n := range s.Nodes {
		if n.Mine {
			mine = n.NodeID
		}
		if n.Mine || p.hall.manner != slow {
			g.counted = append(g.counted, n.NodeID)
		}
	}
	p.sit(g, mine)
	if p.hall.manner == ours {
		g.leader, g.term = mine, 1
	}
	for _, n := range s.Nodes {
		if n.Mine || p.hall.manner == others {
			continue
		}
		i, e := p.invite(n.NodeID)
		made.Invitations, err = append(made.Invitations, i), errors.Join(err, e)
	}
	return made, err
}

func (p *paper) JoinCluster(_ context.Context, s control.HASpec) error {
	if p.in != nil {
		return control.ErrInCluster
	}
	at := slices.IndexFunc(s.Nodes, func(n control.HANode) bool { return n.Mine })
	var i invitation
	if s.Invitation != nil {
		if err := s.Invitation.Open(&i); err != nil {
			return err
		}
	}
	for _, o := range p.hall.papers {
		if o.in != nil && (i.UUID == o.in.uuid || i.UUID == "" && p.hall.manner == others && s.ClusterName == o.in.name) {
			p.sit(o.in, s.Nodes[at].NodeID)
			return nil
		}
	}
	return &broker.Error{Kind: broker.Invalid, Msg: "Invalid invitation"}
}

func (p *paper) leads() error {
	if p.in == nil {
		return control.ErrNoCluster
	}
	if p.in.elect(false); p.in.leader != p.id {
		return control.ErrNotLeader
	}
	return nil
}

func (p *paper) AddNode(_ context.Context, _ string, n control.HANode) (added control.HAAdded, err error) {
	if err := p.leads(); err != nil {
		return added, err
	}
	if slices.Contains(p.in.counted, n.NodeID) && p.in.seated[n.NodeID] != nil {
		return added, control.ErrMember
	}
	if !slices.Contains(p.in.counted, n.NodeID) {
		p.in.counted = append(p.in.counted, n.NodeID)
	}
	if p.hall.manner == others {
		return added, nil
	}
	i, err := p.invite(n.NodeID)
	return control.HAAdded{Invitation: &i}, err
}

func (p *paper) RemoveNode(_ context.Context, _ string, n control.HANode) error {
	if err := p.leads(); err != nil {
		return err
	}
	if !slices.Contains(p.in.counted, n.NodeID) {
		return control.ErrNoNode
	}
	g := p.in
	g.counted = slices.DeleteFunc(g.counted, func(id int) bool { return id == n.NodeID })
	if gone := g.seated[n.NodeID]; gone != nil && !gone.dead && !gone.cut {
		gone.stand()
	}
	return nil
}

func (p *paper) LeaveCluster(_ context.Context, name string, _ control.HANode) error {
	if p.in == nil {
		return control.ErrNoCluster
	}
	if p.in.name != name {
		return control.ErrClusterName
	}
	g := p.in
	g.counted = slices.DeleteFunc(g.counted, func(id int) bool { return id == p.id })
	p.stand()
	return nil
}

func (p *paper) DeleteCluster(_ context.Context, name string) error {
	if err := p.leads(); err != nil {
		return err
	}
	if p.in.name != name {
		return control.ErrClusterName
	}
	for _, o := range p.in.seated {
		if !o.dead {
			o.in = nil
		}
	}
	return nil
}

func (p *paper) SetLeader(context.Context, string, int) error { return nil }

func (p *paper) GetCluster(context.Context) (control.HACluster, error) {
	if p.in == nil {
		return control.HACluster{}, control.ErrNoCluster
	}
	p.in.elect(p.hall.manner == others)
	c := control.HACluster{ClusterName: p.in.name, UUID: p.in.uuid, SyncMode: "dynsec", Leader: p.in.leader}
	for _, id := range p.in.counted {
		c.Nodes = append(c.Nodes, control.HANode{NodeID: id, Address: fmt.Sprint("10.0.0.", id), Port: 7000, Mine: id == p.id})
	}
	return c, nil
}

func (p *paper) GetRaftStatus(context.Context) (broker.RaftStatus, error) {
	s := broker.RaftStatus{Nodes: []broker.RaftNode{}}
	if p.in == nil || p.between {
		return s, nil
	}
	p.in.elect(p.hall.manner == others)
	s.State, s.CurrentTerm, s.LastStored = stateCandidate, p.in.term, 10
	if p.in.leader == p.id {
		s.State = stateLeader
	} else if p.in.leader > 0 && slices.Contains(p.in.counted, p.id) {
		s.State = stateFollower
	}
	for _, id := range p.in.counted {
		other := p.in.seated[id]
		if other == nil {
			continue
		}
		n := broker.RaftNode{ID: id, Role: 1}
		if p.in.leader == p.id && other.standby > 0 {
			n.Role, other.standby = 0, other.standby-1
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s, nil
}

func (p *paper) IsLeader(context.Context) (bool, error) { return p.in != nil && p.leads() == nil, nil }
