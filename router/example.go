package router

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"signalbox/handlers"
)

// noExample as the tag example omits a member from examples: one of two alternatives,
// or a part of a response that is usually absent.
const noExample = "-"

// exampleTime is the default example of a date and time.
const exampleTime = "2026-01-31T12:00:00Z"

// example returns an example of a value as JSON: the tag example of its field,
// otherwise one composed of the examples of its parts, otherwise the first value of an
// enum, the default, or false. Its error names the part that has none. In the tag,
// entries of a list of strings are separated by |.
func (s *shape) example(r *rules) (json.RawMessage, error) {
	if s.isJSON(r.example) {
		return json.RawMessage(r.example), nil
	}
	switch s.kind {
	case object:
		return s.exampleObject()
	case list:
		return s.exampleList(r)
	case choice:
		return s.choices[0].example(r)
	}
	return s.exampleScalar(r)
}

// isJSON reports whether a tag example is already JSON.
func (s *shape) isJSON(example string) bool {
	switch s.kind {
	case text:
		return example == "null" || example == `""`
	case list:
		return strings.HasPrefix(example, "[")
	}
	return example != ""
}

func (s *shape) exampleScalar(r *rules) (json.RawMessage, error) {
	value := r.example
	for _, other := range []string{first(r.enum), r.fallback} {
		if value == "" {
			value = other
		}
	}
	switch {
	case value == "" && s.kind == boolean:
		value = "false"
	case value == "" && r.format == "date-time":
		value = exampleTime
	case value == "":
		return nil, errors.New("has no example")
	}
	if s.kind == text {
		return quote(value), nil
	}
	return json.RawMessage(value), nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func quote(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return b
}

func (s *shape) exampleList(r *rules) (json.RawMessage, error) {
	if r.example == "" {
		one, err := s.elem.example(&s.elem.rules)
		return bracket('[', [][]byte{one}, ']'), err
	}
	var parts [][]byte
	for part := range strings.SplitSeq(r.example, "|") {
		parts = append(parts, quote(part))
	}
	return bracket('[', parts, ']'), nil
}

func (s *shape) exampleObject() (json.RawMessage, error) {
	var parts [][]byte
	for i := range s.members {
		m := &s.members[i]
		if m.rules.example == noExample || m.variant {
			continue
		}
		value, err := m.shape.example(&m.rules)
		if err != nil {
			return nil, fmt.Errorf("%s %w", m.name, err)
		}
		parts = append(parts, append(append(quote(m.name), ':'), value...))
	}
	return bracket('{', parts, '}'), nil
}

func bracket(open byte, parts [][]byte, end byte) json.RawMessage {
	return append(append([]byte{open}, bytes.Join(parts, []byte{','})...), end)
}

// bodyExample returns an example of a row's request body.
func (row *route) bodyExample() (json.RawMessage, error) {
	if row.BodyExample != "" {
		return json.RawMessage(row.BodyExample), nil
	}
	return row.plan.body.shape.example(&row.plan.body.rules)
}

// responseExample returns an example of the body of a row's success response.
func (row *route) responseExample(types shapes) (json.RawMessage, error) {
	if row.Example != "" {
		return json.RawMessage(row.Example), nil
	}
	if row.Do.result == nil || row.Do.result == typeOf[handlers.Raw]() {
		return nil, errors.New("has no example")
	}
	t, isList := row.Do.result, false
	if l, ok := reflect.Zero(t).Interface().(listed); ok {
		t, isList = reflect.TypeOf(l.Item()), true
	}
	sh, err := types.of(t)
	if err != nil {
		return nil, err
	}
	value, err := sh.example(&sh.rules)
	if isList {
		value = bracket('[', [][]byte{value}, ']')
	}
	return value, err
}
