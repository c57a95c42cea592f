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

// Message is the message that expressions refer to. It caches what was parsed, so it must be used
// by one goroutine at a time.
type Message struct {
	*messaging.Message
	MessageID string
	Hostname  string // of the machine that signalbox runs on; "" for this machine

	payload    gjson.Result // set when parsed
	properties []packet.Property
	parsed     parsed
}

// parsed records which parts of a message were parsed.
type parsed struct{ payload, notJSON, properties bool }

// The maximum size of a result, in bytes and as a multiple of the payload: a template or mapping
// that repeats a large payload could exhaust the memory.
const (
	maxBytes  = 16 << 20
	maxFactor = 8
)

var errTooLarge = &Unfit{"the configuration repeats so much of the message that it becomes too large"}

// maxSize returns the maximum size of a result in bytes.
func (m *Message) maxSize() int { return max(maxBytes, maxFactor*len(m.Payload)) }

var errNotJSON = &Unfit{"the payload is not JSON"}

var machine = sync.OnceValue(func() string {
	name, _ := os.Hostname() // without a name the value is absent
	return name
})

func (m *Message) hostname() string {
	if m.Hostname != "" {
		return m.Hostname
	}
	return machine()
}

// json returns the payload as JSON.
func (m *Message) json() (gjson.Result, error) {
	if !m.parsed.payload {
		m.parsed.payload = true
		if m.parsed.notJSON = !json.Valid(m.Payload); !m.parsed.notJSON {
			m.payload = gjson.ParseBytes(m.Payload)
		}
	}
	if m.parsed.notJSON {
		return gjson.Result{}, errNotJSON
	}
	return m.payload, nil
}

// property returns the first property with an identifier and, for user properties, a name.
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
		return nil // cannot happen: packet has encoded it
	}
	return data
}
