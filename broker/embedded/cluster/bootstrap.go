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

// firstIndex is the index at which a cluster begins. Its first entry is a snapshot, so that every
// node that joins receives the machine's state of the node that created the cluster.
const firstIndex = 1

// Create creates a cluster with this node as the first member, and returns invitations for the
// others. The state of its machine becomes that of the cluster, and so does the content of the
// Shared if the specification has one, so neither must be changed until Create returns. The node writes a snapshot of them at index 1, its
// identity and term 1 in one transaction, and restores the snapshot itself, too. It is the only
// voter until others have joined.
func (n *Node) Create(ctx context.Context, spec Spec) ([]Invitation, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if err := n.checkShared(spec.Shared); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := n.lock(ctx); err != nil {
		return nil, err
	}
	defer n.unlock()
	if err := n.checkNotClustered(); err != nil {
		return nil, err
	}
	known, err := newClusterState(spec)
	if err != nil {
		return nil, err
	}
	self, _ := known.member(spec.Self)
	id, err := known.identify(self)
	if err != nil {
		return nil, err
	}
	id.Own = true
	if err := n.bootstrap(ctx, known, id); err != nil {
		return nil, err
	}
	if err := n.startMembership(ctx, id); err != nil {
		return nil, n.rollBack(err)
	}
	if w := spec.Warning(); w != "" {
		n.log.Warn("the cluster cannot lose a node", "cluster", spec.Name, "reason", w)
	}
	if err := n.awaitLeadership(ctx); err != nil {
		return nil, n.rollBack(err)
	}
	return known.inviteAll(self)
}

// checkNotClustered checks that the node is in no cluster, and deletes what is left of an
// earlier one. The caller holds the transition lock.
func (n *Node) checkNotClustered() error {
	if _, err := n.running(); !errors.Is(err, ErrNotClustered) {
		return ErrClustered
	}
	n.setDeparture("", "")
	return nil
}

// awaitLeadership waits until this node leads, as the only voter.
func (n *Node) awaitLeadership(ctx context.Context) error {
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

// rollBack returns the node to rest after a failure, and returns the cause.
func (n *Node) rollBack(cause error) error {
	n.stopMembership(context.Background())
	if err := n.store.Clear(clearedValues()); err != nil {
		n.log.Error("the data of a former cluster cannot be deleted", "error", err)
	}
	if len(n.listTombstones()) == 0 {
		n.closePort() //nolint:errcheck // it is closed even with an error
	}
	return cause
}

// clearedValues are the changes that delete what a node has stored about its cluster.
func clearedValues() raftlog.Changes {
	return raftlog.Changes{nameIdentity: nil, nameState: nil, nameDeparture: nil, nameAcknowledged: nil, nameLeft: nil}
}

// newClusterState returns the initial state of a cluster.
func newClusterState(spec Spec) (*state, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("name the cluster: %w", err)
	}
	s := &state{Format: keyedFormat, UUID: id.String(), Name: spec.Name, SyncMode: spec.SyncMode, Members: slices.Clone(spec.Members), Shared: spec.Shared}
	if s.Shared {
		s.Format = sharedFormat
	}
	for i := range s.Members {
		s.Members[i].Generation = firstIndex
	}
	slices.SortFunc(s.Members, func(a, b Member) int { return int(a.NodeID - b.NodeID) })
	s.secrets = map[memberRef]crypto.Signer{}
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

// identify returns a new identity for a member, with a new key.
func (s *state) identify(m Member) (*identity, error) { return s.identifyWith(m, s.secrets[m.ref()]) }

// identifyWith returns the identity of a member for a key. In a cluster of an earlier release
// the authority signs its certificate.
func (s *state) identifyWith(m Member, key crypto.Signer) (id *identity, err error) {
	id = &identity{UUID: s.UUID, Self: m, Known: s.Members, Keys: s.Keys, Shared: s.Shared}
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

// invite returns the invitation of a member.
func (s *state) invite(m Member) (Invitation, error) { return s.inviteWith(m, s.secrets[m.ref()]) }

func (s *state) inviteWith(m Member, key crypto.Signer) (Invitation, error) {
	id, err := s.identifyWith(m, key)
	if err != nil {
		return Invitation{}, err
	}
	return Invitation{
		UUID: id.UUID, NodeID: m.NodeID, Generation: m.Generation,
		CACert: string(id.CACert), Cert: string(id.Cert), Key: string(id.Key), Nodes: id.Known, Keys: id.Keys, Shared: id.Shared,
	}, nil
}

// inviteAll returns the invitations of all members but one.
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

// bootstrap stores a cluster's first snapshot, and this node's identity in it.
func (n *Node) bootstrap(ctx context.Context, known *state, id *identity) error {
	v, err := takeSnapshot(ctx, n.options.Machine, n.options.Shared, header{State: *known})
	if err != nil {
		return fmt.Errorf("take the first snapshot of the cluster: %w", err)
	}
	defer v.Release()
	changes := raftlog.TermChange(firstIndex)
	maps.Copy(changes, raftlog.Changes{nameIdentity: id.encode(n.options.Seal), nameState: nil, nameDeparture: nil, nameLeft: nil})
	meta := raft.SnapshotMeta{
		Version: 1, Index: firstIndex, Term: firstIndex, ConfigurationIndex: firstIndex,
		Configuration: raft.Configuration{Servers: []raft.Server{id.Self.server(raft.Voter)}},
	}
	return n.store.Bootstrap(meta, func(w io.Writer) error { return v.write(w) }, changes)
}
