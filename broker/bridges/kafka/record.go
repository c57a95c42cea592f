package kafka

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/mqtt/packet"
)

// plan is a compiled topic mapping.
type plan struct {
	topic    *mapping.Template
	constant string // the topic if it is the same for all messages
	key      *mapping.Template
	value    mapping.Content
	headers  bool
}

// record makes the record for an entry. The error explains why the entry cannot become one.
func (l *plan) record(e *bridges.Entry) (*kgo.Record, error) {
	m := e.MappingMessage()
	topic, err := l.topicOf(m)
	if err != nil {
		return nil, err
	}
	r := &kgo.Record{Topic: topic, Timestamp: time.UnixMilli(e.At)}
	key, err := l.key.Append(nil, m)
	if err != nil {
		return nil, err
	}
	if len(key) > 0 {
		r.Key = key
	}
	if r.Value, err = l.value.Of(m); err != nil {
		return nil, err
	}
	if l.headers {
		r.Headers = headers(e)
	}
	return r, nil
}

// Preview returns the record of an entry; its key is the first attribute.
func (c *connector) Preview(e *bridges.Entry) (p bridges.Preview, err error) {
	r, err := c.plans[e.Mapping].record(e)
	if err != nil {
		return p, err
	}
	p.Destination, p.Payload = r.Topic, r.Value
	if len(r.Key) > 0 {
		p.AddAttribute("key", r.Key)
	}
	for _, h := range r.Headers {
		p.AddAttribute(h.Key, h.Value)
	}
	return p, nil
}

// topicOf returns the topic, in which slashes are replaced by dots.
func (l *plan) topicOf(m *mapping.Message) (string, error) {
	text, err := l.topic.Append(nil, m)
	if err != nil {
		return "", err
	}
	topic := strings.ReplaceAll(string(text), "/", ".")
	return topic, checkTopic(topic)
}

// maxTopic is the maximum length of a topic's name in bytes.
const maxTopic = 249

// checkTopic returns an error if name is not a valid topic name.
func checkTopic(name string) error {
	switch {
	case name == "":
		return errors.New("the topic's name is empty")
	case len(name) > maxTopic:
		return fmt.Errorf("the topic's name has more than %d characters", maxTopic)
	case name == "." || name == "..":
		return fmt.Errorf("%q is not a name of a topic", name)
	}
	for i := range len(name) {
		if c := name[i]; !isLetter(c) && strings.IndexByte("0123456789._-", c) < 0 {
			return fmt.Errorf("the topic's name %q has a character that Kafka does not allow: there may be letters, digits, dots, hyphens and underscores", name)
		}
	}
	return nil
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// headerPrefix is the prefix of the headers that describe the MQTT message.
const headerPrefix = "mqtt."

// headers returns the headers of an entry. User properties keep their names, except those with
// the reserved prefix, which a publisher must not be able to forge.
func headers(e *bridges.Entry) []kgo.RecordHeader {
	text := func(name, value string) kgo.RecordHeader {
		return kgo.RecordHeader{Key: headerPrefix + name, Value: []byte(value)}
	}
	all := []kgo.RecordHeader{
		text("topic", e.Topic), text("qos", strconv.Itoa(int(e.QoS))), text("retain", strconv.FormatBool(e.Retain)), text("message_id", e.MessageID),
	}
	for _, p := range packet.DescribeProperties(e.Properties) {
		switch p.Identifier {
		case packet.PropertyContentType:
			all = append(all, text("content_type", p.Value))
		case packet.PropertyResponseTopic:
			all = append(all, text("response_topic", p.Value))
		case packet.PropertyCorrelationData:
			data, err := base64.StdEncoding.DecodeString(p.Value)
			if err == nil {
				all = append(all, kgo.RecordHeader{Key: headerPrefix + "correlation_data", Value: data})
			}
		case packet.PropertyUser:
			if !strings.HasPrefix(p.Name, headerPrefix) {
				all = append(all, kgo.RecordHeader{Key: p.Name, Value: []byte(p.Value)})
			}
		}
	}
	return all
}

// size returns an upper bound of a record's size in a batch, in bytes.
func size(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value) + 64
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}
