package mapping

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/broker/mqtt/packet"
)

// maxExpression is the maximum length of an expression in bytes.
const maxExpression = 1000

// Expression names a part of a message.
type Expression struct {
	text   string
	value  func(m *Message) (Value, error)
	path   []step // of jsonPayload
	isJSON bool
}

// String returns the expression as it was written.
func (e *Expression) String() string { return e.text }

// Value returns the value of the expression, nil if the message has none. The error is an *Unfit.
func (e *Expression) Value(m *Message) (Value, error) { return e.value(m) }

// nameValues are the expressions that consist of a name only.
var nameValues = map[string]func(m *Message) Value{
	"payload":         func(m *Message) Value { return m.Payload },
	"topic":           func(m *Message) Value { return m.Topic },
	"qos":             func(m *Message) Value { return int64(m.QoS) },
	"retain":          func(m *Message) Value { return m.Retain },
	"client_id":       func(m *Message) Value { return orNil(m.ClientID) },
	"timestamp":       func(m *Message) Value { return time.UnixMilli(m.At).UTC() },
	"hostname":        func(m *Message) Value { return orNil(m.hostname()) },
	"message_id":      func(m *Message) Value { return orNil(m.MessageID) },
	"contentType":     func(m *Message) Value { return m.property(packet.PropertyContentType, "") },
	"responseTopic":   func(m *Message) Value { return m.property(packet.PropertyResponseTopic, "") },
	"correlationData": func(m *Message) Value { return m.property(packet.PropertyCorrelationData, "") },
}

// names returns the names that an expression can begin with.
func names() []string {
	names := []string{"jsonPayload", "userProperties"}
	for name := range nameValues {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func orNil(s string) Value {
	if s == "" {
		return nil
	}
	return s
}

// ParseExpression parses an expression. The error text is a predicate without a subject, for
// example "has no closing bracket".
func ParseExpression(text string) (*Expression, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("must have at most %d bytes", maxExpression)
	}
	end := strings.IndexAny(text, ".[")
	if end < 0 {
		end = len(text)
	}
	path, err := parsePath(text[end:])
	if err != nil {
		return nil, err
	}
	value, err := source(text[:end], path)
	if err != nil {
		return nil, err
	}
	return &Expression{text: text, value: value, path: path, isJSON: text[:end] == "jsonPayload"}, nil
}

// source returns the function that evaluates a name with a path.
func source(name string, path []step) (func(*Message) (Value, error), error) {
	switch {
	case name == "jsonPayload":
		return func(m *Message) (Value, error) { return jsonValue(m, path) }, nil
	case name == "userProperties":
		return userProperty(path)
	case name == "topic" && len(path) > 0:
		return topicLevel(path)
	}
	value, ok := nameValues[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("%q is none of %s", name, strings.Join(names(), ", "))
	case len(path) > 0:
		return nil, fmt.Errorf("%s has no parts; those of a JSON payload are found as in jsonPayload.speed", name)
	}
	return func(m *Message) (Value, error) { return value(m), nil }, nil
}

func userProperty(path []step) (func(*Message) (Value, error), error) {
	if len(path) != 1 || path[0].isIndex {
		return nil, errors.New(`userProperties needs a name, as in userProperties.unit or userProperties["my unit"]`)
	}
	name := path[0].name
	return func(m *Message) (Value, error) { return m.property(packet.PropertyUser, name), nil }, nil
}

func topicLevel(path []step) (func(*Message) (Value, error), error) {
	if len(path) != 1 || !path[0].isIndex {
		return nil, errors.New("topic has levels only, as in topic[0], or topic[-1] for the last")
	}
	index := path[0].index
	return func(m *Message) (Value, error) { return level(m.Topic, index), nil }, nil
}

// level returns a level of a topic, nil if it does not exist.
func level(topic string, index int) Value {
	if index < 0 {
		if index += strings.Count(topic, "/") + 1; index < 0 {
			return nil
		}
	}
	for ; index > 0; index-- {
		_, rest, ok := strings.Cut(topic, "/")
		if !ok {
			return nil
		}
		topic = rest
	}
	first, _, _ := strings.Cut(topic, "/")
	return first
}
