// Package clocktest is a machine whose clocks tests move.
package clocktest

import (
	"fmt"
	"sync"
	"time"

	"signalbox/broker/clock"
)

// Machine has a time of day, which can be set, and others, which cannot. All methods
// are safe for concurrent use.
type Machine struct {
	mu        sync.Mutex // guards what follows
	wall      time.Time
	elapsed   time.Duration
	suspended time.Duration
	boot      int
	since     time.Duration
}

// New returns a machine that was just started, on a day in 2026.
func New() *Machine {
	return &Machine{wall: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
}

// Sources returns the clocks of the machine.
func (m *Machine) Sources() clock.Sources {
	return clock.Sources{
		Wall:      func() time.Time { return read(m, &m.wall) },
		Elapsed:   func() time.Duration { return read(m, &m.elapsed) },
		Suspended: func() time.Duration { return read(m, &m.suspended) },
		Boot: func() (string, time.Duration) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return fmt.Sprint("boot ", m.boot), m.since
		},
	}
}

func read[T any](m *Machine, place *T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *place
}

// Pass has time pass.
func (m *Machine) Pass(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.elapsed, m.since = m.wall.Add(d), m.elapsed+d, m.since+d
}

// Step sets the time of day.
func (m *Machine) Step(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall = m.wall.Add(by)
}

// Suspend has time pass while the machine is suspended.
func (m *Machine) Suspend(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.suspended, m.since = m.wall.Add(d), m.suspended+d, m.since+d
}

// Restart starts the machine anew after it was off for a while. No caller may use its
// clocks meanwhile.
func (m *Machine) Restart(off time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.elapsed, m.suspended, m.since, m.boot = m.wall.Add(off), 0, 0, 0, m.boot+1
}
