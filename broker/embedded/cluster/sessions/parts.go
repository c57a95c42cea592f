package sessions

// A session that another node began to take over, and that stayed, may have a part there until it was
// compared with that node. If a third node took it over meanwhile, these two would not be compared.

// notePart records that the node of a handoff may have a part of the session, which has stayed here.
// Only Drain has other nodes take over a session that no client claims.
func (c *Coordinator) notePart(h *handoff) {
	if _, err := c.o.Engine.Ownership(h.lease.clientID); err != nil || !c.draining.Load() {
		return
	}
	c.mu.Lock()
	c.parts[h.lease.clientID] = h.to
	c.mu.Unlock()
	c.markUnreconciled(h.to)
	c.probeSoon()
}

// hasPart reports whether another node may have a part of a session of this one.
func (c *Coordinator) hasPart(clientID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, part := c.parts[clientID]
	return part
}

// dropParts forgets the parts at some nodes. c.mu must be held.
func (c *Coordinator) dropParts(at func(node int) bool) {
	for clientID, node := range c.parts {
		if at(node) {
			delete(c.parts, clientID)
		}
	}
}

// isMovable reports whether no other node has, or takes over, a session or a part of it.
func (c *Coordinator) isMovable(clientID string) bool {
	return c.doubtAbout(clientID) == nil && !c.leases.held(clientID) && !c.hasPart(clientID)
}
