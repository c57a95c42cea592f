package limits_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/embedded/limits"
)

// memoryStore keeps bans in memory.
type memoryStore struct {
	mu   sync.Mutex
	bans map[string]broker.Ban
	err  error // returned by every method
}

func newMemoryStore(bans ...broker.Ban) *memoryStore {
	s := &memoryStore{bans: map[string]broker.Ban{}}
	for _, b := range bans {
		s.bans[string(b.Kind)+b.Value] = b
	}
	return s
}

func (s *memoryStore) PutBan(_ context.Context, b broker.Ban) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.bans[string(b.Kind)+b.Value] = b
	}
	return s.err
}

func (s *memoryStore) DeleteBans(_ context.Context, bans []broker.Ban) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		for _, b := range bans {
			delete(s.bans, string(b.Kind)+b.Value)
		}
	}
	return s.err
}

func (s *memoryStore) LoadBans(context.Context) ([]broker.Ban, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.bans)), s.err
}

func openBans(t *testing.T, s limits.Store, c *clock) *limits.Bans {
	t.Helper()
	b, err := limits.OpenBans(t.Context(), s, limits.Clocks{Wall: c.now, Service: c.now})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func add(t *testing.T, b *limits.Bans, kind broker.BanKind, value string, expires time.Time) {
	t.Helper()
	ban := broker.Ban{Kind: kind, Value: value, CreatedBy: limits.ByAPI, ExpiresAt: expires}
	if _, err := b.Add(t.Context(), ban); err != nil {
		t.Fatalf("ban %s %q: %v", kind, value, err)
	}
}

func TestBanned(t *testing.T) {
	t.Parallel()
	b := openBans(t, newMemoryStore(), newClock())
	add(t, b, broker.BanClientID, "bad-id", time.Time{})
	add(t, b, broker.BanUsername, "bad-user", time.Time{})
	add(t, b, broker.BanAddress, "10.1.2.3", time.Time{})
	add(t, b, broker.BanAddress, "172.16.5.5/12", time.Time{})
	add(t, b, broker.BanAddress, "2001:db8::/32", time.Time{})
	add(t, b, broker.BanAddress, "::ffff:198.51.100.0/120", time.Time{})
	for _, c := range []struct{ id, user, from, want string }{
		{"id", "user", "10.1.2.4", ""},
		{"bad-id", "user", "10.1.2.4", "bad-id"},
		{"bad-user", "bad-id", "10.1.2.4", ""},
		{"id", "bad-user", "10.1.2.4", "bad-user"},
		{"id", "user", "10.1.2.3", "10.1.2.3"},
		{"id", "user", "::ffff:10.1.2.3", "10.1.2.3"},
		{"id", "user", "172.31.255.255", "172.16.0.0/12"},
		{"id", "user", "172.32.0.0", ""},
		{"id", "user", "2001:db8:ffff::1", "2001:db8::/32"},
		{"id", "user", "2001:db9::1", ""},
		{"id", "user", "198.51.100.77", "198.51.100.0/24"},
		{"", "", "10.1.2.3", "10.1.2.3"},
	} {
		got, banned := b.Banned(c.id, c.user, addr(c.from))
		if banned != (c.want != "") || got.Value != c.want {
			t.Errorf("%+v: banned %v by %q", c, banned, got.Value)
		}
	}
	if _, banned := b.Banned("", "", netip.Addr{}); banned {
		t.Error("nobody at all is banned")
	}
}

func TestBannedPrefersTheSmallestNetwork(t *testing.T) {
	t.Parallel()
	c := newClock()
	b := openBans(t, newMemoryStore(), c)
	add(t, b, broker.BanAddress, "10.0.0.0/8", time.Time{})
	add(t, b, broker.BanAddress, "10.1.0.0/16", c.now().Add(time.Minute))
	add(t, b, broker.BanAddress, "0.0.0.0/0", time.Time{})
	for _, want := range []string{"10.1.0.0/16", "10.0.0.0/8"} {
		if got, _ := b.Banned("", "", addr("10.1.2.3")); got.Value != want {
			t.Errorf("banned by %q, want %q", got.Value, want)
		}
		c.pass(time.Minute)
	}
	if err := b.Remove(t.Context(), broker.BanAddress, "10.0.0.0/8"); err != nil {
		t.Error(err)
	}
	if got, _ := b.Banned("", "", addr("10.1.2.3")); got.Value != "0.0.0.0/0" {
		t.Errorf("banned by %q", got.Value)
	}
	if _, banned := b.Banned("", "", addr("::1")); banned {
		t.Error("IPv6 is banned with IPv4")
	}
}

func TestBansExpire(t *testing.T) {
	t.Parallel()
	c, s := newClock(), newMemoryStore()
	b := openBans(t, s, c)
	for kind, value := range map[broker.BanKind]string{
		broker.BanClientID: "id", broker.BanUsername: "user", broker.BanAddress: "10.0.0.1",
	} {
		add(t, b, kind, value, c.now().Add(time.Minute))
	}
	add(t, b, broker.BanClientID, "for ever", time.Time{})
	c.pass(time.Minute)
	if got, banned := b.Banned("id", "user", addr("10.0.0.1")); banned {
		t.Errorf("banned by %q", got.Value)
	}
	if got := b.List(); len(got) != 1 || got[0].Value != "for ever" {
		t.Errorf("bans %v", got)
	}
	if err := b.Remove(t.Context(), broker.BanClientID, "id"); broker.KindOf(err) != broker.NotFound {
		t.Errorf("removing one that is over: %v", err)
	}
	if err := b.Sweep(t.Context()); err != nil || len(s.bans) != 1 {
		t.Errorf("%d are stored after a sweep, error %v", len(s.bans), err)
	}
}

func TestBansSurviveRestart(t *testing.T) {
	t.Parallel()
	c, s := newClock(), newMemoryStore()
	b := openBans(t, s, c)
	add(t, b, broker.BanUsername, "u", time.Time{})
	add(t, b, broker.BanClientID, "c", c.now().Add(time.Hour))
	add(t, b, broker.BanAddress, "10.0.0.9/8", time.Time{})
	add(t, b, broker.BanAddress, "10.0.0.1/32", time.Time{})
	add(t, b, broker.BanAddress, "10.0.0.1", c.now().Add(time.Hour)) // the same
	if err := b.Remove(t.Context(), broker.BanUsername, "u"); err != nil {
		t.Fatal(err)
	}
	want := []broker.Ban{
		{Kind: broker.BanAddress, Value: "10.0.0.0/8", CreatedAt: c.now(), CreatedBy: "api"},
		{Kind: broker.BanAddress, Value: "10.0.0.1", CreatedAt: c.now(), CreatedBy: "api", ExpiresAt: c.now().Add(time.Hour)},
		{Kind: broker.BanClientID, Value: "c", CreatedAt: c.now(), CreatedBy: "api", ExpiresAt: c.now().Add(time.Hour)},
	}
	for _, bans := range []*limits.Bans{b, openBans(t, s, c)} {
		if d := cmp.Diff(want, bans.List()); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

func TestAddRefusesInvalidBans(t *testing.T) {
	t.Parallel()
	c := newClock()
	b := openBans(t, newMemoryStore(), c)
	for want, ban := range map[string]broker.Ban{
		"kind: ":                    {Kind: "colour", Value: "x"},
		"value: must ":              {Kind: broker.BanClientID},
		"value: must be UTF-8":      {Kind: broker.BanUsername, Value: "a\x00b"},
		"value: must be an address": {Kind: broker.BanAddress, Value: "10.0.0.0/33"},
		"reason: ":                  {Kind: broker.BanClientID, Value: "x", Reason: strings.Repeat("x", 1001)},
		"expires_at: ":              {Kind: broker.BanClientID, Value: "x", ExpiresAt: c.now()},
	} {
		_, err := b.Add(t.Context(), ban)
		if e, ok := errors.AsType[*broker.Error](err); !ok || e.Kind != broker.Invalid || !strings.HasPrefix(e.Msg, want) {
			t.Errorf("%v: error %v, want one of %q", ban, err, want)
		}
	}
	if err := b.Remove(t.Context(), broker.BanAddress, "x"); broker.KindOf(err) != broker.Invalid {
		t.Errorf("removing what cannot be: %v", err)
	}
	if err := b.Remove(t.Context(), broker.BanUsername, "x"); broker.KindOf(err) != broker.NotFound {
		t.Errorf("removing what is not: %v", err)
	}
}

func TestFailedStoreLeavesBansUnchanged(t *testing.T) {
	t.Parallel()
	c, s := newClock(), newMemoryStore()
	b := openBans(t, s, c)
	add(t, b, broker.BanUsername, "old", time.Time{})
	full := errors.New("disk full")
	s.err = full
	if _, err := b.Add(t.Context(), broker.Ban{Kind: broker.BanUsername, Value: "new"}); !errors.Is(err, full) {
		t.Errorf("Add: %v", err)
	}
	if err := b.Remove(t.Context(), broker.BanUsername, "old"); !errors.Is(err, full) {
		t.Errorf("Remove: %v", err)
	}
	if got := b.List(); len(got) != 1 || got[0].Value != "old" {
		t.Errorf("bans %v", got)
	}
	if _, err := limits.OpenBans(t.Context(), s, limits.Clocks{Wall: c.now, Service: c.now}); !errors.Is(err, full) {
		t.Errorf("OpenBans: %v", err)
	}
}

// blockingStore blocks in PutBan.
type blockingStore struct {
	*memoryStore
	begun, goOn chan struct{}
}

func (s blockingStore) PutBan(ctx context.Context, b broker.Ban) error {
	close(s.begun)
	<-s.goOn
	return s.memoryStore.PutBan(ctx, b)
}

func TestChangesAreSerialisedAndLookupsDoNotWait(t *testing.T) {
	t.Parallel()
	s := blockingStore{newMemoryStore(), make(chan struct{}), make(chan struct{})}
	b := openBans(t, s, newClock())
	added := make(chan error)
	go func() {
		_, err := b.Add(t.Context(), broker.Ban{Kind: broker.BanUsername, Value: "u"})
		added <- err
	}()
	<-s.begun
	if _, banned := b.Banned("", "u", netip.Addr{}); banned {
		t.Error("banned before it is stored")
	}
	canceled, stop := context.WithCancel(t.Context())
	stop()
	if err := b.Sweep(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("a change out of turn: %v", err)
	}
	close(s.goOn)
	if err := <-added; err != nil {
		t.Error(err)
	}
	if _, banned := b.Banned("", "u", netip.Addr{}); !banned {
		t.Error("not banned although stored")
	}
}

// manyBans returns n bans of addresses, networks, client ids and usernames.
func manyBans(n int, expires time.Time) []broker.Ban {
	all := make([]broker.Ban, n)
	for i := range all {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(i)<<4)
		network := netip.PrefixFrom(netip.AddrFrom4(b), 28+i%5).Masked()
		all[i] = broker.Ban{Kind: broker.BanAddress, Value: network.String(), ExpiresAt: expires}
		if network.IsSingleIP() {
			all[i].Value = network.Addr().String()
		}
		if i%2 == 0 {
			all[i] = broker.Ban{Kind: broker.BanClientID, Value: fmt.Sprint("client ", i), ExpiresAt: expires}
		}
	}
	return all
}

func TestBansAreBounded(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	c := newClock()
	b := openBans(t, newMemoryStore(manyBans(limit, c.now().Add(time.Hour))...), c)
	one := broker.Ban{Kind: broker.BanUsername, Value: "one more"}
	if _, err := b.Add(t.Context(), one); broker.KindOf(err) != broker.Conflict {
		t.Errorf("one more: %v", err)
	}
	if _, err := b.Add(t.Context(), broker.Ban{Kind: broker.BanClientID, Value: "client 0"}); err != nil {
		t.Errorf("an existing one: %v", err)
	}
	c.pass(time.Hour)
	if _, err := b.Add(t.Context(), one); err != nil {
		t.Errorf("one more, when others have expired: %v", err)
	}
	if got := b.List(); len(got) != 2 {
		t.Errorf("%d bans", len(got))
	}
}

// TestBannedAgreesWithLinearSearch compares the index with a search of all bans.
func TestBannedAgreesWithLinearSearch(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var networks []netip.Prefix
	b := openBans(t, newMemoryStore(), newClock())
	random := func() netip.Addr {
		if rng.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, 0, byte(rng.IntN(4)), byte(rng.IntN(256))})
		}
		return netip.AddrFrom16([16]byte{0x20, 1, byte(rng.IntN(3)), 15: byte(rng.IntN(4))})
	}
	for range 40 {
		a := random()
		network, _ := a.Prefix(a.BitLen() - rng.IntN(12))
		networks = append(networks, network)
		add(t, b, broker.BanAddress, network.String(), time.Time{})
	}
	for range 5000 {
		a := random()
		want := slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
		if _, got := b.Banned("", "", a); got != want {
			t.Fatalf("%s: banned %v, want %v", a, got, want)
		}
	}
}

func FuzzParseNetwork(f *testing.F) {
	for _, seed := range []string{"10.0.0.1", "10.1.2.3/8", "::1", "2001:db8::/32", "::ffff:10.0.0.0/104", "fe80::1%eth0", "::ffff:1.2.3.4/12", "", "x/8"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := limits.ParseNetwork(text)
		if err != nil {
			return
		}
		if !p.IsValid() || p != p.Masked() {
			t.Errorf("%q is %v", text, p)
		}
		if again, err := limits.ParseNetwork(p.String()); err != nil || again != p {
			t.Errorf("%q is %v, which reads as %v, %v", text, p, again, err)
		}
	})
}

func BenchmarkBanned(b *testing.B) {
	bans, err := limits.OpenBans(b.Context(), newMemoryStore(manyBans(100_000, time.Time{})...), limits.Clocks{Wall: time.Now, Service: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	from := addr("203.0.113.9")
	b.ReportAllocs()
	for b.Loop() {
		if _, banned := bans.Banned("client x", "user", from); banned {
			b.Fatal("banned")
		}
	}
}
