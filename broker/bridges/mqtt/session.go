package mqtt

import (
	"fmt"
	"slices"

	"signalbox/broker/mqtt/client"
)

// firstGranted returns the index of the first pattern of a route that a remote topic matches and
// that the other broker has not refused, -1 for none.
func (c *connector) firstGranted(r *route, topic string) int {
	refused := c.refusedFilters.Load()
	if refused == nil {
		return r.firstMatch(r.remote, topic)
	}
	for i, pattern := range r.patterns {
		if filter := r.remote + pattern; client.Covers(filter, topic) && !slices.Contains(*refused, filter) {
			return i
		}
	}
	return -1
}

// isKeptWhileDisconnected reports whether messages of a QoS that are published at the other
// broker now will be received from there, in the case of a disconnect because its session keeps
// them.
func (c *connector) isKeptWhileDisconnected(qos byte) bool {
	if !c.hasConnected.Load() {
		return false
	}
	s, down := &c.document.Connection, c.disconnectedAt.Load()
	return down == 0 || c.hasPersistentSession() && qos > 0 && c.now().UnixMilli()-down < int64(s.SessionExpiry)*1000
}

// hasPersistentSession reports whether the other broker keeps messages while it is disconnected.
func (c *connector) hasPersistentSession() bool {
	return !c.document.Connection.CleanStart && c.document.Connection.SessionExpiry > 0
}

// continueFrom continues the state of the previous connector if it has the same broker and session.
func (c *connector) continueFrom(from *connector) {
	if c.configuredPeer != from.configuredPeer || c.document.Connection.ClientID != from.document.Connection.ClientID {
		return
	}
	peer := from.peer()
	c.previousPeer.Store(&peer)
	c.hasConnected.Store(c.hasPersistentSession() && from.hasConnected.Load())
	c.disconnectedAt.Store(c.now().UnixMilli())
}

// markDisconnected records a disconnect.
func (c *connector) markDisconnected() {
	c.disconnectedAt.CompareAndSwap(0, c.now().UnixMilli())
	c.publishState("0")
}

// markConnected records a connection, and the filters that were refused.
func (c *connector) markConnected() {
	var refused []string
	for _, r := range c.inRoutes {
		for _, filter := range r.filters(r.remote) {
			if c.client.Refused(filter) {
				refused = append(refused, filter)
			}
		}
	}
	if len(refused) > 0 {
		c.refusedFilters.Store(&refused)
	} else {
		c.refusedFilters.Store(nil)
	}
	c.disconnectedAt.Store(0)
	c.hasConnected.Store(true)
	c.publishState("1")
}

// refusedError returns an error for a refused filter if the connection has nothing else to do.
func (c *connector) refusedError() error {
	if refused := c.refusedFilters.Load(); len(c.outRoutes) == 0 && refused != nil {
		return fmt.Errorf("the broker does not let the connection's user subscribe to %q", (*refused)[0])
	}
	return nil
}
