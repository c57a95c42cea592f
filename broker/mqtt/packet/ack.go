package packet

// Ack is a PUBACK, PUBREC, PUBREL or PUBCOMP.
type Ack struct {
	Type     byte
	PacketID uint16
	Reason   byte // always ReasonSuccess before MQTT 5
}

// DecodeAck decodes a PUBACK, PUBREC, PUBREL or PUBCOMP. It does not allocate.
func DecodeAck(p []byte, version byte) (Ack, error) {
	c, a, reasons := openAck(p, version)
	a.PacketID = c.packetID()
	if version == V5 {
		a.Reason = c.reason(ReasonSuccess, reasons)
		c.skip(c.lastProperties(inAcks))
	}
	if fault := c.end(); fault != nil {
		return Ack{}, fault
	}
	return a, nil
}

// openAck opens an acknowledgement and returns the valid reason codes.
func openAck(p []byte, version byte) (c cursor, a Ack, reasons string) {
	if len(p) > 0 {
		a.Type = p[0] >> 4
	}
	var flags byte
	switch a.Type {
	case TypePuback, TypePubrec:
		reasons = pubackReasons
	case TypePubrel:
		reasons, flags = pubrelReasons, 2 // [MQTT-3.6.1-1]
	case TypePubcomp:
		reasons = pubrelReasons
	default:
		return cursor{fault: errType}, a, ""
	}
	return openFlagged(p, a.Type, flags, version), a, reasons
}
