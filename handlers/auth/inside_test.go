package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alexedwards/argon2id"

	"signalbox/db"
	"signalbox/db/dbtest"
)

func TestDummyHashCostsAsMuchAsAPassword(t *testing.T) {
	t.Parallel()
	match, params, err := argon2id.CheckHash("", dummyHash(hashing))
	if err != nil || match || *params != *hashing {
		t.Errorf("got match %t, %+v, %v, want no match with %+v", match, params, err, hashing)
	}
}

func TestHashPassword(t *testing.T) {
	t.Parallel()
	a := New(nil, DefaultConfig(), time.Now, nil)
	hash, err := a.HashPassword(t.Context(), "secret")
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("got %q, %v", hash, err)
	}
	for password, want := range map[string]bool{"secret": true, "Secret": false, "": false} {
		if got, err := a.verify(t.Context(), password, hash); got != want || err != nil {
			t.Errorf("verify %q: got %t, %v, want %t", password, got, err, want)
		}
	}
}

// With a full queue for hashing, every log-in that would hash is refused: that shows
// which log-ins get there.
func TestEveryLoginThatIsLookedAtHashes(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	a := New(d, DefaultConfig(), time.Now, slog.New(slog.DiscardHandler))
	for _, u := range []db.User{
		{ID: "good", PasswordHash: dummyHash(hashing), Verified: true},
		{ID: "bare", Verified: true},
		{ID: "sso", PasswordHash: dummyHash(hashing), Verified: true, SSOType: "ldap"},
		{ID: "unverified", PasswordHash: dummyHash(hashing)},
	} {
		u.Email = u.ID
		if err := d.CreateUser(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	for range cap(a.hasher.admitted) {
		a.hasher.admitted <- struct{}{}
	}
	for _, email := range []string{"good", "bare", "sso", "unverified", "unknown"} {
		_, err := a.Login(t.Context(), email, "password", Origin{Caller: email})
		if many, ok := errors.AsType[*TooManyAttempts](err); !ok || many.RetryAfter != time.Second {
			t.Errorf("%s: got %v, want it turned away by the queue for hashing", email, err)
		}
	}
}

// The counterpart: with a full queue, a pair that has to wait is refused before the
// queue.
func TestDelayedLoginDoesNotHash(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	a := New(dbtest.New(t), DefaultConfig(), func() time.Time { return now }, slog.New(slog.DiscardHandler))
	pair := pairKey(addressKey("192.0.2.1"), "u")
	for range freeAttempts + 3 {
		if err := a.throttle.begin(now, pair); err != nil {
			now = now.Add(time.Hour)
		}
		a.throttle.records[pair].Value.(*record).until = time.Time{}
	}
	if err := a.throttle.begin(now, pair); err != nil {
		t.Fatal(err)
	}
	for range cap(a.hasher.admitted) {
		a.hasher.admitted <- struct{}{}
	}
	_, err := a.Login(t.Context(), "u", "password", Origin{Caller: "192.0.2.1"})
	if many, ok := errors.AsType[*TooManyAttempts](err); !ok || many.RetryAfter <= time.Second {
		t.Errorf("got %v, want the delay of the pair", err)
	}
}

func TestHasherRunsAFewAndQueuesABoundedNumber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHasher()
		release, running := make(chan struct{}), make(chan struct{}, cap(h.admitted))
		results := make(chan error, cap(h.admitted))
		for range cap(h.admitted) {
			go func() {
				results <- h.run(t.Context(), func() error { running <- struct{}{}; <-release; return nil })
			}()
		}
		synctest.Wait()
		if len(running) != cap(h.running) {
			t.Errorf("%d run at once, want %d", len(running), cap(h.running))
		}
		if _, ok := errors.AsType[*TooManyAttempts](h.run(t.Context(), nil)); !ok {
			t.Error("one more than fits was not turned away")
		}
		close(release)
		for range cap(h.admitted) {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWaitingForTheHasherEndsWithTheContext(t *testing.T) {
	t.Parallel()
	h := newHasher()
	for range cap(h.running) {
		h.running <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.run(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if len(h.admitted) != 0 {
		t.Error("the one who left is still counted")
	}
}

func TestThrottleForgetsTheOldest(t *testing.T) {
	t.Parallel()
	th, now := newThrottle(), time.UnixMilli(1_700_000_000_000)
	key := func(i int) throttleKey { return addressKey(fmt.Sprint(i)) }
	for i := range throttleSize {
		if err := th.begin(now, key(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 * freeAttempts { // 0 becomes the most recent again, and 1 the oldest
		_ = th.begin(now.Add(time.Duration(i)*time.Hour), key(0))
	}
	if err := th.begin(now, key(-1)); err != nil {
		t.Fatal(err)
	}
	if _, ok := th.records[key(1)]; ok {
		t.Error("the oldest is still there")
	}
	if _, ok := th.records[key(0)]; !ok {
		t.Error("a recent one is gone")
	}
	if len(th.records) != throttleSize || th.recent.Len() != throttleSize {
		t.Errorf("got %d and %d records, want %d", len(th.records), th.recent.Len(), throttleSize)
	}
}

func TestDelayGrowsToItsEnd(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		0: 0, 4: 0, 5: time.Second, 6: 2 * time.Second, 14: 512 * time.Second, 15: longestDelay, 1000: longestDelay,
	} {
		if got := delayAfter(failures); got != want {
			t.Errorf("after %d failures: got %v, want %v", failures, got, want)
		}
	}
}

func FuzzAddressKey(f *testing.F) {
	for _, seed := range []string{"", "192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "fe80::1%eth0", "1.2.3.4:5", "[::1]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
			neighbour := ip.As16()
			neighbour[15] ^= 1
			if addressKey(address) != addressKey(netip.AddrFrom16(neighbour).String()) {
				t.Error("two keys for one /64")
			}
		}
		if addressKey(address) == pairKey(addressKey(address), "") {
			t.Error("an address and a pair share a key")
		}
	})
}

// A session created while the password is being changed must not outlive the change.
func TestLoginDuringAPasswordChangeGetsNoSession(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	a := New(d, DefaultConfig(), time.Now, slog.New(slog.DiscardHandler))
	u := db.User{ID: "u", Email: "u", PasswordHash: "old", Verified: true}
	if err := errors.Join(d.CreateUser(t.Context(), u), d.SetPassword(t.Context(), "u", "new", "", time.Now())); err != nil {
		t.Fatal(err)
	}
	if s, err := a.open(t.Context(), u, Origin{}); !errors.Is(err, ErrUnauthenticated) || s.Token != "" {
		t.Errorf("got %v, %q, want %v", err, s.Token, ErrUnauthenticated)
	}
}

func TestSessionOfAnUnverifiedUserOpensNothing(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	a := New(d, DefaultConfig(), time.Now, slog.New(slog.DiscardHandler))
	u := db.User{ID: "u", Email: "u"} // the user became unverified during the log-in
	if err := d.CreateUser(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	s, err := a.open(t.Context(), u, Origin{})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := a.Authenticate(t.Context(), s.Token); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("got %v, %v, want %v", p, err, ErrUnauthenticated)
	}
}

// newAuthWithToken returns an Auth with the bubble's clock, and a token.
func newAuthWithToken(t *testing.T) (a *Auth, d *db.DB, value string) {
	t.Helper()
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "signalbox.db"), slog.New(slog.DiscardHandler))
	value, hash := NewToken()
	err = errors.Join(err, d.Initialise(t.Context(), db.User{ID: "u", Verified: true}, db.Project{ID: "p", OwnerID: "u"}, nil),
		d.CreateToken(t.Context(), db.Token{ID: "t", ProjectID: "p", OwnerID: "u", Hash: hash, Role: "viewer", Type: "unrestricted"}))
	if err != nil {
		t.Fatal(err)
	}
	return New(d, DefaultConfig(), time.Now, slog.New(slog.DiscardHandler)), d, value
}

func lastUsed(t *testing.T, d *db.DB) time.Time {
	t.Helper()
	all, err := d.ListTokens(t.Context(), "p")
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0].LastUsedAt
}

func TestTokenUseIsNotedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, d, value := newAuthWithToken(t)
		use := func() {
			t.Helper()
			if _, err := a.Authenticate(t.Context(), value); err != nil {
				t.Fatal(err)
			}
		}
		wait := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		want := func(want time.Time) {
			t.Helper()
			if got := lastUsed(t, d); !got.Equal(want) {
				t.Errorf("got last use %v, want %v", got, want)
			}
		}
		use()
		want(time.Time{})
		wait(time.Second)
		use()
		second := time.Now()
		wait(updateDelay)
		want(second)
		wait(30 * time.Second)
		use()
		wait(updateDelay)
		want(second)
		wait(30 * time.Second)
		use()
		third := time.Now()
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(third)
		wait(updateInterval)
		use() // after Close nothing is recorded, and no goroutine runs
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(third)
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTouchesAreBounded(t *testing.T) {
	t.Parallel()
	a := New(dbtest.New(t), DefaultConfig(), time.Now, slog.New(slog.DiscardHandler))
	for i := range updateLimit + 10 {
		a.lastUsed.add(db.Token{ID: fmt.Sprint(i)}, time.Now())
	}
	a.lastUsed.mu.Lock()
	if got := len(a.lastUsed.pending); got > updateLimit {
		t.Errorf("%d uses are pending, want at most %d", got, updateLimit)
	}
	clear(a.lastUsed.pending) // there are no such tokens to write
	a.lastUsed.mu.Unlock()
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
