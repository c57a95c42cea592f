package cluster

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"signalbox/broker/embedded/cluster/raftlog"
)

// The names of the node's stored values.
const (
	nameIdentity   = "cluster/identity"
	nameState      = "cluster/state"
	nameTombstones = "cluster/graves"
	nameDeparture  = "cluster/ending"
	nameLeft       = "cluster/left" // the last cluster goes on, or has gone on, without this node
	nameClock      = "cluster/clock"
)

// Sealer encrypts secrets. What was sealed with additional data opens only with the same data.
type Sealer interface {
	Seal(plain, aad []byte) []byte
	Unseal(sealed, aad []byte) ([]byte, error)
}

// identity is the node's identity in its cluster: what it needs before it has the cluster's
// state. It is replaced, not changed.
type identity struct {
	UUID   string `json:"uuid"`
	Self   Member `json:"self"`
	CACert []byte `json:"ca_cert,omitempty"` // PEM, as the two below; of a cluster that an earlier release created
	Cert   []byte `json:"cert"`              // of the key and of the keys that it has replaced
	Key    []byte `json:"key,omitempty"`     // in plain text only if there is no Sealer
	Next   []byte `json:"next,omitempty"`    // the key that is about to replace it, stored in the same way
	Own    bool   `json:"own,omitempty"`     // this node has made the key itself, so no other node ever had it

	SealedKey  []byte `json:"sealed_key,omitempty"`
	SealedNext []byte `json:"sealed_next,omitempty"`

	Known []Member       `json:"known"`          // the members when it joined
	Keys  map[string]pin `json:"keys,omitempty"` // of these members

	Shared bool `json:"shared,omitempty"` // the cluster has a Shared
}

// state returns the state of the cluster that an identity has.
func (i *identity) state() *state {
	return &state{Format: keyedFormat, UUID: i.UUID, Members: i.Known, Keys: i.Keys}
}

// setKey sets the node's key, and the certificates of those before.
func (i *identity) setKey(key crypto.Signer, signer crypto.Signer, before ...[]byte) error {
	der, err := certify(i.UUID, i.Self.ref(), key.Public(), signer, notBefore, notAfter)
	if err != nil {
		return err
	}
	if i.Key, err = encodeKey(key); err != nil {
		return err
	}
	before = before[:min(len(before), maxChain-2)]
	i.Cert = encodeCerts(append([][]byte{der}, before...)...)
	return nil
}

// credentials returns the node's credentials for an identity.
func (n *Node) credentials(i *identity) (*credentials, error) {
	b, err := i.credentials()
	if err == nil {
		b.dial, b.clock, b.life = n.options.dial, n.clock, n.options.Timing.Certificate
	}
	return b, err
}

// aad returns the additional data that binds a sealed key to its node.
func (i *identity) aad() []byte {
	return fmt.Appendf(nil, "cluster/identity/%s/%v", i.UUID, i.Self.ref())
}

// seal returns the identity as it is stored.
func (i *identity) seal(with Sealer) *identity {
	if with == nil {
		return i
	}
	sealed := *i
	for plain, to := range map[*[]byte]*[]byte{&sealed.Key: &sealed.SealedKey, &sealed.Next: &sealed.SealedNext} {
		if *plain != nil {
			*to, *plain = with.Seal(*plain, i.aad()), nil
		}
	}
	return &sealed
}

// unseal is the inverse of seal. It reports whether the keys were stored in the way that the
// Sealer requires.
func (i *identity) unseal(with Sealer) (asWanted bool, err error) {
	asWanted = with == nil || i.Key == nil && i.Next == nil
	for sealed, to := range map[*[]byte]*[]byte{&i.SealedKey: &i.Key, &i.SealedNext: &i.Next} {
		if *sealed == nil {
			continue
		}
		if with == nil {
			return false, fmt.Errorf("read the node's key: it is sealed, and there is nothing to open it with")
		}
		plain, err := with.Unseal(*sealed, i.aad())
		if err != nil {
			return false, fmt.Errorf("read the node's key: put the key file back with which it was sealed, "+
				"or take the node out of the cluster and have it join again: %w", err)
		}
		*to, *sealed = plain, nil
	}
	return asWanted, nil
}

func (i *identity) encode(with Sealer) []byte {
	text, err := json.Marshal(i.seal(with))
	if err != nil {
		panic(err) // numbers, strings and bytes can be encoded
	}
	return text
}

// loadIdentity returns the node's identity, nil at rest. It seals a key that an earlier release
// has stored in plain text.
func (n *Node) loadIdentity() (*identity, error) {
	text, err := n.store.Value(nameIdentity)
	if err != nil || text == nil {
		return nil, err
	}
	id := new(identity)
	if err := json.Unmarshal(text, id); err != nil {
		return nil, fmt.Errorf("read the identity of this node: %w", err)
	}
	asWanted, err := id.unseal(n.options.Seal)
	if err == nil && !asWanted {
		err = n.storeIdentity(id)
	}
	return id, err
}

func (n *Node) storeIdentity(id *identity) error {
	return n.store.Update(raftlog.Changes{nameIdentity: id.encode(n.options.Seal)})
}

// IsSealed reports whether a node in a directory has stored a key that is sealed.
func IsSealed(ctx context.Context, dir string) (is bool, err error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	store, err := raftlog.Open(ctx, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, name := range []string{nameIdentity, nameTombstones} {
		text, err := store.Value(name)
		if err != nil {
			return false, err
		}
		is = is || bytes.Contains(text, []byte(`"sealed_key":`))
	}
	return is, nil
}

// loadState returns the stored state of the node's cluster.
func (n *Node) loadState() (*state, error) {
	text, err := n.store.Value(nameState)
	if err != nil {
		return nil, err
	}
	if text == nil {
		return &state{Format: keyedFormat}, nil
	}
	return decodeState(text)
}
