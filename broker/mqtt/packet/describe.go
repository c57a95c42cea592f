package packet

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

// Property is a property of a message in readable form.
type Property struct {
	Identifier string // one of the Property… constants
	Name       string // of a user property
	Value      string // correlation data in base64, numbers in decimals
}

// The identifiers of properties in readable form.
const (
	PropertyPayloadFormat   = "payload-format-indicator" // 0 or 1
	PropertyMessageExpiry   = "message-expiry-interval"  // seconds
	PropertyContentType     = "content-type"
	PropertyResponseTopic   = "response-topic"
	PropertyCorrelationData = "correlation-data"
	PropertyUser            = "user-property"
)

var described = map[byte]string{
	propPayloadFormat:   PropertyPayloadFormat,
	propMessageExpiry:   PropertyMessageExpiry,
	propContentType:     PropertyContentType,
	propResponseTopic:   PropertyResponseTopic,
	propCorrelationData: PropertyCorrelationData,
	propUser:            PropertyUser,
}

// DescribeProperties converts encoded properties of a message, as far as they are valid.
func DescribeProperties(raw []byte) []Property {
	var all []Property
	w := properties{cursor: cursor{rest: raw}, in: inMessage}
	for p, ok := w.next(); ok; p, ok = w.next() {
		if identifier, ok := described[p.id]; ok {
			all = append(all, Property{Identifier: identifier, Name: string(p.name), Value: p.describe()})
		}
	}
	return all
}

func (p *property) describe() string {
	switch p.id {
	case propPayloadFormat, propMessageExpiry:
		return strconv.FormatUint(uint64(p.number), 10)
	case propCorrelationData:
		return base64.StdEncoding.EncodeToString(p.bytes)
	}
	return string(p.bytes)
}

// EncodeProperties is the inverse of DescribeProperties, for a message to publish. It fails
// for properties that a client could not send, and for the expiry, which is not a constant.
func EncodeProperties(all []Property) ([]byte, error) {
	var raw []byte
	for _, p := range all {
		var err error
		if raw, err = p.appendTo(raw); err != nil {
			return nil, fmt.Errorf("encode property %q: %w", p.Identifier, err)
		}
	}
	c := cursor{}
	c.skip(properties{cursor: cursor{rest: raw}, in: inMessage})
	if c.fault != nil {
		return nil, fmt.Errorf("encode properties: %w", c.fault)
	}
	return raw, nil
}

var (
	errTooLong    = errors.New("it is longer than 65535 bytes")
	errUnknown    = errors.New("there is no such property of a message")
	errFormatByte = errors.New("it is neither 0 nor 1")
)

func (p Property) appendTo(dst []byte) ([]byte, error) {
	if len(p.Name) > maxText || len(p.Value) > maxText && p.Identifier != PropertyCorrelationData {
		return nil, errTooLong
	}
	switch p.Identifier {
	case PropertyPayloadFormat:
		if p.Value != "0" && p.Value != "1" {
			return nil, errFormatByte
		}
		return append(dst, propPayloadFormat, p.Value[0]-'0'), nil
	case PropertyContentType:
		return appendText(append(dst, propContentType), p.Value), nil
	case PropertyResponseTopic:
		return appendText(append(dst, propResponseTopic), p.Value), nil
	case PropertyUser:
		return appendText(appendText(append(dst, propUser), p.Name), p.Value), nil
	case PropertyCorrelationData:
		return p.appendCorrelation(dst)
	}
	return nil, errUnknown
}

func (p Property) appendCorrelation(dst []byte) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(p.Value)
	if err != nil {
		return nil, fmt.Errorf("read base64: %w", err)
	}
	if len(data) > maxText {
		return nil, errTooLong
	}
	return appendText(append(dst, propCorrelationData), data), nil
}
