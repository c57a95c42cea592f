package mapping

import (
	"encoding/json"
	"errors"

	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// tryJSON tells whether a template of JSON makes JSON of messages that fit it as
// well as can be. Payloads are one as a number and one as an object, so that both
// a place in quotes and one without may take them raw.
func (t *Template) tryJSON() error {
	tried := error(nil)
	for _, payload := range []string{`0`, `{}`} {
		text, err := t.Append(nil, sample(payload))
		if err == nil && json.Valid(text) {
			return nil
		}
		if tried == nil {
			tried = errors.New("makes no JSON; what it makes of an example is " + excerpt(text))
		}
	}
	return tried
}

func sample(payload string) *Message {
	properties, _ := packet.EncodeProperties([]packet.Property{ // they are sound
		{Identifier: packet.PropertyContentType, Value: "text/plain"}, {Identifier: packet.PropertyResponseTopic, Value: "answers"},
	})
	return &Message{MessageID: "0-1", Hostname: "host", Message: &messaging.Message{
		Topic: "a/b", Payload: []byte(payload), Properties: properties, QoS: 1, At: 1, ClientID: "client",
	}}
}

// excerpt gives the beginning of a text for a sentence.
func excerpt(text []byte) string {
	if len(text) > 100 {
		return string(text[:100]) + "..."
	}
	return string(text)
}
