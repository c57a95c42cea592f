package cluster

import (
	"encoding/json"
	"fmt"
)

// The names under which the node keeps what it has to remember.
const (
	keptIdentity = "cluster/identity"
	keptState    = "cluster/state"
	keptGraves   = "cluster/graves"
	keptEnding   = "cluster/ending"
)

// identity is who this node is in its cluster: what it needs before it knows the
// cluster's state.
type identity struct {
	UUID   string   `json:"uuid"`
	Self   Member   `json:"self"`
	CACert []byte   `json:"ca_cert"` // PEM, as the two below
	Cert   []byte   `json:"cert"`
	Key    []byte   `json:"key"`
	Known  []Member `json:"known"` // who was a member when it joined
}

func (i *identity) badge() (*badge, error) {
	return newBadge(i.UUID, i.Self.ref(), i.CACert, i.Cert, i.Key)
}

// badge gives what this node shows to others as that identity.
func (n *Node) badge(i *identity) (*badge, error) {
	b, err := i.badge()
	if err == nil {
		b.dial = n.options.dial
	}
	return b, err
}

func (i *identity) encode() []byte {
	text, err := json.Marshal(i)
	if err != nil {
		panic(err) // numbers, strings and bytes can be encoded
	}
	return text
}

// loadIdentity gives who this node is, nil at rest.
func (n *Node) loadIdentity() (*identity, error) {
	text, err := n.store.Kept(keptIdentity)
	if err != nil || text == nil {
		return nil, err
	}
	id := new(identity)
	if err := json.Unmarshal(text, id); err != nil {
		return nil, fmt.Errorf("read who this node is: %w", err)
	}
	return id, nil
}

// loadState gives what this node knows of its cluster.
func (n *Node) loadState() (*state, error) {
	text, err := n.store.Kept(keptState)
	if err != nil {
		return nil, err
	}
	if text == nil {
		return &state{Format: stateFormat}, nil
	}
	return decodeState(text)
}
