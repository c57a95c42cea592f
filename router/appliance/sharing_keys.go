package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"signalbox/broker/embedded"
	"signalbox/db"
	"signalbox/handlers/vault"
)

// sharedKeys are the keys of the secrets in the database, which the nodes of a cluster send to each
// other.
type sharedKeys struct {
	ring *vault.Keyring

	mu      sync.Mutex // held while keys are stored; guards the fields below
	next    nextKey
	dropped time.Time // when former keys were looked for last
	missing time.Time // when former keys that are missing are asked for next; zero if none are
	sealed  sealedWith

	absence absence // of Maintain
}

// nextKey is the key that this node has made to replace the present one.
type nextKey struct {
	id      string
	removal int64 // of the member, after which it was made
}

// openKeys returns the keys of the secrets in the database.
func openKeys(ctx context.Context, d *db.DB, machine *vault.Vault) (*sharedKeys, error) {
	k := &sharedKeys{ring: vault.NewKeyring(machine, db.SharedKeyID), missing: time.Now()}
	d.SetSecretKeys(k)
	return k, k.use(ctx, d)
}

// use sets the keys that the database has.
func (k *sharedKeys) use(ctx context.Context, d *db.DB) error {
	state, keys, err := d.SharedKeys(ctx)
	if err != nil {
		return err
	}
	stored := make(map[string][]byte, len(keys))
	for _, key := range keys {
		stored[key.ID] = key.Sealed
	}
	return k.ring.Use(state.ID, stored)
}

// Seal implements vault.Sealer.
func (k *sharedKeys) Seal(plain, aad []byte) []byte { return k.ring.Seal(plain, aad) }

// Unseal implements vault.Sealer. The error is db.ErrNoKey if the key has not been received.
func (k *sharedKeys) Unseal(sealed, aad []byte) ([]byte, error) {
	plain, err := k.ring.Unseal(sealed, aad)
	return plain, keyError(err)
}

// Reseal implements db.SecretKeys.
func (k *sharedKeys) Reseal(key string, secret, row []byte) ([]byte, error) {
	resealed, err := k.ring.Reseal(key, secret, row)
	return resealed, keyError(err)
}

// KeyOf implements db.SecretKeys.
func (*sharedKeys) KeyOf(secret []byte) string { return vault.KeyOf(secret) }

// keyError returns an error of the keyring as one of the database.
func keyError(err error) error {
	if errors.Is(err, vault.ErrNoKey) {
		return db.ErrNoKey
	}
	return err
}

// createKey seals all secrets with a new key of the database.
func (s sharedDatabase) createKey(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, sealed := s.ring.NewKey()
	if err := s.store(ctx, id, sealed); err != nil {
		return err
	}
	if err := s.BeginSharedKey(ctx, id); err != nil {
		return err
	}
	return s.use(ctx, s.DB)
}

// store stores a key, durably, and uses it for what is sealed with it.
func (s sharedDatabase) store(ctx context.Context, id string, sealed []byte) error {
	if err := s.StoreSharedKey(ctx, db.SharedKey{ID: id, Sealed: sealed}); err != nil {
		return err
	}
	return s.use(ctx, s.DB)
}

// keyRequest is a request to another node about a key: for the key with the ID or, if it has the key,
// to store it.
type keyRequest struct {
	ID      string `json:"id"`
	Key     []byte `json:"key,omitempty"`
	Removal uint64 `json:"removal,omitempty"` // the node that stores the key must know of this removal of a member
}

// keyResponse is the response. Without a key the node does not have it.
type keyResponse struct {
	Key []byte `json:"key,omitempty"`
}

// askTimeout bounds a request to another node.
const askTimeout = 3 * time.Second

// ask sends a request to another node.
func ask(ctx context.Context, members embedded.SharedMembers, node int, request, response any) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if text, err = members.Ask(ctx, node, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, response); err != nil {
		return fmt.Errorf("read the response of node %d: %w", node, err)
	}
	return nil
}

// askKey sends a request to another node, and returns the key that is in the response, if any.
func askKey(ctx context.Context, members embedded.SharedMembers, node int, r keyRequest) (key []byte, err error) {
	var response keyResponse
	err = ask(ctx, members, node, r, &response)
	return response.Key, err
}

// Answer implements embedded.Shared. A node that has not applied the removal of a member could send
// the new key to that, so it neither stores nor sends it.
func (s sharedDatabase) Answer(ctx context.Context, members embedded.SharedMembers, request []byte) ([]byte, error) {
	if response, err := s.answerSchema(request); response != nil || err != nil {
		return response, err
	}
	var r keyRequest
	if err := json.Unmarshal(request, &r); err != nil {
		return nil, fmt.Errorf("read the request about a key: %w", err)
	}
	if key := s.KeyState(); members.Removal() < r.Removal || r.Key == nil && int64(members.Removal()) < key.Since { //nolint:gosec // an index does not become that great
		return nil, errors.New("the node has yet to apply the removal of a member")
	}
	var response keyResponse
	if r.Key != nil {
		if err := s.receive(ctx, r.ID, r.Key); err != nil {
			return nil, err
		}
	} else if key, err := s.ring.Export(r.ID); err == nil {
		response.Key = key
	}
	return json.Marshal(response)
}

// receive stores a key of another node.
func (s sharedDatabase) receive(ctx context.Context, id string, key []byte) error {
	sealed, err := s.ring.Import(id, key)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.ContentReplaced() // connections are made that the key was missing for
	s.resealSoon()
	return s.store(ctx, id, sealed)
}

// Maintain implements embedded.Shared: it maintains the keys, and brings an older schema up to date.
func (s sharedDatabase) Maintain(ctx context.Context, members embedded.SharedMembers) error {
	err := s.maintainKeys(ctx, members)
	if s.IsOutdated() {
		err = errors.Join(err, s.upgrade(ctx, members))
	}
	return err
}

// maintainKeys asks the other nodes for the key of the secrets, if this node does not have it, and replaces
// that key after a member was removed, if this node leads; also if no node has it any more, so that
// secrets can be given anew. In an outdated database no key is replaced.
func (s sharedDatabase) maintainKeys(ctx context.Context, members embedded.SharedMembers) error {
	key := s.KeyState()
	if key.ID == "" {
		return nil
	}
	if !s.ring.Has(key.ID) {
		if err := s.use(ctx, s.DB); err != nil {
			return err
		}
	}
	leads := members.Leads() && !s.IsOutdated()
	removal := int64(members.Removal()) //nolint:gosec // an index does not become that great
	lost := ""
	if !s.ring.Has(key.ID) {
		isLost, err := s.receiveKey(ctx, members, key.ID)
		switch {
		case isLost && leads:
			lost = key.ID
		case err != nil:
			return err
		}
	}
	errs := []error{s.receiveFormer(ctx, members)}
	if leads {
		err := s.replaceKey(ctx, members, removal, lost)
		if err == nil {
			err = s.reseal(ctx)
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.dropFormer(ctx))...)
}

// receiveKey asks the other nodes for the present key. It is lost if all have answered that they do not have it.
func (s sharedDatabase) receiveKey(ctx context.Context, members embedded.SharedMembers, id string) (lost bool, err error) {
	found, away, err := s.askForKey(ctx, members, id)
	if found || err != nil {
		return false, err
	}
	const missing = "the node has not received the key of the cluster's secrets, so it cannot use or store passwords of connections until a node answers that has the key"
	if len(away) > 0 {
		return false, fmt.Errorf(missing+": %w", errors.Join(away...))
	}
	return true, errors.New(missing)
}

// askForKey asks the other nodes for a key, one after the other until one has it, and stores it. away are the errors of those that
// do not answer.
func (s sharedDatabase) askForKey(ctx context.Context, members embedded.SharedMembers, id string) (found bool, away []error, err error) {
	_, others, err := members.Others()
	if err != nil {
		return false, nil, err
	}
	for _, node := range others {
		key, err := askKey(ctx, members, node, keyRequest{ID: id})
		if err == nil && key != nil {
			return true, nil, s.receive(ctx, id, key)
		}
		if err != nil {
			away = append(away, fmt.Errorf("node %d: %w", node, err))
		}
	}
	return false, away, nil
}

// replaceKey has secrets sealed with a new key from now on, if the present one is lost or a removed node has it. A
// majority of the voters has stored the key before, so that it is not lost if what is sealed with it is not.
func (s sharedDatabase) replaceKey(ctx context.Context, members embedded.SharedMembers, removal int64, lost string) error {
	if lost == "" && removal <= s.KeyState().Since {
		return nil
	}
	id, err := s.nextKey(ctx, removal)
	if err != nil {
		return err
	}
	if err := s.distribute(ctx, members, keyRequest{ID: id, Removal: members.Removal()}); err != nil {
		return err
	}
	if _, err := s.ChangeSharedKey(ctx, id, removal, lost); err != nil {
		return fmt.Errorf("a node has left the cluster, and the secrets cannot be sealed with a new key: %w", err)
	}
	return s.use(ctx, s.DB)
}

// nextKey returns the ID of the key to be used after a removal, which it makes once.
func (s sharedDatabase) nextKey(ctx context.Context, removal int64) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next.removal == removal {
		if _, err := s.ring.Export(s.next.id); err == nil {
			return s.next.id, nil
		}
	}
	id, sealed := s.ring.NewKey()
	if err := s.store(ctx, id, sealed); err != nil {
		return "", err
	}
	s.next = nextKey{id, removal}
	return id, nil
}

// distribute has the other nodes store a key. It returns nil if a majority of the voters has it.
func (s sharedDatabase) distribute(ctx context.Context, members embedded.SharedMembers, r keyRequest) (err error) {
	if r.Key, err = s.ring.Export(r.ID); err != nil {
		return err
	}
	voters, others, err := members.Others()
	if err != nil {
		return err
	}
	var asked sync.WaitGroup
	errs := make([]error, len(others))
	for i, node := range others {
		asked.Go(func() { _, errs[i] = askKey(ctx, members, node, r) })
	}
	asked.Wait()
	stored := 1
	for i, node := range others {
		if errs[i] == nil && slices.Contains(voters, node) {
			stored++
		}
	}
	if 2*stored <= len(voters)+1 {
		return fmt.Errorf("a node has left the cluster, and the secrets are sealed with a new key as soon as a majority of the nodes has stored that: %w", errors.Join(errs...))
	}
	return nil
}
