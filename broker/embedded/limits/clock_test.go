package limits_test

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestMain fails if a goroutine is left after all tests.
func TestMain(m *testing.M) { suite.Main(m) }

// clock is a clock that tests advance.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }
