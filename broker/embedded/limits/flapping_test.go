package limits_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/embedded/limits"
)

func TestFlappingIsOffByDefault(t *testing.T) {
	t.Parallel()
	f := limits.NewFlapping(limits.DefaultConfig().Flapping, newClock().now)
	for range 1000 {
		if _, banned := f.Connected("id"); banned {
			t.Fatal("banned")
		}
	}
}

func TestFlappingBansFrequentConnects(t *testing.T) {
	t.Parallel()
	c := newClock()
	f := limits.NewFlapping(limits.FlappingConfig{MaxConnects: 3, Window: time.Minute, BanTime: time.Hour}, c.now)
	connect := func(id string, want bool) {
		t.Helper()
		got, banned := f.Connected(id)
		if banned != want {
			t.Fatalf("%s: banned %v, want %v", id, banned, want)
		}
		ban := broker.Ban{
			Kind: broker.BanClientID, Value: id, Reason: "connected more than 3 times within 1m0s",
			CreatedAt: c.now(), CreatedBy: "flapping", ExpiresAt: c.now().Add(time.Hour),
		}
		if d := cmp.Diff(ban, got); banned && d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
	for range 3 {
		connect("id", false)
		connect("other", false)
		c.pass(20 * time.Second)
	}
	connect("id", false) // the first connect was a minute ago
	connect("id", true)
	for range 3 { // the count has started over
		connect("id", false)
	}
	connect("id", true)
}

// TestFlappingIsBounded: of more client ids than are kept, those that have not connected
// for the longest time are removed.
func TestFlappingIsBounded(t *testing.T) {
	t.Parallel()
	const watched = 65_536
	f := limits.NewFlapping(limits.FlappingConfig{MaxConnects: 2, Window: time.Minute, BanTime: time.Hour}, newClock().now)
	for n := range watched {
		f.Connected(fmt.Sprint(n))
	}
	f.Connected("0")
	f.Connected("one more")
	if _, banned := f.Connected("0"); !banned {
		t.Error("one that has just connected is forgotten")
	}
	f.Connected("1")
	if _, banned := f.Connected("1"); banned {
		t.Error("the one that connected first is remembered")
	}
}
