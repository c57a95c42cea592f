//go:build linux

package load

import (
	"errors"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
)

// TestGrowth_with_Mosquitto adds some of all that grows, and then plays the load beside it, which
// fails on a message of a subscription that was added.
func TestGrowth_with_Mosquitto(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t, brokertest.WithoutPlugin(), brokertest.WithConfig("max_queued_messages 0", "max_inflight_messages 1000"))
	target := Target{Addr: server.Addr}
	if err := AddSubscriptions(t.Context(), target, 300, FiltersEach+900); err != nil {
		t.Error(err)
	}
	if err := AddSessions(t.Context(), target, 5, 30); err != nil {
		t.Error(err)
	}
	for _, part := range [][2]int{{0, 150}, {150, 500}} {
		if err := AddRetained(t.Context(), target, part[0], part[1]); err != nil {
			t.Error(err)
		}
	}
	for _, wildcard := range []bool{false, true} {
		if err := ReadRetained(t.Context(), target, 500, 50, wildcard); err != nil {
			t.Errorf("wildcard %t: %v", wildcard, err)
		}
	}
	playTwice(t, Growth, target, 2_000)
}

// TestGrowthFilter checks that half of the filters have wildcards, and that all differ.
func TestGrowthFilter(t *testing.T) {
	t.Parallel()
	const many = 8 * growthPaths
	seen, wildcards := map[string]bool{}, 0
	for n := range many {
		f := growthFilter(n)
		if strings.ContainsAny(f, "+#") {
			wildcards++
		}
		seen[f] = true
	}
	if len(seen) != many || wildcards != many/2 {
		t.Errorf("got %d filters, %d of them with wildcards; want %d and %d", len(seen), wildcards, many, many/2)
	}
}

func TestAddSessions_fails_without_a_broker(t *testing.T) {
	t.Parallel()
	if err := AddSessions(t.Context(), Target{Addr: "127.0.0.1:1"}, 0, 3); err == nil || errors.Is(err, errWrong) {
		t.Errorf("got %v, want a connection that is refused", err)
	}
}
