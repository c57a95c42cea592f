package cluster

import (
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// shifted is a time of day that a test sets.
type shifted struct{ by atomic.Int64 }

func (s *shifted) now() time.Time { return time.Now().Round(0).Add(time.Duration(s.by.Load())) }

// TestWrongClocks forms a cluster of nodes whose clocks are years apart, changes the clocks, and
// restarts nodes: each of them takes part all the time.
func TestWrongClocks(t *testing.T) {
	t.Parallel()
	const years = 400 * 24 * time.Hour
	f, clocks := newFleet(t), map[NodeID]*shifted{}
	tune := func(id NodeID, by time.Duration) func(*Options) {
		clocks[id] = &shifted{}
		clocks[id].by.Store(int64(by))
		return func(o *Options) { o.Now = clocks[id].now }
	}
	for id, by := range map[NodeID]time.Duration{1: 0, 2: years, 3: -years} {
		f.start(id, tune(id, by))
	}
	invited, err := f.nodes[1].node.Create(within(t, suite.HangLimit), spec(1, 1, 2, 3))
	must(t, err)
	for _, i := range invited {
		must(t, f.nodes[i.NodeID].node.Join(within(t, suite.HangLimit), spec(i.NodeID, 1, 2, 3), i))
	}
	f.settled(3)
	for round, by := range []time.Duration{years, -years, 3 * years} {
		for id, c := range clocks {
			c.by.Store(int64(by) * int64(id-2))
		}
		for id := range clocks {
			f.nodes[id].put(t, fmt.Sprint("k", id), fmt.Sprint(round))
		}
	}
	again := f.follower().id
	f.nodes[again].close()
	f.start(again, tune(again, -years))
	f.settled(3)
	f.nodes[again].put(t, "k", "v")
}

// TestCertificatesEnd checks that a certificate of connections expires and is renewed before: a
// stolen one cannot be used for long.
func TestCertificatesEnd(t *testing.T) {
	t.Parallel()
	clock := &shifted{}
	tune := func(o *Options) { o.Now, o.Timing.Certificate = clock.now, 9*time.Hour }
	f := newFleet(t).formWith(tune, 1, 2)
	b := f.nodes[2].node.membership.Load().credentials
	stolen, err := b.show()
	must(t, err)
	addr, err := f.nodes[1].node.Addr(t.Context())
	must(t, err)
	a := &attacker{t: t, uuid: b.uuid}
	if _, err := a.ask(addr, *stolen, callStatus, ""); err != nil {
		t.Fatalf("a certificate that is good is refused: %v", err)
	}
	began := f.nodes[1].node.clock.time()
	eventually(t, func() error { // a look at the clock counts an hour at most
		clock.by.Add(int64(time.Hour))
		if passed := f.nodes[1].node.clock.time().Sub(began); passed < 10*time.Hour {
			return fmt.Errorf("%v have passed", passed)
		}
		return nil
	})
	if _, err := a.ask(addr, *stolen, callStatus, ""); err == nil {
		t.Error("a certificate that has ended is good")
	}
	eventually(t, func() error { // it gets the time from the other node
		now, err := b.show()
		must(t, err)
		if string(now.Certificate[0]) == string(stolen.Certificate[0]) {
			return errors.New("the certificate was not renewed")
		}
		_, err = a.ask(addr, *now, callStatus, "")
		return err
	})
	eventually(t, func() error { // connections with expired certificates are replaced
		_, err := f.nodes[2].node.Forward(within(t, suite.HangLimit), write{"k", "v"}.encode())
		return err
	})
	f.settled(2)
}

// TestRefusedAreLogged logs refused connections, at most once a minute.
func TestRefusedAreLogged(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1)
	b := f.nodes[1].node.membership.Load().credentials
	i := &identity{UUID: b.uuid, Self: Member{NodeID: 9, Generation: 1 << 40}}
	key, err := newKey()
	must(t, err, i.setKey(key, key))
	stranger, err := i.credentials()
	must(t, err)
	stranger.known = func() *state { return &state{Keys: map[string]pin{}} }
	as, err := stranger.show()
	must(t, err)
	addr, err := f.nodes[1].node.Addr(t.Context())
	must(t, err)
	a := &attacker{t: t, uuid: b.uuid}
	for range 20 {
		if _, err := a.ask(addr, *as, callStatus, ""); err == nil {
			t.Fatal("a stranger is answered")
		}
	}
	eventually(t, func() error {
		if n := f.nodes[1].node.Figures().Refused; n != 20 {
			return fmt.Errorf("%d of 20 refusals are counted", n)
		}
		return nil
	})
	warned := 0
	for line := range strings.Lines(f.log.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, "is refused") {
			warned++
		}
	}
	if warned != 1 {
		t.Errorf("20 refusals are logged %d times", warned)
	}
}

// TestKeyOfConnectionEnds signs later certificates with the stolen key of a connection: they are
// refused once the stolen certificate has expired.
func TestKeyOfConnectionEnds(t *testing.T) {
	t.Parallel()
	clock := &shifted{}
	f := newFleet(t).formWith(func(o *Options) { o.Now, o.Timing.Certificate = clock.now, 9*time.Hour }, 1, 2)
	b := f.nodes[2].node.membership.Load().credentials
	stolen, err := b.show()
	must(t, err)
	addr, err := f.nodes[1].node.Addr(t.Context())
	must(t, err)
	a := &attacker{t: t, uuid: b.uuid}
	next, err := newKey()
	must(t, err)
	own := a.mint(b.self, next.Public(), nil, stolen.PrivateKey.(crypto.Signer))
	successor := tls.Certificate{Certificate: append([][]byte{own}, stolen.Certificate...), PrivateKey: next}
	began := f.nodes[1].node.clock.time()
	eventually(t, func() error { // a look at the clock counts an hour at most
		clock.by.Add(int64(time.Hour))
		if passed := f.nodes[1].node.clock.time().Sub(began); passed < 10*time.Hour {
			return fmt.Errorf("%v have passed", passed)
		}
		return nil
	})
	if _, err := a.ask(addr, successor, callStatus, ""); err == nil {
		t.Error("a certificate that the stolen key has signed is good after the stolen one has ended")
	}
}

// TestTimeOfMemberIsBounded makes a member present a certificate that begins at the latest time
// that a certificate can have. The other nodes can still make certificates, also after a restart.
func TestTimeOfMemberIsBounded(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2)
	b := f.nodes[2].node.membership.Load().credentials
	key, err := newKey()
	must(t, err)
	own := b.own.Load()
	der, err := certify(b.uuid, b.self, key.Public(), own.key, notAfter.Add(-time.Second), notAfter)
	must(t, err)
	addr, err := f.nodes[1].node.Addr(t.Context())
	must(t, err)
	a := &attacker{t: t, uuid: b.uuid}
	late := tls.Certificate{Certificate: append([][]byte{der}, own.chain...), PrivateKey: key}
	if _, err := a.ask(addr, late, callStatus, ""); err != nil {
		t.Fatalf("the member is refused: %v", err)
	}
	now := f.nodes[1].node.clock.time()
	if _, err := f.nodes[1].node.membership.Load().credentials.newLeaf(now); err != nil {
		t.Errorf("at %v, no certificate can be made: %v", now, err)
	}
	f.nodes[1].node.storeClock(now)
	f.nodes[1].close()
	f.start(1)
	f.settled(2)
	f.nodes[1].put(t, "k", "v")
}

// TestClockStops checks that a clock stops at lastTime.
func TestClockStops(t *testing.T) {
	t.Parallel()
	wall := lastTime.Add(-time.Minute)
	c := newClock(func() time.Time { return wall }, time.Time{})
	for range 3 {
		wall = wall.Add(time.Hour)
		if now := c.time(); !now.Equal(lastTime) {
			t.Errorf("the time is %v", now)
		}
	}
	if now := newClock(func() time.Time { return wall }, time.Time{}).time(); !now.Equal(lastTime) {
		t.Errorf("the clock begins at %v", now)
	}
}
