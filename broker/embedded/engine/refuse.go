package engine

import (
	"errors"
	"time"

	"signalbox/broker/mqtt/packet"
)

// reject answers CONNECT with the reason why the client does not get in, as far
// as its version has a word for it, and ends the connection.
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
	c.engine.watcher.Refused(c.event(), reason, plain(err))
	version := c.version
	if version != packet.V5 {
		version = packet.V311 // also to say that it should be that
	}
	if code := connackCode(version, reason); code != 0 {
		c.sendFitting(packet.AppendConnack(nil, version, &packet.Connack{Reason: code}))
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

// plain is why a client does not get in, for people.
func plain(err error) string {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal.Text
	}
	if broken, ok := errors.AsType[*packet.Error](err); ok {
		return broken.Text
	}
	return err.Error()
}

// fits reports whether the client takes a packet of a size [MQTT-3.1.2-24].
func (c *Conn) fits(size int) bool { return c.maxPacket == 0 || size <= int(c.maxPacket) }

// sendFitting sends a packet if the client takes one of its size.
func (c *Conn) sendFitting(p []byte) {
	if c.fits(len(p)) {
		c.send(p)
	}
}

// errAnswerTooLarge ends a connection that could not be sent the answer it needs.
var errAnswerTooLarge = &packet.Error{Reason: packet.ReasonImplementationSpecific, Text: "the answer is larger than the client's maximum packet size"}

// connackCode translates a reason for a CONNACK of older versions: 0 means that
// they have no word for it, and the connection is closed without an answer
// [MQTT-3.2.2-6 of 3.1.1].
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
