package engine

import "signalbox/broker/mqtt/packet"

// Divert refuses new clients from now on, which are to use another server (0x9C), except those of
// AdminOnly sockets and those with rights for which stays returns true. Redirect leaves these alone
// as well. Nil ends that.
func (e *Engine) Divert(stays func(Rights) bool) {
	if stays == nil {
		e.stays.Store(nil)
		return
	}
	e.stays.Store(&stays)
}

// isDiverted reports whether a client that has logged in is to use another server.
func (c *Conn) isDiverted() bool {
	stays := c.engine.stays.Load()
	return stays != nil && !c.socket.AdminOnly && !(*stays)(c.rights)
}

// redirected returns the connections that Redirect ends.
func (e *Engine) redirected() (out []*Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stays.Load() == nil {
		for c := range e.conns {
			if !c.socket.AdminOnly {
				out = append(out, c)
			}
		}
		return out
	}
	for _, conns := range e.users { // of others the rights are not known yet, and they are diverted when they log in
		for c := range conns {
			if c.isDiverted() {
				out = append(out, c)
			}
		}
	}
	return out
}

// Divertible returns the number of sessions without those of clients that Divert lets stay.
func (e *Engine) Divertible() (sessions int) {
	diverts := e.stays.Load() != nil
	for _, s := range e.all() {
		if c := s.connection(); c == nil || !c.socket.AdminOnly && (!diverts || c.isDiverted()) {
			sessions++
		}
	}
	return sessions
}

// serverReference returns the servers that a client is referred to by a reason, "" for none.
func (e *Engine) serverReference(reason byte) string {
	if reference := e.reference.Load(); reason == packet.ReasonUseAnotherServer && reference != nil {
		return *reference
	}
	return ""
}
