package mapping

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"sync"

	"github.com/tidwall/gjson"

	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// Message is a message as expressions see it. What was parsed of it is kept, so
// it is used by one goroutine at a time.
type Message struct {
	*messaging.Message
	MessageID string
	Hostname  string // of the machine that signalbox runs on; empty for this one's

	payload    gjson.Result // once parsed
	properties []packet.Property
	parsed     parsed
}

// parsed says what of a message was parsed.
type parsed struct{ payload, noJSON, properties bool }

// A message may become so many bytes, or so many times its payload: a template or
// mapping that repeats a large payload would take all memory.
const (
	mostBytes = 16 << 20
	mostTimes = 8
)

var errTooMuch = &Unfit{"the configuration repeats so much of the message that it becomes too large"}

// most is how many bytes may become of the message.
func (m *Message) most() int { return max(mostBytes, mostTimes*len(m.Payload)) }

var errNoJSON = &Unfit{"the payload is no JSON"}

var machine = sync.OnceValue(func() string {
	name, _ := os.Hostname() // without one there is nothing to tell
	return name
})

func (m *Message) hostname() string {
	if m.Hostname != "" {
		return m.Hostname
	}
	return machine()
}

// json gives the payload as JSON.
func (m *Message) json() (gjson.Result, error) {
	if !m.parsed.payload {
		m.parsed.payload = true
		if m.parsed.noJSON = !json.Valid(m.Payload); !m.parsed.noJSON {
			m.payload = gjson.ParseBytes(m.Payload)
		}
	}
	if m.parsed.noJSON {
		return gjson.Result{}, errNoJSON
	}
	return m.payload, nil
}

// property gives the first property with an identifier and, of user properties, a
// name.
func (m *Message) property(identifier, name string) Value {
	if !m.parsed.properties {
		m.parsed.properties = true
		m.properties = packet.DescribeProperties(m.Properties)
	}
	for _, p := range m.properties {
		if p.Identifier == identifier && p.Name == name {
			return propertyValue(p)
		}
	}
	return nil
}

func propertyValue(p packet.Property) Value {
	if p.Identifier != packet.PropertyCorrelationData {
		return p.Value
	}
	data, err := base64.StdEncoding.DecodeString(p.Value)
	if err != nil {
		return nil // it was encoded by wire: there is no such value
	}
	return data
}
