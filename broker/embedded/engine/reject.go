package engine

import (
	"errors"
	"time"

	"signalbox/broker/mqtt/packet"
)

// reject answers CONNECT with the reason of the refusal, if the version of the client has a
// code for it, and ends the connection.
func (c *Conn) reject(err error) error {
	reason := packet.ReasonServerUnavailable
	var refusal *Refusal
	var broken *packet.Error
	switch {
	case errors.As(err, &refusal):
		reason = refusal.Reason
	case errors.As(err, &broken):
		reason = broken.Reason
	default:
		c.engine.config.Log.Warn("a log-in could not be decided", "remote", c.socket.Address, "error", err)
	}
	c.engine.meters.refused.Add(1)
	c.engine.watcher.Refused(c.event(), reason, reasonText(err))
	version := c.version
	if version != packet.V5 {
		version = packet.V311 // also for an unsupported version [MQTT-3.1.2-2 of 3.1.1]
	}
	if code := connackCode(version, reason); code != 0 {
		p := packet.AppendConnack(nil, version, &packet.Connack{Reason: code, ServerReference: c.engine.serverReference(reason)})
		if !c.fits(len(p)) {
			p = packet.AppendConnack(nil, version, &packet.Connack{Reason: code})
		}
		c.sendFitting(p)
	}
	c.mu.Lock()
	c.finishReason(reason)
	c.ending = true
	c.graceTimer = time.AfterFunc(c.engine.config.Grace, func() { c.close(reason) })
	c.mu.Unlock()
	c.flush()
	c.await()
	return errDisconnected
}

// reasonText returns the reason of a refusal as text.
func reasonText(err error) string {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal.Text
	}
	if broken, ok := errors.AsType[*packet.Error](err); ok {
		return broken.Text
	}
	return err.Error()
}

// fits reports whether a packet is within the client's maximum packet size
// [MQTT-3.1.2-24].
func (c *Conn) fits(size int) bool { return c.maxPacket == 0 || size <= int(c.maxPacket) }

// sendFitting sends a packet unless it is too large for the client.
func (c *Conn) sendFitting(p []byte) {
	if c.fits(len(p)) {
		c.send(p)
	}
}

// errAnswerTooLarge ends a connection whose response is too large for the client.
var errAnswerTooLarge = &packet.Error{Reason: packet.ReasonImplementationSpecific, Text: "the response is larger than the client's maximum packet size"}

// connackCode returns the CONNACK code of a reason in older versions. 0 means that they have
// none, and the connection is closed without a response [MQTT-3.2.2-6 of 3.1.1].
func connackCode(version, reason byte) byte {
	if version >= 5 {
		return reason
	}
	switch reason {
	case packet.ReasonUnsupportedVersion:
		return 1
	case packet.ReasonClientIDNotValid:
		return 2
	case packet.ReasonServerUnavailable, packet.ReasonServerBusy, packet.ReasonQuotaExceeded, packet.ReasonUseAnotherServer:
		return 3
	case packet.ReasonNotAuthorized, packet.ReasonBanned:
		return 5
	}
	return 0
}
