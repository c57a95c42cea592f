package mqtt

import (
	"fmt"
	"slices"

	"signalbox/broker/mqtt/client"
)

// granted gives the first pattern of a route that a topic there matches and that
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

// sure tells whether messages of a QoS that are published at the other broker now
// will come from there: those that its session keeps also while there is no
// connection.
func (c *connector) sure(qos byte) bool {
	if !c.met.Load() {
		return false
	}
	s, down := &c.document.Connection, c.downAt.Load()
	return down == 0 || c.lasting() && qos > 0 && c.now().UnixMilli()-down < int64(s.SessionExpiry)*1000
}

// lasting tells whether the other broker keeps messages while there is no
// connection.
func (c *connector) lasting() bool {
	return !c.document.Connection.CleanStart && c.document.Connection.SessionExpiry > 0
}

// inherit has a connector go on where the one before was, if it leads to the same
// broker and the same session.
func (c *connector) inherit(from *connector) {
	if c.guess != from.guess || c.document.Connection.ClientID != from.document.Connection.ClientID {
		return
	}
	peer := from.peer()
	c.former.Store(&peer)
	c.met.Store(c.lasting() && from.met.Load())
	c.downAt.Store(c.now().UnixMilli())
}

// down notes that there is no connection.
func (c *connector) down() {
	c.downAt.CompareAndSwap(0, c.now().UnixMilli())
	c.tell("0")
}

// up notes that there is a connection, and what it does not let us subscribe to.
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

// refused names a filter that the other broker does not let us subscribe to, where
// there is nothing else to do.
func (c *connector) refused() error {
	if barred := c.barred.Load(); len(c.outs) == 0 && barred != nil {
		return fmt.Errorf("the broker does not let the connection's user subscribe to %q", (*barred)[0])
	}
	return nil
}
