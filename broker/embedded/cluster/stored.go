package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"signalbox/broker/embedded/cluster/raftlog"
)

// Stored is what a folder has of a node: its number and the members of its cluster, none for a node
// that is in no cluster.
type Stored struct {
	Self    NodeID
	Members []Member
	Shared  bool // the cluster has a Shared
	Left    bool // the node is in no cluster, as it has left one, was removed, or was away when that was dissolved
	ids     []*identity
}

// ReadStored reads the files of the node in a folder, which may be open.
func ReadStored(ctx context.Context, dir string) (s Stored, err error) {
	values, err := raftlog.ReadValues(ctx, dir, nameIdentity, nameTombstones, nameState, nameLeft)
	if err != nil {
		return s, err
	}
	s.Left = values[nameLeft] != nil
	if text := values[nameTombstones]; text != nil {
		var dissolved []storedTombstone
		if err := json.Unmarshal(text, &dissolved); err != nil {
			return s, fmt.Errorf("read %s: %w", nameTombstones, err)
		}
		for _, t := range dissolved {
			s.ids = append(s.ids, t.Identity)
		}
	}
	text := values[nameIdentity]
	if text == nil {
		return s, nil
	}
	var id *identity
	if err := json.Unmarshal(text, &id); err != nil {
		return s, fmt.Errorf("read %s: %w", nameIdentity, err)
	}
	if id == nil {
		return s, nil
	}
	s.Left = false
	s.ids, s.Self, s.Members, s.Shared = append(s.ids, id), id.Self.NodeID, id.Known, id.Shared
	if text := values[nameState]; text != nil {
		now, err := decodeState(text)
		if err != nil {
			return s, err
		}
		s.Members, s.Shared = now.Members, now.Shared
	}
	return s, nil
}

// CheckSecrets opens the keys of the node with unseal, and returns their number and an error for each
// that cannot be opened.
func (s Stored) CheckSecrets(unseal func(sealed, aad []byte) ([]byte, error)) (n int, err error) {
	same := func(sealed, aad []byte) ([]byte, error) {
		_, err := unseal(sealed, aad)
		return sealed, err
	}
	for _, id := range s.ids {
		opened, failed := id.reseal(same)
		n, err = n+opened, errors.Join(err, failed)
	}
	return n, err
}

// HostPort returns the address of the member's cluster port.
func (m Member) HostPort() string { return m.hostPort() }
