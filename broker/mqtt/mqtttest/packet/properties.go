package packet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// The identifiers of properties that Properties has a field for [MQTT-2.2.2.2].
const (
	payloadFormat     = 0x01
	messageExpiry     = 0x02
	contentType       = 0x03
	responseTopic     = 0x08
	correlationData   = 0x09
	subscriptionID    = 0x0b
	sessionExpiry     = 0x11
	assignedClientID  = 0x12
	serverKeepAlive   = 0x13
	willDelay         = 0x18
	serverReference   = 0x1c
	reasonString      = 0x1f
	receiveMaximum    = 0x21
	topicAlias        = 0x23
	userProperty      = 0x26
	maximumPacketSize = 0x27
)

// The types of values of properties. The first three are lengths.
const (
	oneByte = 1
	two     = 2
	four    = 4
	varint  = iota + 10
	text
	binaryData
	pair
)

// properties has the type of each property that a server may send, and the packets in which
// it may [MQTT-2.2.2.2].
var properties = map[byte]struct {
	kind int
	in   []byte
}{
	payloadFormat:     {oneByte, []byte{Publish}},
	messageExpiry:     {four, []byte{Publish}},
	contentType:       {text, []byte{Publish}},
	responseTopic:     {text, []byte{Publish}},
	correlationData:   {binaryData, []byte{Publish}},
	subscriptionID:    {varint, []byte{Publish}},
	sessionExpiry:     {four, []byte{Connack}},
	assignedClientID:  {text, []byte{Connack}},
	serverKeepAlive:   {two, []byte{Connack}},
	0x15:              {text, []byte{Connack}},       // Authentication Method
	0x16:              {binaryData, []byte{Connack}}, // Authentication Data
	0x1a:              {text, []byte{Connack}},       // Response Information
	serverReference:   {text, []byte{Connack, Disconnect}},
	reasonString:      {text, []byte{Connack, Puback, Pubrec, Pubrel, Pubcomp, Suback, Unsuback, Disconnect}},
	receiveMaximum:    {two, []byte{Connack}},
	0x22:              {two, []byte{Connack}}, // Topic Alias Maximum
	topicAlias:        {two, []byte{Publish}},
	0x24:              {oneByte, []byte{Connack}}, // Maximum QoS
	0x25:              {oneByte, []byte{Connack}}, // Retain Available
	userProperty:      {pair, []byte{Connack, Publish, Puback, Pubrec, Pubrel, Pubcomp, Suback, Unsuback, Disconnect}},
	maximumPacketSize: {four, []byte{Connack}},
	0x28:              {oneByte, []byte{Connack}}, // Wildcard Subscription Available
	0x29:              {oneByte, []byte{Connack}}, // Subscription Identifier Available
	0x2a:              {oneByte, []byte{Connack}}, // Shared Subscription Available
}

// append appends the properties with their length; nothing before MQTT 5.
func (p *Properties) append(b []byte, version byte) []byte {
	if version != V5 {
		return b
	}
	body := p.appendNumbers(nil)
	for _, f := range []struct {
		id    byte
		value string
	}{
		{contentType, p.ContentType}, {responseTopic, p.ResponseTopic},
		{correlationData, string(p.CorrelationData)}, {reasonString, p.ReasonString},
		{serverReference, p.ServerReference},
	} {
		if f.value != "" {
			body = appendText(append(body, f.id), f.value)
		}
	}
	for _, id := range p.SubscriptionIDs {
		body = binary.AppendUvarint(append(body, subscriptionID), uint64(id))
	}
	for _, u := range p.User {
		body = appendText(appendText(append(body, userProperty), u.Name), u.Value)
	}
	return append(binary.AppendUvarint(b, uint64(len(body))), body...)
}

func (p *Properties) appendNumbers(b []byte) []byte {
	if p.PayloadFormat != nil {
		b = append(b, payloadFormat, *p.PayloadFormat)
	}
	for _, f := range []struct {
		id    byte
		value uint32
	}{
		{messageExpiry, p.MessageExpiry}, {sessionExpiry, p.SessionExpiry},
		{willDelay, p.WillDelay}, {maximumPacketSize, p.MaximumPacketSize},
	} {
		if f.value != 0 {
			b = binary.BigEndian.AppendUint32(append(b, f.id), f.value)
		}
	}
	if p.ReceiveMaximum != 0 {
		b = binary.BigEndian.AppendUint16(append(b, receiveMaximum), p.ReceiveMaximum)
	}
	if p.TopicAlias != 0 {
		b = binary.BigEndian.AppendUint16(append(b, topicAlias), p.TopicAlias)
	}
	return b
}

var errProperties = errors.New("malformed properties")

// readProperties reads the properties of a packet of a type that a server sent, and returns
// what follows them.
func readProperties(body []byte, packetType byte) (p Properties, rest []byte, err error) {
	length, n := binary.Uvarint(body)
	if n <= 0 || n > 4 || length > uint64(len(body)-n) {
		return p, nil, errProperties
	}
	d := &decoder{b: body[n : n+int(length)]}
	seen := map[byte]bool{}
	for len(d.b) > 0 {
		id := d.byte()
		if err := p.read(d, id, packetType, seen[id]); err != nil {
			return p, nil, err
		}
		seen[id] = true
	}
	return p, body[n+int(length):], nil
}

// read reads the value of a property.
func (p *Properties) read(d *decoder, id, packetType byte, again bool) error {
	known, ok := properties[id]
	repeats := id == userProperty || id == subscriptionID
	switch allowed := ok && bytes.IndexByte(known.in, packetType) >= 0; {
	case !allowed:
		return fmt.Errorf("%w: %#x in packet %#x", errProperties, id, packetType)
	case again && !repeats:
		return fmt.Errorf("%w: %#x twice", errProperties, id)
	}
	var number uint32
	var s, value string
	switch known.kind {
	case oneByte, two, four:
		number = d.number(known.kind)
	case varint:
		number = d.varint()
	case text:
		s = d.text()
	case binaryData:
		s = string(d.binary())
	case pair:
		s, value = d.text(), d.text()
	}
	if d.err == nil {
		p.set(id, number, s, value)
	}
	return d.err
}

// set sets the field of a property; those without a field are ignored.
func (p *Properties) set(id byte, number uint32, s, value string) {
	if text := p.text(id); text != nil {
		*text = s
		return
	}
	switch id {
	case payloadFormat:
		p.PayloadFormat = new(byte(number))
	case messageExpiry:
		p.MessageExpiry = number
	case correlationData:
		p.CorrelationData = []byte(s)
	case subscriptionID:
		p.SubscriptionIDs = append(p.SubscriptionIDs, number)
	case sessionExpiry:
		p.SessionExpiry = number
	case serverKeepAlive:
		p.ServerKeepAlive = uint16(number)
	case receiveMaximum:
		p.ReceiveMaximum = uint16(number)
	case topicAlias:
		p.TopicAlias = uint16(number)
	case userProperty:
		p.User = append(p.User, UserProperty{s, value})
	case maximumPacketSize:
		p.MaximumPacketSize = number
	}
}

// text returns the field of a property that is a text, nil for another one.
func (p *Properties) text(id byte) *string {
	switch id {
	case contentType:
		return &p.ContentType
	case responseTopic:
		return &p.ResponseTopic
	case assignedClientID:
		return &p.AssignedClientID
	case reasonString:
		return &p.ReasonString
	case serverReference:
		return &p.ServerReference
	}
	return nil
}
