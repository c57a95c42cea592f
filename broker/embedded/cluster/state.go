package cluster

import (
	"crypto"
	"encoding/json"
	"fmt"
	"slices"
)

// The formats of the cluster's own state. A node stops at a format that it does not know.
const (
	authorityFormat = 1 // of clusters that earlier releases created, which have an authority
	keyedFormat     = 2 // members are identified by their keys
	sharedFormat    = 3 // the cluster has a Shared
	stateFormat     = sharedFormat
)

// state is the replicated state of the cluster itself. It is replaced, never changed.
type state struct {
	Format    int      `json:"format"`
	UUID      string   `json:"uuid"`
	Name      string   `json:"name"`
	SyncMode  string   `json:"syncmode"`
	Members   []Member `json:"members"`           // by node id
	CACert    []byte   `json:"ca_cert,omitempty"` // of a cluster that an earlier release created
	CAKey     []byte   `json:"ca_key,omitempty"`
	Dissolved bool     `json:"dissolved,omitzero"`
	Index     uint64   `json:"index"` // index up to which it includes all commands; 0 while nothing was received

	secrets map[memberRef]crypto.Signer // keys of the invitations, at the node that creates the cluster; not stored

	Keys   map[string]pin `json:"keys,omitempty"`   // of the members, by ref; nil in a cluster that an earlier release created
	Former []former       `json:"former,omitempty"` // removed members, the latest last

	Shared  bool   `json:"shared,omitempty"`  // the cluster has a Shared; in format 3 only
	Removal uint64 `json:"removal,omitempty"` // index of the last order that removed a member, or had it join anew; in format 3 only
}

// member finds a node.
func (s *state) member(id NodeID) (Member, bool) {
	i := slices.IndexFunc(s.Members, func(m Member) bool { return m.NodeID == id })
	if i < 0 {
		return Member{}, false
	}
	return s.Members[i], true
}

// has reports whether a node is a member in this generation.
func (s *state) has(r memberRef) bool {
	m, ok := s.member(r.id)
	return ok && m.Generation == r.generation
}

// The orders that change the state.
const (
	opPut      = "put"
	opRemove   = "remove"
	opDissolve = "dissolve"
	opPin      = "pin" // members are identified by their keys from now on
	opKey      = "key" // changes the key of a member
)

// order is a command to the cluster's own state.
type order struct {
	Format int    `json:"format"`
	Op     string `json:"op"`
	Member Member `json:"member,omitzero"`
	Was    uint64 `json:"was,omitzero"` // the present generation of the member, 0 for a new member

	Key    string         `json:"key,omitempty"`     // fingerprint of the new key
	WasKey string         `json:"was_key,omitempty"` // fingerprint of the key that it replaces
	Keys   map[string]pin `json:"keys,omitempty"`    // keys of all members, for pin
}

// encode returns the order as a command of the log.
func (o order) encode() []byte {
	o.Format = authorityFormat
	if o.Key != "" || o.WasKey != "" || o.Keys != nil {
		o.Format = keyedFormat
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // numbers and strings can be encoded
	}
	return append([]byte{forCluster}, text...)
}

// decodeOrder decodes an order. An error means that a newer release made it.
func decodeOrder(text []byte) (order, error) {
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return order{}, fmt.Errorf("read an order to the cluster: %w", err)
	}
	if o.Format > keyedFormat || o.Format < authorityFormat || !slices.Contains([]string{opPut, opRemove, opDissolve, opPin, opKey}, o.Op) {
		return order{}, fmt.Errorf("order %q of format %d to the cluster is not known to this release", o.Op, o.Format)
	}
	return o, nil
}

// apply returns the state after an order. With an error it is s: the order is out of date, or
// not valid.
func (s *state) apply(index uint64, o order) (next *state, m Member, err error) {
	if s.Dissolved {
		return s, Member{}, ErrNotClustered
	}
	old, known := s.member(o.Member.NodeID)
	copied := *s
	copied.Index = index
	switch {
	case o.Op == opDissolve:
		copied.Dissolved = true
		return &copied, Member{}, nil
	case o.Op == opPin:
		if err := copied.pin(o.Keys); err != nil {
			return s, Member{}, err
		}
		return &copied, Member{}, nil
	case known != (o.Was != 0) || old.Generation != o.Was:
		return s, Member{}, fmt.Errorf("%w: node %d was changed meanwhile", ErrUnknownNode, o.Member.NodeID)
	}
	if o.Op == opKey {
		if err := copied.changeKey(old, o.WasKey, o.Key); err != nil {
			return s, Member{}, err
		}
		return &copied, old, nil
	}
	others := slices.DeleteFunc(slices.Clone(s.Members), func(m Member) bool { return m.NodeID == o.Member.NodeID })
	if o.Op == opRemove {
		if len(others) == 0 {
			return s, Member{}, ErrLastNode
		}
		copied.Members = others
		copied.forget(old, index)
		return &copied, old, nil
	}
	if (s.Keys != nil) != (o.Key != "") {
		return s, Member{}, fmt.Errorf("%w: the cluster has changed how it knows its nodes meanwhile, try again", ErrUnknownNode)
	}
	if err := o.Member.check(others); err != nil {
		return s, Member{}, err
	}
	if len(others) >= maxMembers {
		return s, Member{}, invalid("a cluster has at most %d nodes", maxMembers)
	}
	m = o.Member
	m.Generation = index
	copied.forget(old, index)
	if o.Key != "" {
		copied.setKey(m, pin{Key: o.Key})
	}
	copied.Members = append(others, m)
	slices.SortFunc(copied.Members, func(a, b Member) int { return int(a.NodeID - b.NodeID) })
	return &copied, m, nil
}

// encode returns the stored form of the state.
func (s *state) encode() []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // numbers, strings and bytes can be encoded
	}
	return text
}

// isKnown reports whether this release knows the format of the state.
func (s *state) isKnown() bool {
	return s.Format >= authorityFormat && s.Format <= stateFormat && (!s.Shared || s.Format == sharedFormat)
}

func decodeState(text []byte) (*state, error) {
	s := new(state)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read the state of the cluster: %w", err)
	}
	if !s.isKnown() {
		return nil, fmt.Errorf("the state of the cluster has format %d, this release knows %d: use the release of the other nodes", s.Format, stateFormat)
	}
	return s, nil
}
