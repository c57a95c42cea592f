package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"signalbox/broker/embedded/cluster/raftlog"
)

// Reseal seals the stored keys of the node in a directory with another Sealer, and returns their
// number. The node must not be open.
func Reseal(ctx context.Context, dir string, reseal func(sealed, aad []byte) ([]byte, error)) (n int, err error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	store, err := raftlog.Open(ctx, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var id *identity
	var dissolved []storedTombstone
	for name, to := range map[string]any{nameIdentity: &id, nameTombstones: &dissolved} {
		if err := readValue(store, name, to); err != nil {
			return 0, err
		}
	}
	changes := raftlog.Changes{}
	if id != nil {
		n, err = id.reseal(reseal)
		changes[nameIdentity] = id.encode(nil)
	}
	for _, g := range dissolved {
		done, failed := g.Identity.reseal(reseal)
		n, err = n+done, errors.Join(err, failed)
	}
	if n == 0 || err != nil {
		return 0, err
	}
	if len(dissolved) > 0 {
		text, err := json.Marshal(dissolved)
		if err != nil {
			return 0, fmt.Errorf("write which clusters were dissolved: %w", err)
		}
		changes[nameTombstones] = text
	}
	return n, store.Update(changes)
}

// readKept reads the value of a name, if there is one.
func readValue(store *raftlog.Store, name string, to any) error {
	text, err := store.Value(name)
	if err != nil || text == nil {
		return err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// reseal seals the keys of a stored identity with another Sealer.
func (i *identity) reseal(reseal func(sealed, aad []byte) ([]byte, error)) (n int, err error) {
	for _, sealed := range []*[]byte{&i.SealedKey, &i.SealedNext} {
		if *sealed == nil {
			continue
		}
		if *sealed, err = reseal(*sealed, i.aad()); err != nil {
			return 0, fmt.Errorf("the key of node %d: %w", i.Self.NodeID, err)
		}
		n++
	}
	return n, nil
}
