package packet

import (
	"strings"
)

// Disconnect is a DISCONNECT from a client.
type Disconnect struct {
	Reason           byte   // always ReasonSuccess before MQTT 5
	SessionExpiry    uint32 // seconds; 4294967295 never
	HasSessionExpiry bool
}

// DecodeDisconnect decodes a DISCONNECT.
func DecodeDisconnect(p []byte, version byte) (Disconnect, error) {
	var d Disconnect
	c := openFlagged(p, TypeDisconnect, 0, version) // [MQTT-3.14.1-1]
	if version == V5 {
		d.Reason = c.reason(ReasonSuccess, disconnectReasons)
		w := c.lastProperties(inDisconnect)
		for p, ok := w.next(); ok; p, ok = w.next() {
			if p.id == propSessionExpiry {
				d.SessionExpiry, d.HasSessionExpiry = p.number, true
			}
		}
		c.check(w.fault)
	}
	if fault := c.end(); fault != nil {
		return Disconnect{}, fault
	}
	return d, nil
}

// DecodePingreq decodes a PINGREQ, which has no body [MQTT 3.12].
func DecodePingreq(p []byte) error {
	c := openFlagged(p, TypePingreq, 0, V5)
	return asError(c.end())
}

// reason decodes a reason code, which may be omitted together with what follows it.
func (c *cursor) reason(byDefault byte, allowed string) byte {
	code := byDefault
	if len(c.rest) > 0 {
		code = c.byte()
	}
	if c.fault == nil && strings.IndexByte(allowed, code) < 0 {
		c.fail(violation("reason code 0x%02x does not belong here", code))
	}
	return code
}
