package limits

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"signalbox/broker"
)

// maxBans bounds the bans in force. The newest is refused.
const maxBans = 100_000

// Store persists bans: package access, in the table ban of broker.db. A ban's Kind and Value are its key.
type Store interface {
	PutBan(ctx context.Context, b broker.Ban) error // a new one, or one to be replaced
	DeleteBans(ctx context.Context, bans []broker.Ban) error
	LoadBans(ctx context.Context) ([]broker.Ban, error)
}

// Bans are the bans in force. All methods are safe for concurrent use.
//
// Lookups are served from memory; a change is stored first. Changes are serialised by
// changing, which is held while the store is called and never taken by lookups.
type Bans struct {
	store    Store
	clocks   Clocks
	changing chan struct{} // of one; full while a change is under way

	mu    sync.RWMutex // guards index
	index *index
}

// Clocks decide when bans expire. A ban until a date expires by the time of day, whatever
// that is set to: the date is what was meant. A ban for a duration, as for flapping,
// expires by service time, which cannot be set.
type Clocks struct {
	Wall, Service func() time.Time
}

// moment is one moment by both clocks.
type moment struct{ wall, service time.Time }

func (c Clocks) now() moment { return moment{c.Wall(), c.Service()} }

// OpenBans loads the stored bans.
func OpenBans(ctx context.Context, s Store, c Clocks) (*Bans, error) {
	all, err := s.LoadBans(ctx)
	if err != nil {
		return nil, fmt.Errorf("load bans: %w", err)
	}
	b := &Bans{store: s, clocks: c, changing: make(chan struct{}, 1), index: newIndex()}
	for _, ban := range all {
		if err := b.index.put(ban); err != nil {
			return nil, fmt.Errorf("load the ban of %s %q: %w", ban.Kind, ban.Value, err)
		}
	}
	return b, nil
}

// Banned returns the ban that applies to a client, if there is one. An empty client id or
// username, and the zero Addr, match no ban.
func (b *Bans) Banned(clientID, username string, addr netip.Addr) (broker.Ban, bool) {
	now := b.clocks.now()
	b.mu.RLock()
	defer b.mu.RUnlock()
	if ban, ok := b.index.get(broker.BanClientID, clientID); ok && !expired(ban, now) {
		return ban, true
	}
	if ban, ok := b.index.get(broker.BanUsername, username); ok && !expired(ban, now) {
		return ban, true
	}
	for ban := range b.index.containing(plain(addr)) {
		if !expired(ban, now) {
			return ban, true
		}
	}
	return broker.Ban{}, false
}

// List returns the bans in force, ordered by kind and value, never nil.
func (b *Bans) List() []broker.Ban {
	now := b.clocks.now()
	found := b.filter(func(ban broker.Ban) bool { return !expired(ban, now) })
	slices.SortFunc(found, byKey)
	return found
}

func byKey(x, y broker.Ban) int {
	return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Value, y.Value))
}

// Add stores a ban, replacing an earlier one of the same kind and value, and returns it as
// stored. A zero CreatedAt means now. Existing connections stay; the caller disconnects
// those of a banned client.
//
// The error is Invalid for a ban that is not valid, and a Conflict at the maximum number of
// bans.
func (b *Bans) Add(ctx context.Context, ban broker.Ban) (broker.Ban, error) {
	const op = "addBan"
	now := b.clocks.now()
	if ban.CreatedAt.IsZero() {
		ban.CreatedAt = now.wall
	}
	ban, err := canonical(op, ban, now)
	if err != nil {
		return broker.Ban{}, err
	}
	err = b.change(ctx, func() error {
		if err := b.ensureCapacity(ctx, op, ban); err != nil {
			return err
		}
		if err := b.store.PutBan(ctx, ban); err != nil {
			return fmt.Errorf("store a ban: %w", err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.index.put(ban)
	})
	return ban, err
}

// Remove deletes a ban. The error is NotFound if it is not in force.
func (b *Bans) Remove(ctx context.Context, kind broker.BanKind, value string) error {
	const op = "deleteBan"
	value, err := canonicalValue(op, kind, value)
	if err != nil {
		return err
	}
	return b.change(ctx, func() error {
		ban, ok := b.get(kind, value)
		if !ok || expired(ban, b.clocks.now()) {
			return &broker.Error{Kind: broker.NotFound, Op: op, Msg: "there is no such ban"}
		}
		return b.remove(ctx, []broker.Ban{ban})
	})
}

// Sweep deletes the bans that have expired. Until it is called, Banned ignores them.
func (b *Bans) Sweep(ctx context.Context) error {
	return b.change(ctx, func() error { return b.sweep(ctx) })
}

// change runs do when no other change is under way.
func (b *Bans) change(ctx context.Context, do func() error) error {
	select {
	case b.changing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for another change of bans: %w", ctx.Err())
	}
	defer func() { <-b.changing }()
	return do()
}

// ensureCapacity deletes expired bans if there are too many to store one more.
func (b *Bans) ensureCapacity(ctx context.Context, op string, ban broker.Ban) error {
	if _, replaces := b.get(ban.Kind, ban.Value); replaces || b.size() < maxBans {
		return nil
	}
	if err := b.sweep(ctx); err != nil {
		return err
	}
	if b.size() < maxBans {
		return nil
	}
	return &broker.Error{Kind: broker.Conflict, Op: op, Msg: fmt.Sprintf("there are %d bans; no more can be kept", maxBans)}
}

// sweep deletes the bans that have expired. The caller is inside change.
func (b *Bans) sweep(ctx context.Context) error {
	now := b.clocks.now()
	return b.remove(ctx, b.filter(func(ban broker.Ban) bool { return expired(ban, now) }))
}

// remove deletes bans from the store and from memory. The caller is inside change.
func (b *Bans) remove(ctx context.Context, bans []broker.Ban) error {
	if len(bans) == 0 {
		return nil
	}
	if err := b.store.DeleteBans(ctx, bans); err != nil {
		return fmt.Errorf("delete bans: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ban := range bans {
		b.index.drop(ban)
	}
	return nil
}

// filter returns the bans that match, in no order and never nil.
func (b *Bans) filter(match func(broker.Ban) bool) []broker.Ban {
	b.mu.RLock()
	defer b.mu.RUnlock()
	found := []broker.Ban{}
	for ban := range b.index.all() {
		if match(ban) {
			found = append(found, ban)
		}
	}
	return found
}

func (b *Bans) get(kind broker.BanKind, value string) (broker.Ban, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.index.get(kind, value)
}

func (b *Bans) size() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.index.size()
}
