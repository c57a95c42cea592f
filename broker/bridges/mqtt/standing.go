package mqtt

import (
	"fmt"
	"slices"

	"signalbox/broker/mqtt/client"
)

// granted returns the index of the first pattern of a route that a remote topic matches and that
// the other broker has not refused, -1 for none.
func (c *connector) granted(r *route, topic string) int {
	barred := c.barred.Load()
	if barred == nil {
		return r.first(r.remote, topic)
	}
	for i, pattern := range r.patterns {
		if filter := r.remote + pattern; client.Covers(filter, topic) && !slices.Contains(*barred, filter) {
			return i
		}
	}
	return -1
}

// sure reports whether messages of a QoS that are published at the other broker now will be
// received from there, in the case of a disconnect because its session keeps them.
func (c *connector) sure(qos byte) bool {
	if !c.met.Load() {
		return false
	}
	s, down := &c.document.Connection, c.downAt.Load()
	return down == 0 || c.lasting() && qos > 0 && c.now().UnixMilli()-down < int64(s.SessionExpiry)*1000
}

// lasting reports whether the other broker keeps messages while it is disconnected.
func (c *connector) lasting() bool {
	return !c.document.Connection.CleanStart && c.document.Connection.SessionExpiry > 0
}

// inherit continues the state of the previous connector if it has the same broker and session.
func (c *connector) inherit(from *connector) {
	if c.guess != from.guess || c.document.Connection.ClientID != from.document.Connection.ClientID {
		return
	}
	peer := from.peer()
	c.former.Store(&peer)
	c.met.Store(c.lasting() && from.met.Load())
	c.downAt.Store(c.now().UnixMilli())
}

// down records a disconnect.
func (c *connector) down() {
	c.downAt.CompareAndSwap(0, c.now().UnixMilli())
	c.tell("0")
}

// up records a connection, and the filters that were refused.
func (c *connector) up() {
	var barred []string
	for _, r := range c.ins {
		for _, filter := range r.filters(r.remote) {
			if c.feed.Refused(filter) {
				barred = append(barred, filter)
			}
		}
	}
	if len(barred) > 0 {
		c.barred.Store(&barred)
	} else {
		c.barred.Store(nil)
	}
	c.downAt.Store(0)
	c.met.Store(true)
	c.tell("1")
}

// refused returns an error for a refused filter if the connection has nothing else to do.
func (c *connector) refused() error {
	if barred := c.barred.Load(); len(c.outs) == 0 && barred != nil {
		return fmt.Errorf("the broker does not let the connection's user subscribe to %q", (*barred)[0])
	}
	return nil
}
