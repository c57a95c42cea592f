package flood

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/bench/load"
	"signalbox/scripts/suite"
)

// idleVariable is how many connections are idle: fewer if the system allows this process, or the
// service, fewer files.
const idleVariable = "SIGNALBOX_FLOOD_IDLE"

// manyConnections is from how many connections on the memory of each can be
// distinguished from that of everything else; with fewer, it may appear twice as large.
const manyConnections = 5000

// perIdleConnection is the most that an idle connection may cost, in bytes.
const perIdleConnection = 5 << 10

// goroutinesOfIdle is the most goroutines that all idle connections together may have.
const goroutinesOfIdle = 20

// idleTime is for how long the processor time of the idle service is measured, and idleShare the
// most of it that it may use.
const (
	idleTime  = 10 * time.Second
	idleShare = 0.005
)

// TestCampaignIdle measures the memory and the processor time of clients that are connected, have
// a subscription, and do nothing. They have no goroutine, and none is left when they have
// disconnected.
func TestCampaignIdle(t *testing.T) {
	n := idleConnections(t)
	s := serve(t, configure(t, "  max_connections: 100000\n"))
	createUsers(t, s)
	_, disconnectFew := connectIdle(t, s, 200) // allocates what the first ones need
	disconnectFew()
	rest := goroutines(t, s)
	before := stableMemory(t, s)
	_, disconnect := connectIdle(t, s, n)
	each := (stableMemory(t, s) - before) / float64(n)
	awaitGoroutines(t, s, rest+goroutinesOfIdle)
	share := idleProcessorShare(s)
	disconnect()
	allowed, allowedShare := float64(perIdleConnection), float64(idleShare)
	if n < manyConnections {
		allowed *= 2
		allowedShare *= 4 // beside other campaigns
	}
	t.Logf("%d idle connections: %.1f KiB each, %.2f %% of a processor", n, each/1024, 100*share)
	if share > allowedShare {
		t.Errorf("the idle service uses %.2f %% of a processor, want at most %.2f", 100*share, 100*allowedShare)
	}
	if each > allowed {
		t.Errorf("an idle connection costs %.1f KiB, want at most %.1f", each/1024, allowed/1024)
	}
	awaitGoroutines(t, s, rest)
}

// idleProcessorShare returns which part of a processor the service uses.
func idleProcessorShare(s *server) float64 {
	before := load.ProcessorTime(s.Pid())
	<-time.After(idleTime)
	return float64(load.ProcessorTime(s.Pid())-before) / float64(idleTime)
}

// connectIdle connects clients, some at a time, from as many addresses as that takes.
func connectIdle(t *testing.T, s *server, n int) (links []*link, disconnect func()) {
	t.Helper()
	links = make([]*link, n)
	err := someAtATime(n, func(i int) (err error) {
		links[i], err = idleClient(t, s, i, sharedAddress(i))
		return err
	})
	disconnect = func() {
		for _, l := range links {
			if l != nil {
				l.Close()
			}
		}
	}
	t.Cleanup(disconnect)
	if err != nil {
		t.Fatal(err)
	}
	return links, disconnect
}

// someAtATime calls do with the numbers below n, several at a time.
func someAtATime(n int, do func(i int) error) error {
	const atATime = 8
	errs := make([]error, atATime)
	var running sync.WaitGroup
	for d := range atATime {
		running.Go(func() {
			for i := d; i < n && errs[d] == nil; i += atATime {
				if errs[d] = do(i); errs[d] != nil {
					errs[d] = fmt.Errorf("idle client %d: %w", i, errs[d])
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// checkIdle requires that all clients are still connected: each is answered.
func checkIdle(t *testing.T, links []*link) {
	t.Helper()
	err := someAtATime(len(links), func(i int) error {
		if err := links[i].SetDeadline(time.Now().Add(suite.HangLimit)); err != nil {
			return err
		}
		if _, err := links[i].Write(packet.AppendEmpty(nil, packet.Pingreq)); err != nil {
			return err
		}
		_, err := links[i].want(packet.Pingresp)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// sharedAddress returns the address of the n-th of many clients, which it shares with
// others, fewer than the flood allows of one address.
func sharedAddress(n int) string {
	const perAddress, perNetwork = 100, 250
	return fmt.Sprintf("127.0.%d.%d", 1+n/perAddress/perNetwork, 1+n/perAddress%perNetwork)
}

func idleClient(t *testing.T, s *server, n int, from string) (*link, error) {
	l, err := dial(t.Context(), s.MQTT, from)
	if err != nil {
		return nil, err
	}
	as := withClientID(legitimateUser, fmt.Sprint("idle-", n))
	as.KeepAlive = 600
	if err := l.logIn(as); err != nil {
		return l, err
	}
	return l, l.subscribe(fmt.Sprint("good/idle/", n), 0)
}

// stableMemory returns the resident memory, in bytes, when that does not change any
// more: the runtime returns memory only after a while.
func stableMemory(t *testing.T, s *server) float64 {
	t.Helper()
	const near = 0.002
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	late := time.After(suite.HangLimit)
	for last := math.Inf(1); ; {
		now := s.memory(t, "VmRSS")
		if math.Abs(now-last) <= near*last {
			return now
		}
		last = now
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("memory does not become stable: %s", mib(now))
		}
	}
}

// idleConnections returns how many connections are to be idle, and raises the bound of files
// of this process, and those that it starts, for them.
func idleConnections(t *testing.T) int {
	t.Helper()
	const others = 2000 // of the service: the attack's connections, databases
	n := suite.FromEnvironment(t, idleVariable, 1000)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = max(limit.Cur, min(uint64(n+others), limit.Max))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if allowed := int(limit.Cur) - others; allowed < n {
		t.Logf("the system allows %d open files, which is %d idle connections, not %d", limit.Cur, allowed, n)
		n = allowed
	}
	if n <= 0 {
		t.Fatalf("the system allows %d open files, too few for a flood", limit.Cur)
	}
	return n
}
