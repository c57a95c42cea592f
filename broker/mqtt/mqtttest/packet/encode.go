package packet

import "encoding/binary"

// The versions of the protocol, as CONNECT has them.
const (
	V31  = 3
	V311 = 4
	V5   = 5
)

// Append appends a packet that a client sends, in a version of the protocol. It checks
// nothing: tests send invalid packets, too.
func (p *Packet) Append(b []byte, version byte) []byte {
	switch p.Type {
	case Connect:
		return appendPacket(b, Connect, p.appendConnect(nil, version))
	case Publish:
		return p.appendPublish(b, version)
	case Subscribe, Unsubscribe:
		return appendPacket(b, p.Type, p.appendFilters(nil, version))
	case Pingreq:
		return AppendEmpty(b, Pingreq)
	case Disconnect:
		return appendPacket(b, Disconnect, p.appendReason(nil, version))
	}
	return appendPacket(b, p.Type, p.appendReason(binary.BigEndian.AppendUint16(nil, p.ID), version))
}

// appendConnect appends the body of CONNECT: the variable header, then the payload.
func (p *Packet) appendConnect(b []byte, version byte) []byte {
	c := &p.Connect
	name := "MQTT"
	if version == V31 {
		name = "MQIsdp"
	}
	b = append(appendText(b, name), version, c.flags())
	b = binary.BigEndian.AppendUint16(b, c.KeepAlive)
	b = p.Properties.append(b, version)
	b = appendText(b, c.ClientID)
	if c.HasWill {
		b = c.Will.Properties.append(b, version)
		b = appendText(appendText(b, c.Will.Topic), string(c.Will.Payload))
	}
	if c.HasUsername {
		b = appendText(b, c.Username)
	}
	if c.HasPassword {
		b = appendText(b, c.Password)
	}
	return b
}

// flags returns the Connect Flags [MQTT-3.1.2.3].
func (c *ConnectFields) flags() (flags byte) {
	const cleanStart, will, willQoS, willRetain, password, username = 0x02, 0x04, 3, 0x20, 0x40, 0x80
	for _, f := range []struct {
		flag byte
		set  bool
	}{
		{cleanStart, c.CleanStart}, {will, c.HasWill}, {willRetain, c.HasWill && c.Will.Retain},
		{password, c.HasPassword}, {username, c.HasUsername},
	} {
		if f.set {
			flags |= f.flag
		}
	}
	if c.HasWill {
		flags |= c.Will.QoS << willQoS
	}
	return flags
}

func (p *Packet) appendPublish(b []byte, version byte) []byte {
	m := Message{Topic: []byte(p.Topic), Payload: append(p.Properties.append(nil, version), p.Payload...),
		ID: p.ID, QoS: p.QoS, Retain: p.Retain, Dup: p.Dup}
	return AppendPublish(b, m) // the properties precede the payload
}

// appendFilters appends the body of SUBSCRIBE or UNSUBSCRIBE.
func (p *Packet) appendFilters(b []byte, version byte) []byte {
	b = p.Properties.append(binary.BigEndian.AppendUint16(b, p.ID), version)
	for _, f := range p.Filters {
		if b = appendText(b, f.Filter); p.Type == Subscribe {
			b = append(b, f.options())
		}
	}
	return b
}

// appendReason appends a reason code and properties, unless they may be omitted
// (sections 3.4.2.1 and 3.14.2.1 of the standard).
func (p *Packet) appendReason(b []byte, version byte) []byte {
	properties := p.Properties.append(nil, version)
	if p.Reason == 0 && len(properties) <= 1 || version != V5 {
		return b
	}
	return append(append(b, p.Reason), properties...)
}
