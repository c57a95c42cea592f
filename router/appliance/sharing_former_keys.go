package appliance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/broker/embedded"
)

// How often former keys are looked for, to be deleted, and how often those that are missing, or secrets that cannot be
// unsealed.
const (
	formerKeysInterval = 10 * time.Minute
	missingInterval    = time.Minute
)

// receiveFormer asks the other nodes for former keys, with which secrets may be sealed that the leader has yet to seal
// with the present one. With those that no node has that answers, it does without.
func (s sharedDatabase) receiveFormer(ctx context.Context, members embedded.SharedMembers) error {
	s.mu.Lock()
	due := s.missing
	s.mu.Unlock()
	if due.IsZero() || time.Now().Before(due) {
		return nil
	}
	ids, err := s.KeysInUse(ctx)
	if err != nil {
		return err
	}
	_, others, err := members.Others()
	if err != nil {
		return err
	}
	var next time.Time
	for _, id := range ids {
		if _, err := s.ring.Export(id); err == nil {
			continue
		}
		found, away, err := s.askForKey(ctx, members, id)
		switch {
		case err != nil:
			return err
		case found:
		case len(away) == len(others) && len(others) > 0:
			return fmt.Errorf("the node has not received a former key of the cluster's secrets, so it cannot use passwords of connections that are still sealed with it until a node answers that has the key: %w", errors.Join(away...))
		case len(away) > 0, len(others) == 0:
			next = time.Now().Add(missingInterval)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missing.Equal(due) { // otherwise the content was replaced meanwhile
		s.missing = next
	}
	return nil
}

// replaced notes that the content was replaced, whose secrets may be sealed with any keys.
func (k *sharedKeys) replaced() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.missing = time.Now()
	k.resealSoon()
}

// sealedWith is the key with which all secrets are sealed that this node could seal, and what it could not.
type sealedWith struct {
	key    string // "" if that is not known
	broken error  // secrets that cannot be unsealed
	again  time.Time
	noted  int // incremented when more could be sealed
}

// resealSoon has secrets looked for that are to be sealed anew. mu is held.
func (k *sharedKeys) resealSoon() { k.sealed = sealedWith{noted: k.sealed.noted + 1} }

// reseal seals secrets that are sealed with former keys with the present one, which this node or another leader
// has begun. It tries those again from time to time that cannot be unsealed: they may have been given anew.
func (s sharedDatabase) reseal(ctx context.Context) error {
	key := s.KeyState().ID
	s.mu.Lock()
	sealed := s.sealed
	s.mu.Unlock()
	if !s.ring.Has(key) || sealed.key == key && (sealed.broken == nil || time.Now().Before(sealed.again)) {
		return sealed.broken
	}
	broken, err := s.ResealSecrets(ctx)
	const text = "not all secrets can be sealed with the present key of the cluster"
	if err != nil {
		return fmt.Errorf(text+": %w", err)
	}
	now := sealedWith{key: key, noted: sealed.noted}
	if len(broken) > 0 {
		now.broken = fmt.Errorf(text+": give them anew, or delete what they belong to: %w", errors.Join(broken...))
		now.again = time.Now().Add(missingInterval)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed.noted == now.noted { // otherwise a key was received, or the content was replaced, meanwhile
		s.sealed = now
	}
	return now.broken
}

// dropFormer deletes former keys from time to time.
func (s sharedDatabase) dropFormer(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.dropped) < formerKeysInterval {
		return nil
	}
	s.dropped = now
	if err := s.DropSharedKeys(ctx, now); err != nil {
		return err
	}
	return s.use(ctx, s.DB)
}
