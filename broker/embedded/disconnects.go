package embedded

import (
	"slices"

	"signalbox/broker/dynsec"
)

// disconnect disconnects clients, after the response if a command is under way: the
// requester of a join may not exist in the cluster's access control.
func (m *member) disconnect(disconnects []dynsec.Disconnect) {
	m.mu.Lock()
	entering := m.entering
	if entering {
		m.disconnects = append(m.disconnects, disconnects...)
	}
	m.mu.Unlock()
	if !entering {
		m.broker.disconnect(disconnects)
	}
}

// deferDisconnects returns the disconnects without those of clients that wait for a response
// about access control, which are deferred: an administrator who changes its own
// rights through a node that does not lead must receive the response.
func (m *member) deferDisconnects(disconnects []dynsec.Disconnect) []dynsec.Disconnect {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(disconnects), func(c dynsec.Disconnect) bool {
		waits := m.awaiting[c.Username] > 0
		if waits {
			m.deferred[c.Username] = c
		}
		return waits
	})
}

// track records that a client waits for a response. The returned function must be called
// after the response was sent.
func (m *member) track(username string) (answered func()) {
	if m == nil {
		return func() {}
	}
	m.mu.Lock()
	m.awaiting[username]++
	m.mu.Unlock()
	return func() {
		if c, due := m.untrack(username); due {
			m.broker.disconnect([]dynsec.Disconnect{c})
		}
	}
}

// untrack records that a client has received a response, and returns its deferred
// disconnect if it is due.
func (m *member) untrack(username string) (c dynsec.Disconnect, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.awaiting[username]--; m.awaiting[username] > 0 {
		return c, false
	}
	delete(m.awaiting, username)
	c, due = m.deferred[username]
	delete(m.deferred, username)
	return c, due
}

// beginCommand notes that a command about clusters is under way, until disconnectDeferred.
func (m *member) beginCommand() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commands++
}

// disconnectDeferred ends a command that was answered. The last one disconnects the clients that had to
// receive a response first.
func (m *member) disconnectDeferred() {
	m.mu.Lock()
	var disconnects []dynsec.Disconnect
	if m.commands--; m.commands == 0 {
		disconnects = m.disconnects
		m.entering, m.disconnects = false, nil
		m.changed() // what waits for the answer goes on
	}
	m.mu.Unlock()
	m.broker.disconnect(disconnects)
}
