package flood

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// idleKnob is how many connections are idle.
const idleKnob = "SIGNALBOX_FLOOD_IDLE"

// enough is from how many connections on the memory of each is told apart from
// that of everything else; with fewer, it may seem twice as much.
const enough = 5000

// eachIdle is the most that an idle connection may cost, in bytes.
const eachIdle = 10 << 10

// TestCampaignIdle weighs clients that are connected, have a subscription, and do
// nothing; when they are gone, so are their goroutines.
func TestCampaignIdle(t *testing.T) {
	n := knob(t, idleKnob, 1000)
	allowFiles(t, n)
	s := serve(t, configure(t, "  max_connections: 100000\n"))
	admitUsers(t, s)
	gather(t, s, 200)() // brings in what the first ones need
	rest := goroutines(t, s)
	before := settled(t, s)
	dismiss := gather(t, s, n)
	each := (settled(t, s) - before) / float64(n)
	dismiss()
	allowed := float64(eachIdle)
	if n < enough {
		allowed *= 2
	}
	t.Logf("%d idle connections: %.1f KiB each", n, each/1024)
	if each > allowed {
		t.Errorf("an idle connection costs %.1f KiB, want at most %.1f", each/1024, allowed/1024)
	}
	wantRest(t, s, rest)
}

// gather connects clients, some at a time, from as many addresses as that takes.
func gather(t *testing.T, s *server, n int) (dismiss func()) {
	t.Helper()
	const dialers = 8
	links := make([]*link, n)
	errs := make([]error, dialers)
	var connecting sync.WaitGroup
	for d := range dialers {
		connecting.Go(func() {
			for i := d; i < n && errs[d] == nil; i += dialers {
				links[i], errs[d] = idler(t, s, i, crowdAddress(i))
			}
		})
	}
	connecting.Wait()
	dismiss = func() {
		for _, l := range links {
			if l != nil {
				l.Close()
			}
		}
	}
	t.Cleanup(dismiss)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return dismiss
}

// crowdAddress gives the n-th of many clients an address that it shares with a
// thousand others, so that the kernel need not look for ports for long.
func crowdAddress(n int) string { return fmt.Sprintf("127.0.1.%d", 1+n/1000) }

func idler(t *testing.T, s *server, n int, from string) (*link, error) {
	l, err := dial(t.Context(), s.MQTT, from)
	if err != nil {
		return nil, err
	}
	if err := l.logIn(named(guest, fmt.Sprint("idle-", n))); err != nil {
		return l, err
	}
	return l, l.subscribe(fmt.Sprint("guest/idle/", n), 0)
}

// settled gives what is resident, in bytes, when that has come to rest: the
// runtime gives memory back only after a while.
func settled(t *testing.T, s *server) float64 {
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
			t.Fatalf("memory does not come to rest: %s", mib(now))
		}
	}
}

// allowFiles raises the bound of file descriptors for this process and those
// that it starts.
func allowFiles(t *testing.T, n int) {
	t.Helper()
	const others = 500
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = max(limit.Cur, min(uint64(n+others), limit.Max))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < uint64(n) {
		t.Fatalf("the system allows %d open files, too few for %d connections", limit.Cur, n)
	}
}
