package mapping

import (
	"encoding/json"
	"errors"

	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// tryJSON returns an error if a JSON template produces invalid JSON from suitable messages. One
// payload is a number and one an object, so that a raw value is possible both within quotes and
// without.
func (t *Template) tryJSON() error {
	tried := error(nil)
	for _, payload := range []string{`0`, `{}`} {
		text, err := t.Append(nil, sampleMessage(payload))
		if err == nil && json.Valid(text) {
			return nil
		}
		if tried == nil {
			tried = errors.New("does not make valid JSON; for an example it makes " + excerpt(text))
		}
	}
	return tried
}

func sampleMessage(payload string) *Message {
	properties, _ := packet.EncodeProperties([]packet.Property{ // cannot fail
		{Identifier: packet.PropertyContentType, Value: "text/plain"}, {Identifier: packet.PropertyResponseTopic, Value: "answers"},
	})
	return &Message{MessageID: "0-1", Hostname: "host", Message: &messaging.Message{
		Topic: "a/b", Payload: []byte(payload), Properties: properties, QoS: 1, At: 1, ClientID: "client",
	}}
}

// excerpt returns the beginning of a text for an error text.
func excerpt(text []byte) string {
	if len(text) > 100 {
		return string(text[:100]) + "..."
	}
	return string(text)
}
