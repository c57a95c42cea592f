package guard

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

// Store keeps bans beyond the process. A ban's Kind and Value are its key.
type Store interface {
	PutBan(ctx context.Context, b broker.Ban) error // a new one, or one to be replaced
	DeleteBans(ctx context.Context, bans []broker.Ban) error
	LoadBans(ctx context.Context) ([]broker.Ban, error)
}

// Bans is who may not come in. All methods are safe for concurrent use.
//
// What is asked is answered from memory; a change is stored first. One change
// is made at a time: changing is its turn, which is held while the store is
// called, and never by those who ask.
type Bans struct {
	store    Store
	clocks   Clocks
	changing chan struct{} // of one; full while a change is under way

	mu    sync.RWMutex // guards index
	index *index
}

// Clocks are what bans end by. A ban until a date, which is what people ask for, ends by
// the time of day, whatever that is set to: the date is what was meant. A ban for a while,
// as of who connects too often, ends by service time, which nobody can set.
type Clocks struct {
	Wall, Service func() time.Time
}

// moment is one by both clocks.
type moment struct{ wall, service time.Time }

func (c Clocks) now() moment { return moment{c.Wall(), c.Service()} }

// OpenBans reads the bans of earlier runs.
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

// Banned gives the ban that keeps a client out, if there is one. Client id and
// username are left out by "", the address by the zero Addr.
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
	for ban := range b.index.holding(plain(addr)) {
		if !expired(ban, now) {
			return ban, true
		}
	}
	return broker.Ban{}, false
}

// List gives the bans in force, ordered by kind and value, never nil.
func (b *Bans) List() []broker.Ban {
	now := b.clocks.now()
	found := b.filter(func(ban broker.Ban) bool { return !expired(ban, now) })
	slices.SortFunc(found, byKey)
	return found
}

func byKey(x, y broker.Ban) int {
	return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Value, y.Value))
}

// Add stores a ban, in place of an earlier one of the same kind and value, and
// gives it as stored. A zero CreatedAt is now. Connections that exist stay: to
// end those of a banned client is the caller's business.
//
// A ban that cannot be is Invalid, one that there is no room for a Conflict.
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
		if err := b.makeRoom(ctx, op, ban); err != nil {
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

// Remove takes a ban back. One that is not in force is NotFound.
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

// Sweep forgets the bans that have expired.
func (b *Bans) Sweep(ctx context.Context) error {
	return b.change(ctx, func() error { return b.sweep(ctx) })
}

// change waits for its turn and makes a change.
func (b *Bans) change(ctx context.Context, do func() error) error {
	select {
	case b.changing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for another change of bans: %w", ctx.Err())
	}
	defer func() { <-b.changing }()
	return do()
}

// makeRoom sees to it that there is room for a ban.
func (b *Bans) makeRoom(ctx context.Context, op string, ban broker.Ban) error {
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

// sweep forgets what has expired. It is part of a change.
func (b *Bans) sweep(ctx context.Context) error {
	now := b.clocks.now()
	return b.remove(ctx, b.filter(func(ban broker.Ban) bool { return expired(ban, now) }))
}

// remove takes bans out of store and memory. It is part of a change.
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

// filter gives the bans that match, in no order and never nil.
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
