package guard_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/embedded/guard"
)

// door is a Limits under test that remembers which connections were cut off.
type door struct {
	*guard.Limits
	t   *testing.T
	cut []string
}

func newDoor(t *testing.T, c *clock, config guard.Config) *door {
	t.Helper()
	return &door{Limits: guard.NewLimits(config, c.now), t: t}
}

// arrive lets a connection in, under a name, or gives the refusal.
func (d *door) arrive(name, from string) (*guard.Ticket, error) {
	d.t.Helper()
	ticket, err := d.Enter(func(r guard.Refusal) { d.cut = append(d.cut, name+" "+string(r)) })
	if err != nil {
		return nil, err
	}
	if err := ticket.From(addr(from)); err != nil {
		ticket.Leave()
		return nil, err
	}
	return ticket, nil
}

func (d *door) wantIn(name, from string) *guard.Ticket {
	d.t.Helper()
	ticket, err := d.arrive(name, from)
	if err != nil {
		d.t.Fatalf("%s from %s: %v", name, from, err)
	}
	return ticket
}

func (d *door) wantRefused(from string, want guard.Refusal) {
	d.t.Helper()
	if _, err := d.arrive("refused", from); !errors.Is(err, want) {
		d.t.Fatalf("from %s: error %v, want %v", from, err, want)
	}
}

func (d *door) wantCut(names ...string) {
	d.t.Helper()
	if !slices.Equal(d.cut, names) {
		d.t.Fatalf("cut off %q, want %q", d.cut, names)
	}
}

func (d *door) wantUsage(want guard.Usage) {
	d.t.Helper()
	if got := d.Usage(); got != want {
		d.t.Fatalf("usage %+v, want %+v", got, want)
	}
}

func TestTheNewcomerLosesWhereAllPlacesAreTaken(t *testing.T) {
	t.Parallel()
	d := newDoor(t, newClock(), guard.Config{MaxConnections: 2})
	first := d.wantIn("first", "10.0.0.1")
	d.wantIn("second", "10.0.0.2")
	d.wantRefused("10.0.0.3", guard.Full)
	first.Leave()
	first.Leave() // counts once
	d.wantIn("third", "10.0.0.3")
	d.wantRefused("10.0.0.4", guard.Full)
}

func TestTheNewcomerLosesWhereItsAddressHasTooMany(t *testing.T) {
	t.Parallel()
	d := newDoor(t, newClock(), guard.Config{MaxConnectionsPerAddress: 1, Exempt: []string{"127.0.0.0/8", "192.0.2.7"}})
	for _, c := range []struct{ first, same, other string }{
		{"10.0.0.1", "10.0.0.1", "10.0.0.2"},
		{"10.0.0.3", "::ffff:10.0.0.3", "::ffff:10.0.0.4"},
		{"2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1"},
		{"fe80::1%eth0", "fe80::1%eth1", "fe80:0:0:1::1"},
	} {
		first := d.wantIn("first", c.first)
		d.wantRefused(c.same, guard.AddressFull)
		d.wantIn("other", c.other)
		first.Leave()
		d.wantIn("again", c.same)
	}
	for range 3 {
		d.wantIn("exempt", "127.1.2.3")
		d.wantIn("exempt", "::ffff:192.0.2.7")
	}
	ticket, err := d.Enter(func(guard.Refusal) {})
	if err != nil || ticket.From(netip.Addr{}) != nil {
		t.Errorf("a peer without address is not let in: %v", err)
	}
}

func TestTheMostInsistentGivesWay(t *testing.T) {
	t.Parallel()
	d := newDoor(t, newClock(), guard.Config{MaxHalfOpen: 3})
	greeted := d.wantIn("greeted", "10.0.0.1")
	gone := d.wantIn("gone", "10.0.0.1")
	slow := d.wantIn("slow", "10.0.0.2")
	d.wantUsage(guard.Usage{Open: 3, HalfOpen: 3, Addresses: 2})
	greeted.Greeted()
	gone.Leave()
	first := d.wantIn("a", "10.0.0.3")
	d.wantIn("b", "10.0.0.3")
	d.wantCut()
	d.wantIn("c", "10.0.0.3")
	d.wantCut("a max_half_open")                                 // the slow one is older, but alone
	d.wantUsage(guard.Usage{Open: 5, HalfOpen: 3, Addresses: 3}) // the first has still to leave
	first.Greeted()                                              // too late, and harmless
	first.Leave()
	d.wantUsage(guard.Usage{Open: 4, HalfOpen: 3, Addresses: 3})
	slow.Leave()
}

func TestAnAddressLosesItsOwnHalfOpenConnections(t *testing.T) {
	t.Parallel()
	d := newDoor(t, newClock(), guard.Config{MaxHalfOpenPerAddress: 2, MaxHalfOpen: 100})
	d.wantIn("bystander", "10.0.0.9")
	d.wantIn("1", "10.0.0.1")
	d.wantIn("2", "10.0.0.1")
	d.wantIn("3", "10.0.0.1")
	d.wantCut("1 max_half_open_per_address")
	d.wantIn("4", "10.0.0.1").Greeted()
	d.wantCut("1 max_half_open_per_address", "2 max_half_open_per_address")
	d.wantIn("5", "10.0.0.1")
	d.wantCut("1 max_half_open_per_address", "2 max_half_open_per_address")
}

// TestCutOffBeforeItSaysFromWhere: the peer of a proxied connection is known
// late, and the connection may have had to give way by then.
func TestCutOffBeforeItSaysFromWhere(t *testing.T) {
	t.Parallel()
	d := newDoor(t, newClock(), guard.Config{MaxHalfOpen: 1, MaxHalfOpenPerAddress: 1})
	early, err := d.Enter(func(guard.Refusal) { d.cut = append(d.cut, "early") })
	if err != nil {
		t.Fatal(err)
	}
	d.wantIn("late", "10.0.0.1")
	d.wantCut("early")
	if err := early.From(addr("10.0.0.1")); err != nil {
		t.Error(err)
	}
	d.wantCut("early")
	early.Leave()
	d.wantUsage(guard.Usage{Open: 1, HalfOpen: 1, Addresses: 1})
}

func TestConnectRate(t *testing.T) {
	t.Parallel()
	c := newClock()
	d := newDoor(t, c, guard.Config{ConnectRate: 10, ConnectBurst: 3})
	for range 3 {
		d.wantIn("burst", "10.0.0.1").Leave()
	}
	d.wantRefused("10.0.0.2", guard.TooFast)
	c.pass(99 * time.Millisecond)
	d.wantRefused("10.0.0.2", guard.TooFast)
	c.pass(time.Millisecond)
	d.wantIn("one", "10.0.0.2")
	d.wantRefused("10.0.0.2", guard.TooFast)
	c.pass(time.Hour)
	for range 3 { // rest saves up no more than a burst
		d.wantIn("burst", "10.0.0.1")
	}
	d.wantRefused("10.0.0.1", guard.TooFast)
}

func TestConnectRatePerAddress(t *testing.T) {
	t.Parallel()
	c := newClock()
	d := newDoor(t, c, guard.Config{ConnectRatePerAddress: 1, ConnectBurstPerAddress: 1, Exempt: []string{"::1"}})
	d.wantIn("first", "10.0.0.1").Leave()
	d.wantRefused("10.0.0.1", guard.AddressTooFast)
	d.wantIn("other", "10.0.0.2")
	d.wantIn("exempt", "::1")
	d.wantIn("exempt", "::1")
	c.pass(time.Second)
	d.wantIn("later", "10.0.0.1")
	d.wantUsage(guard.Usage{Open: 4, HalfOpen: 4, Addresses: 2})
}

func TestFailedLogins(t *testing.T) {
	t.Parallel()
	c := newClock()
	d := newDoor(t, c, guard.Config{MaxFailedLogins: 3, FailedLoginWindow: time.Minute, Exempt: []string{"127.0.0.1"}})
	guilty, innocent, exempt := addr("10.0.0.1"), addr("10.0.0.2"), addr("127.0.0.1")
	for range 100 {
		d.LoginFailed(guilty)
		d.LoginFailed(exempt)
	}
	for _, a := range []netip.Addr{innocent, exempt, {}} {
		if err := d.LoginAllowed(a); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	if err := d.LoginAllowed(guilty); !errors.Is(err, guard.TooManyFailures) {
		t.Errorf("error %v", err)
	}
	c.pass(20 * time.Second) // a third of a minute, the share of one
	if err := d.LoginAllowed(guilty); err != nil {
		t.Errorf("after a rest: %v", err)
	}
	d.LoginFailed(guilty)
	if err := d.LoginAllowed(guilty); !errors.Is(err, guard.TooManyFailures) {
		t.Errorf("one more failure: error %v", err)
	}
	c.pass(time.Minute)
	d.LoginFailed(innocent) // the occasion to forget the guilty
	d.wantUsage(guard.Usage{Addresses: 1})
}

// TestAddressesAreForgotten comes from more addresses than are remembered, each
// of which has something against it.
func TestAddressesAreForgotten(t *testing.T) {
	t.Parallel()
	const remembered = 65_536
	d := newDoor(t, newClock(), guard.Config{MaxFailedLogins: 1, FailedLoginWindow: time.Hour})
	nth := func(n int) netip.Addr {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(0x0A000000+n))
		return netip.AddrFrom4(b)
	}
	for n := range remembered + 10 {
		d.LoginFailed(nth(n))
	}
	d.wantUsage(guard.Usage{Addresses: remembered})
	if err := d.LoginAllowed(nth(9)); err != nil {
		t.Errorf("the oldest is remembered: %v", err)
	}
	if err := d.LoginAllowed(nth(10)); !errors.Is(err, guard.TooManyFailures) {
		t.Errorf("one that there is room for: error %v", err)
	}
}

// TestLimitsFromManyGoroutines ends with nothing in use, whatever was cut off.
func TestLimitsFromManyGoroutines(t *testing.T) {
	t.Parallel()
	l := guard.NewLimits(guard.Config{
		MaxConnections: 50, MaxHalfOpen: 5, MaxHalfOpenPerAddress: 2, MaxConnectionsPerAddress: 20,
	}, time.Now)
	var cuts atomic.Int64
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			from := netip.AddrFrom4([4]byte{10, 0, 0, byte(n % 8)})
			for round := range 200 {
				ticket, err := l.Enter(func(guard.Refusal) { cuts.Add(1) })
				if err != nil {
					continue
				}
				if err := ticket.From(from); err == nil && round%2 == 0 {
					ticket.Greeted()
				}
				ticket.Leave()
			}
		})
	}
	all.Wait()
	if got := l.Usage(); got != (guard.Usage{}) {
		t.Errorf("usage %+v after all have left", got)
	}
}
