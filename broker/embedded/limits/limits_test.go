package limits_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/embedded/limits"
)

// fixture is a Limits under test that records which connections were evicted.
type fixture struct {
	*limits.Limits
	t       *testing.T
	evicted []string
}

func newFixture(t *testing.T, c *clock, config limits.Config) *fixture {
	t.Helper()
	return &fixture{Limits: limits.New(config, c.now), t: t}
}

// admit admits a connection, under a name, or returns the refusal.
func (f *fixture) admit(name, from string) (*limits.Admission, error) {
	f.t.Helper()
	admission, err := f.Admit(func(r limits.Refusal) { f.evicted = append(f.evicted, name+" "+string(r)) })
	if err != nil {
		return nil, err
	}
	if err := admission.SetAddress(addr(from)); err != nil {
		admission.Release()
		return nil, err
	}
	return admission, nil
}

func (f *fixture) wantAdmitted(name, from string) *limits.Admission {
	f.t.Helper()
	admission, err := f.admit(name, from)
	if err != nil {
		f.t.Fatalf("%s from %s: %v", name, from, err)
	}
	return admission
}

func (f *fixture) wantRefused(from string, want limits.Refusal) {
	f.t.Helper()
	if _, err := f.admit("refused", from); !errors.Is(err, want) {
		f.t.Fatalf("from %s: error %v, want %v", from, err, want)
	}
}

func (f *fixture) wantEvicted(names ...string) {
	f.t.Helper()
	if !slices.Equal(f.evicted, names) {
		f.t.Fatalf("cut off %q, want %q", f.evicted, names)
	}
}

func (f *fixture) wantUsage(want limits.Usage) {
	f.t.Helper()
	if got := f.Usage(); got != want {
		f.t.Fatalf("usage %+v, want %+v", got, want)
	}
}

func TestMaxConnectionsRefusesTheNewest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newClock(), limits.Config{MaxConnections: 2})
	first := f.wantAdmitted("first", "10.0.0.1")
	f.wantAdmitted("second", "10.0.0.2")
	f.wantRefused("10.0.0.3", limits.Full)
	first.Release()
	first.Release() // counts once
	f.wantAdmitted("third", "10.0.0.3")
	f.wantRefused("10.0.0.4", limits.Full)
}

func TestMaxConnectionsPerAddressRefusesTheNewest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newClock(), limits.Config{MaxConnectionsPerAddress: 1, Exempt: []string{"127.0.0.0/8", "192.0.2.7"}})
	for _, c := range []struct{ first, same, other string }{
		{"10.0.0.1", "10.0.0.1", "10.0.0.2"},
		{"10.0.0.3", "::ffff:10.0.0.3", "::ffff:10.0.0.4"},
		{"2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1"},
		{"fe80::1%eth0", "fe80::1%eth1", "fe80:0:0:1::1"},
	} {
		first := f.wantAdmitted("first", c.first)
		f.wantRefused(c.same, limits.AddressFull)
		f.wantAdmitted("other", c.other)
		first.Release()
		f.wantAdmitted("again", c.same)
	}
	for range 3 {
		f.wantAdmitted("exempt", "127.1.2.3")
		f.wantAdmitted("exempt", "::ffff:192.0.2.7")
	}
	admission, err := f.Admit(func(limits.Refusal) {})
	if err != nil || admission.SetAddress(netip.Addr{}) != nil {
		t.Errorf("a peer without address is refused: %v", err)
	}
}

func TestMaxHalfOpenEvictsFromTheBusiestAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newClock(), limits.Config{MaxHalfOpen: 3})
	greeted := f.wantAdmitted("greeted", "10.0.0.1")
	gone := f.wantAdmitted("gone", "10.0.0.1")
	slow := f.wantAdmitted("slow", "10.0.0.2")
	f.wantUsage(limits.Usage{Open: 3, HalfOpen: 3, Addresses: 2})
	greeted.ConnectReceived()
	gone.Release()
	first := f.wantAdmitted("a", "10.0.0.3")
	f.wantAdmitted("b", "10.0.0.3")
	f.wantEvicted()
	f.wantAdmitted("c", "10.0.0.3")
	f.wantEvicted("a max_half_open")                              // the slow one is older, but the only one of its address
	f.wantUsage(limits.Usage{Open: 5, HalfOpen: 3, Addresses: 3}) // the evicted one has not been released
	first.ConnectReceived()                                       // too late, without effect
	first.Release()
	f.wantUsage(limits.Usage{Open: 4, HalfOpen: 3, Addresses: 3})
	slow.Release()
}

func TestMaxHalfOpenPerAddressEvictsTheOldest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newClock(), limits.Config{MaxHalfOpenPerAddress: 2, MaxHalfOpen: 100})
	f.wantAdmitted("bystander", "10.0.0.9")
	f.wantAdmitted("1", "10.0.0.1")
	f.wantAdmitted("2", "10.0.0.1")
	f.wantAdmitted("3", "10.0.0.1")
	f.wantEvicted("1 max_half_open_per_address")
	f.wantAdmitted("4", "10.0.0.1").ConnectReceived()
	f.wantEvicted("1 max_half_open_per_address", "2 max_half_open_per_address")
	f.wantAdmitted("5", "10.0.0.1")
	f.wantEvicted("1 max_half_open_per_address", "2 max_half_open_per_address")
}

// TestEvictedBeforeItsAddressIsKnown: the peer of a proxied connection is known late, and
// the connection may have been evicted by then.
func TestEvictedBeforeItsAddressIsKnown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newClock(), limits.Config{MaxHalfOpen: 1, MaxHalfOpenPerAddress: 1})
	early, err := f.Admit(func(limits.Refusal) { f.evicted = append(f.evicted, "early") })
	if err != nil {
		t.Fatal(err)
	}
	f.wantAdmitted("late", "10.0.0.1")
	f.wantEvicted("early")
	if err := early.SetAddress(addr("10.0.0.1")); err != nil {
		t.Error(err)
	}
	f.wantEvicted("early")
	early.Release()
	f.wantUsage(limits.Usage{Open: 1, HalfOpen: 1, Addresses: 1})
}

func TestConnectRate(t *testing.T) {
	t.Parallel()
	c := newClock()
	f := newFixture(t, c, limits.Config{ConnectRate: 10, ConnectBurst: 3})
	for range 3 {
		f.wantAdmitted("burst", "10.0.0.1").Release()
	}
	f.wantRefused("10.0.0.2", limits.TooFast)
	c.pass(99 * time.Millisecond)
	f.wantRefused("10.0.0.2", limits.TooFast)
	c.pass(time.Millisecond)
	f.wantAdmitted("one", "10.0.0.2")
	f.wantRefused("10.0.0.2", limits.TooFast)
	c.pass(time.Hour)
	for range 3 { // an idle time saves up no more than a burst
		f.wantAdmitted("burst", "10.0.0.1")
	}
	f.wantRefused("10.0.0.1", limits.TooFast)
}

func TestConnectRatePerAddress(t *testing.T) {
	t.Parallel()
	c := newClock()
	f := newFixture(t, c, limits.Config{ConnectRatePerAddress: 1, ConnectBurstPerAddress: 1, Exempt: []string{"::1"}})
	f.wantAdmitted("first", "10.0.0.1").Release()
	f.wantRefused("10.0.0.1", limits.AddressTooFast)
	f.wantAdmitted("other", "10.0.0.2")
	f.wantAdmitted("exempt", "::1")
	f.wantAdmitted("exempt", "::1")
	c.pass(time.Second)
	f.wantAdmitted("later", "10.0.0.1")
	f.wantUsage(limits.Usage{Open: 4, HalfOpen: 4, Addresses: 2})
}

func TestFailedLogins(t *testing.T) {
	t.Parallel()
	c := newClock()
	f := newFixture(t, c, limits.Config{MaxFailedLogins: 3, FailedLoginWindow: time.Minute, Exempt: []string{"127.0.0.1"}})
	guilty, innocent, exempt := addr("10.0.0.1"), addr("10.0.0.2"), addr("127.0.0.1")
	for range 100 {
		f.LoginFailed(guilty)
		f.LoginFailed(exempt)
	}
	for _, a := range []netip.Addr{innocent, exempt, {}} {
		if err := f.LoginAllowed(a); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	if err := f.LoginAllowed(guilty); !errors.Is(err, limits.TooManyFailures) {
		t.Errorf("error %v", err)
	}
	c.pass(20 * time.Second) // a third of a minute, the share of one failure
	if err := f.LoginAllowed(guilty); err != nil {
		t.Errorf("after a rest: %v", err)
	}
	f.LoginFailed(guilty)
	if err := f.LoginAllowed(guilty); !errors.Is(err, limits.TooManyFailures) {
		t.Errorf("one more failure: error %v", err)
	}
	c.pass(time.Minute)
	f.LoginFailed(innocent) // removes idle addresses
	f.wantUsage(limits.Usage{Addresses: 1})
}

// TestIdleAddressesAreBounded uses more addresses than are kept, each with failed log-ins.
func TestIdleAddressesAreBounded(t *testing.T) {
	t.Parallel()
	const remembered = 65_536
	f := newFixture(t, newClock(), limits.Config{MaxFailedLogins: 1, FailedLoginWindow: time.Hour})
	nth := func(n int) netip.Addr {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(0x0A000000+n))
		return netip.AddrFrom4(b)
	}
	for n := range remembered + 10 {
		f.LoginFailed(nth(n))
	}
	f.wantUsage(limits.Usage{Addresses: remembered})
	if err := f.LoginAllowed(nth(9)); err != nil {
		t.Errorf("the oldest is remembered: %v", err)
	}
	if err := f.LoginAllowed(nth(10)); !errors.Is(err, limits.TooManyFailures) {
		t.Errorf("one that there is room for: error %v", err)
	}
}

// TestLimitsConcurrently ends with nothing in use, whatever was evicted.
func TestLimitsConcurrently(t *testing.T) {
	t.Parallel()
	l := limits.New(limits.Config{
		MaxConnections: 50, MaxHalfOpen: 5, MaxHalfOpenPerAddress: 2, MaxConnectionsPerAddress: 20,
	}, time.Now)
	var cuts atomic.Int64
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			from := netip.AddrFrom4([4]byte{10, 0, 0, byte(n % 8)})
			for round := range 200 {
				admission, err := l.Admit(func(limits.Refusal) { cuts.Add(1) })
				if err != nil {
					continue
				}
				if err := admission.SetAddress(from); err == nil && round%2 == 0 {
					admission.ConnectReceived()
				}
				admission.Release()
			}
		})
	}
	all.Wait()
	if got := l.Usage(); got != (limits.Usage{}) {
		t.Errorf("usage %+v after all have left", got)
	}
}
