package embedded

import (
	"slices"

	"signalbox/broker/dynsec"
)

// cut cuts off clients, after the answer where a command is under way: whoever
// has this broker join a cluster may not be known there.
func (m *member) cut(cuts []dynsec.Cut) {
	m.mu.Lock()
	later := m.entering
	if later {
		m.cuts = append(m.cuts, cuts...)
	}
	m.mu.Unlock()
	if !later {
		m.broker.cut(cuts)
	}
}

// spare leaves out, until they are answered, those who wait for an answer about
// access control: an administrator who changes itself through a node that does
// not lead is to hear of it.
func (m *member) spare(cuts []dynsec.Cut) []dynsec.Cut {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(cuts), func(c dynsec.Cut) bool {
		spared := m.asking[c.Username] > 0
		if spared {
			m.spared[c.Username] = c
		}
		return spared
	})
}

// asks notes that a client waits for an answer. It gives what is to be called
// when that is out.
func (m *member) asks(username string) (answered func()) {
	if m == nil {
		return func() {}
	}
	m.mu.Lock()
	m.asking[username]++
	m.mu.Unlock()
	return func() {
		if c, due := m.heard(username); due {
			m.broker.cut([]dynsec.Cut{c})
		}
	}
}

// heard notes that a client has its answer, and gives whether it is to be cut off
// now.
func (m *member) heard(username string) (c dynsec.Cut, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asking[username]--; m.asking[username] > 0 {
		return c, false
	}
	delete(m.asking, username)
	c, due = m.spared[username]
	delete(m.spared, username)
	return c, due
}

// answered cuts off the clients that were to hear an answer first.
func (m *member) answered() {
	m.mu.Lock()
	cuts := m.cuts
	m.entering, m.cuts = false, nil
	m.mu.Unlock()
	m.broker.cut(cuts)
}
