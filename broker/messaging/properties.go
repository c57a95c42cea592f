package messaging

import (
	"encoding/base64"

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
