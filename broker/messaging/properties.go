package messaging

import (
	"encoding/base64"
	"strconv"

	"signalbox/broker"
	"signalbox/broker/mqtt/packet"
)

// EncodeProperties encodes the MQTT 5 properties of a message that is to be published, but
// for its expiry. It fails for properties that a client could not send.
func EncodeProperties(p broker.PublishSpec) ([]byte, error) {
	var all []packet.Property
	add := func(identifier, value string) {
		if value != "" {
			all = append(all, packet.Property{Identifier: identifier, Value: value})
		}
	}
	add(packet.PropertyContentType, p.ContentType)
	add(packet.PropertyResponseTopic, p.ResponseTopic)
	add(packet.PropertyCorrelationData, base64.StdEncoding.EncodeToString(p.CorrelationData))
	for _, u := range p.UserProperties {
		all = append(all, packet.Property{Identifier: packet.PropertyUser, Name: u.Name, Value: u.Value})
	}
	return packet.EncodeProperties(all)
}

// DecodeProperties decodes the properties of a message for display, as far as they are valid; nil
// for none.
func DecodeProperties(raw []byte) *broker.MessageProperties {
	if len(raw) == 0 {
		return nil
	}
	p := decodeProperties(raw)
	return &p
}

func decodeProperties(raw []byte) (p broker.MessageProperties) {
	for _, one := range packet.DescribeProperties(raw) {
		switch one.Identifier {
		case packet.PropertyPayloadFormat:
			p.PayloadFormat, _ = strconv.Atoi(one.Value) // it is a number
		case packet.PropertyContentType:
			p.ContentType = one.Value
		case packet.PropertyResponseTopic:
			p.ResponseTopic = one.Value
		case packet.PropertyCorrelationData:
			p.CorrelationData = one.Value
		case packet.PropertyUser:
			p.UserProperties = append(p.UserProperties, broker.UserProperty{Name: one.Name, Value: one.Value})
		}
	}
	return p
}

// Published returns a message for display. Its payload and properties are those of the message.
func (m *Message) Published() broker.PublishedMessage {
	p := broker.PublishedMessage{Topic: m.Topic, Payload: m.Payload, QoS: m.QoS, Retain: m.Retain}
	raw, expiry := m.Properties, m.expiry()
	switch {
	case len(raw) > broker.PreviewLimit:
		p.Omitted = true
	case len(raw) > 0 || expiry > 0:
		p.Properties = func() *broker.PublishedProperties {
			return &broker.PublishedProperties{MessageProperties: decodeProperties(raw), Expiry: expiry}
		}
	}
	return p
}

// expiry returns after how many seconds a message expires, counted from when it arrived, at
// least 1; 0 for never.
func (m *Message) expiry() int64 {
	if m.ExpiresAt == 0 {
		return 0
	}
	return max((m.ExpiresAt-m.At+999)/1000, 1)
}
