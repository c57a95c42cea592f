package cluster

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"signalbox/broker/embedded/cluster/raftlog"
)

// genesis is the index at which a cluster begins: its first entry is a snapshot,
// so that whoever joins receives the machine's state of the node that made it.
const genesis = 1

// Create makes a cluster of which this node is the first member. Its machine's
// state becomes everybody's: from here on until Create returns, nobody may change
// the machine. The others come in with the invitations; until a majority of those
// who came has agreed, nothing more is needed than this node.
func (n *Node) Create(ctx context.Context, spec Spec) ([]Invitation, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if err := n.take(ctx); err != nil {
		return nil, err
	}
	defer n.giveBack()
	if err := n.atRest(); err != nil {
		return nil, err
	}
	known, err := found(spec)
	if err != nil {
		return nil, err
	}
	self, _ := known.member(spec.Self)
	id, err := known.identify(self)
	if err != nil {
		return nil, err
	}
	id.Own = true
	if err := n.begin(ctx, known, id); err != nil {
		return nil, err
	}
	if err := n.sitDown(ctx, id); err != nil {
		return nil, n.undo(err)
	}
	if w := spec.Warning(); w != "" {
		n.log.Warn("the cluster cannot lose a node", "cluster", spec.Name, "reason", w)
	}
	if err := n.lead(ctx); err != nil {
		return nil, n.undo(err)
	}
	return known.inviteAll(self)
}

// atRest makes sure that the node is in no cluster, and has nothing left of one.
// The caller has the turn.
func (n *Node) atRest() error {
	if _, err := n.place(); !errors.Is(err, ErrNotClustered) {
		return ErrClustered
	}
	n.setEnding("", "")
	return nil
}

// lead waits until this node leads, as the only one.
func (n *Node) lead(ctx context.Context) error {
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	for {
		_, err := n.Lead(ctx)
		if err == nil || !notBegun(err) {
			return err
		}
		pause(ctx, min(n.options.Timing.Heartbeat/16, 20*time.Millisecond))
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ErrNoLeader, context.Cause(ctx))
		}
	}
}

// undo comes to rest again after what was begun did not succeed.
func (n *Node) undo(cause error) error {
	n.standUp(context.Background())
	if err := n.store.Clear(forgotten()); err != nil {
		n.log.Error("the traces of a cluster cannot be cleared", "err", err)
	}
	if len(n.listGraves()) == 0 {
		n.closePort() //nolint:errcheck // it is closed whatever it says
	}
	return cause
}

// forgotten is what lets go of the cluster that a node was in.
func forgotten() raftlog.Changes {
	return raftlog.Changes{keptIdentity: nil, keptState: nil, keptEnding: nil, keptAcknowledged: nil}
}

// found makes the state with which a cluster begins.
func found(spec Spec) (*state, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("name the cluster: %w", err)
	}
	s := &state{Format: stateFormat, UUID: id.String(), Name: spec.Name, SyncMode: spec.SyncMode, Members: slices.Clone(spec.Members)}
	for i := range s.Members {
		s.Members[i].Generation = genesis
	}
	slices.SortFunc(s.Members, func(a, b Member) int { return int(a.NodeID - b.NodeID) })
	s.secrets = map[ref]crypto.Signer{}
	for _, m := range s.Members {
		key, err := newKey()
		if err != nil {
			return nil, err
		}
		name, err := fingerprintOf(key)
		if err != nil {
			return nil, err
		}
		s.secrets[m.ref()] = key
		s.setKey(m, pin{Key: name})
	}
	return s, nil
}

// identify makes what a member needs to take part.
func (s *state) identify(m Member) (*identity, error) { return s.identifyWith(m, s.secrets[m.ref()]) }

// identifyWith makes it with a key. In a cluster that was made by an earlier release its
// authority signs.
func (s *state) identifyWith(m Member, key crypto.Signer) (id *identity, err error) {
	id = &identity{UUID: s.UUID, Self: m, Known: s.Members, Keys: s.Keys}
	if s.Keys == nil {
		err = id.certifyBy(s, key)
	} else {
		err = id.setKey(key, key)
	}
	if err != nil {
		return nil, fmt.Errorf("make an identity for node %d: %w", m.NodeID, err)
	}
	return id, nil
}

// invite makes the invitation of a member.
func (s *state) invite(m Member) (Invitation, error) { return s.inviteWith(m, s.secrets[m.ref()]) }

func (s *state) inviteWith(m Member, key crypto.Signer) (Invitation, error) {
	id, err := s.identifyWith(m, key)
	if err != nil {
		return Invitation{}, err
	}
	return Invitation{
		UUID: id.UUID, NodeID: m.NodeID, Generation: m.Generation,
		CACert: string(id.CACert), Cert: string(id.Cert), Key: string(id.Key), Nodes: id.Known, Keys: id.Keys,
	}, nil
}

// inviteAll invites all members but one.
func (s *state) inviteAll(but Member) (all []Invitation, err error) {
	for _, m := range s.Members {
		if m == but {
			continue
		}
		i, err := s.invite(m)
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	return all, nil
}

// begin keeps a cluster's first snapshot, and who this node is in it.
func (n *Node) begin(ctx context.Context, known *state, id *identity) error {
	m, err := n.options.Machine.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("take the first snapshot of the cluster: %w", err)
	}
	v := &view{machine: m, header: header{State: *known}}
	defer v.Release()
	changes := raftlog.TermChange(genesis)
	maps.Copy(changes, raftlog.Changes{keptIdentity: id.encode(n.options.Seal), keptState: nil, keptEnding: nil})
	meta := raft.SnapshotMeta{
		Version: 1, Index: genesis, Term: genesis, ConfigurationIndex: genesis,
		Configuration: raft.Configuration{Servers: []raft.Server{id.Self.server(raft.Voter)}},
	}
	return n.store.Bootstrap(meta, func(w io.Writer) error { return v.write(w) }, changes)
}

// Join accepts an invitation. When it returns nil, this node's machine has the
// state of the cluster. If the context ends before that, the error is ErrWaiting:
// the node has joined, and waits on. After ErrInvitation it is at rest again.
func (n *Node) Join(ctx context.Context, spec Spec, inv Invitation) error {
	if err := spec.Check(); err != nil {
		return err
	}
	id, err := inv.accept(spec)
	if err != nil {
		return err
	}
	if err := n.join(ctx, id); err != nil {
		return err
	}
	for ctx.Err() == nil {
		s, err := n.place()
		if err == nil {
			err = s.await(ctx, inv.Generation)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrNotClustered):
			return fmt.Errorf("%w: the cluster does not have the node as a member", ErrInvitation)
		case errors.Is(err, ErrClosed):
			return err
		}
		pause(ctx, n.options.Timing.Heartbeat/16) // it is started anew
	}
	return fmt.Errorf("%w: %w", ErrWaiting, context.Cause(ctx))
}

// accept makes sure that an invitation is for this node and this cluster.
func (i Invitation) accept(spec Spec) (*identity, error) {
	if i.NodeID != spec.Self {
		return nil, fmt.Errorf("%w: it is for node %d, and this is node %d", ErrInvitation, i.NodeID, spec.Self)
	}
	at := slices.IndexFunc(spec.Members, func(m Member) bool { return m.NodeID == spec.Self })
	id := &identity{
		UUID: i.UUID, Self: spec.Members[at], Known: i.Nodes, Keys: i.Keys,
		CACert: []byte(i.CACert), Cert: []byte(i.Cert), Key: []byte(i.Key),
	}
	id.Self.Generation = i.Generation
	if len(id.Known) == 0 {
		return nil, fmt.Errorf("%w: it names no nodes", ErrInvitation)
	}
	if _, err := id.credentials(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvitation, err)
	}
	return id, nil
}

// join keeps who this node is, and opens the port.
func (n *Node) join(ctx context.Context, id *identity) error {
	if err := n.take(ctx); err != nil {
		return err
	}
	defer n.giveBack()
	if err := n.atRest(); err != nil {
		return err
	}
	c := forgotten()
	c[keptIdentity] = id.encode(n.options.Seal)
	if err := n.store.Clear(c); err != nil {
		return err
	}
	if err := n.sitDown(ctx, id); err != nil {
		return n.undo(err)
	}
	return nil
}
