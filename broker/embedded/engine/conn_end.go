package engine

import (
	"time"

	"signalbox/broker/mqtt/packet"
)

// end ends the connection; a client of MQTT 5 gets a DISCONNECT with the reason. With drain
// the queued messages are sent first.
func (c *Conn) end(reason byte, drain bool) {
	if c.beginEnd(reason, drain) {
		c.flush()
	}
}

// endUncertain is end for a client whose acknowledgement cannot be sent, because the
// outcome is not known: the client sends its packet again, to any server. It does not
// write on the calling goroutine.
func (c *Conn) endUncertain() {
	if c.beginEnd(packet.ReasonUseAnotherServer, false) {
		c.engine.flushDeferred(c)
	}
}

// endUnacknowledged is end for a client before MQTT 5 whose message cannot be stored: its
// version has no acknowledgement for that, and an error of the server ends the connection
// [MQTT-4.8.0-2 of 3.1.1]. It does not write on the calling goroutine.
func (c *Conn) endUnacknowledged() {
	if c.beginEnd(packet.ReasonQuotaExceeded, false) {
		c.engine.flushDeferred(c)
	}
}

// beginEnd begins to end the connection. It reports whether the caller must flush the
// connection.
func (c *Conn) beginEnd(reason byte, drain bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return false
	}
	c.finishReason(reason)
	if c.established.Load() && c.version >= 5 {
		c.last = c.disconnectPacket(reason)
	}
	c.ending, c.drained = true, drain
	c.graceTimer = time.AfterFunc(c.engine.config.Grace, func() { c.close(reason) })
	return true
}

// disconnectPacket returns a DISCONNECT of MQTT 5. It names the other servers if one of them is to be
// used and that fits [MQTT-3.14.2-2].
func (c *Conn) disconnectPacket(reason byte) []byte {
	if reference := c.engine.serverReference(reason); reference != "" {
		if p := packet.AppendRedirect(nil, reason, reference); c.fits(len(p)) {
			return p
		}
	}
	return packet.AppendDisconnect(nil, reason, "")
}

// endAsync is end on another goroutine, for callers that hold a lock.
func (c *Conn) endAsync(reason byte) {
	c.engine.tasks.Go(func() { c.end(reason, false) })
}
