package mapping

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// maxFields is the maximum number of members of a record.
const maxFields = 500

// Mapping makes records from messages. It is safe for concurrent use.
type Mapping struct {
	fields []field
	paths  *paths // of the fields with a source in the payload; nil for none
}

type field struct {
	source   *Expression // nil for a constant value
	path     int         // id in the mapping's paths
	constant Value
	target   string
	typ      string
	convert  func(Value) (Value, bool)
	fallback Value
	required bool
}

// Compile compiles a mapping, or returns all of its problems.
func Compile(s Spec) (*Mapping, []Problem) {
	m := &Mapping{fields: make([]field, len(s.Mapping))}
	var problems []Problem
	switch {
	case len(s.Mapping) == 0:
		problems = append(problems, Problem{"mapping", "must have at least one member"})
	case len(s.Mapping) > maxFields:
		return nil, []Problem{{"mapping", fmt.Sprintf("must have at most %d members", maxFields)}}
	}
	targets := map[string]bool{}
	for i, spec := range s.Mapping {
		at := fmt.Sprintf("mapping[%d]", i)
		var found []Problem
		m.fields[i], found = spec.compile()
		if targets[spec.Target] {
			found = append(found, Problem{"target", fmt.Sprintf("%q is the target of another source already", spec.Target)})
		}
		targets[spec.Target] = true
		for _, p := range found {
			problems = append(problems, Problem{at + "." + p.Path, p.Msg})
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	m.collect()
	return m, nil
}

// collect registers the paths of all fields, so that the payload is scanned once.
func (m *Mapping) collect() {
	for i := range m.fields {
		f := &m.fields[i]
		if f.source == nil || !f.source.isJSON {
			continue
		}
		if m.paths == nil {
			m.paths = &paths{}
		}
		f.path = m.paths.add(f.source.path)
	}
}

func (s *FieldSpec) compile() (f field, problems []Problem) {
	add := func(path, msg string) { problems = append(problems, Problem{path, msg}) }
	f = field{target: s.Target, typ: s.Type, required: s.Required}
	if s.Target == "" {
		add("target", "must not be empty")
	}
	var known bool
	if f.convert, known = types[s.Type]; !known {
		add("type", fmt.Sprintf("must be one of %s", strings.Join(Types(), ", ")))
		return f, problems
	}
	var err error
	switch isConstant := s.Value != nil; {
	case isConstant && s.Source != "":
		add("value", "must not be there beside a source")
	case isConstant && s.Default != nil:
		add("default", "has no use beside a constant value")
	case isConstant:
		if f.constant, err = constant(s.Value, s.Type); err != nil {
			add("value", err.Error())
		}
	case s.Source == "":
		add("source", "must be there, or else a value")
	default:
		if f.source, err = ParseExpression(s.Source); err != nil {
			add("source", err.Error())
		}
	}
	if s.Default != nil {
		if f.fallback, err = constant(s.Default, s.Type); err != nil {
			add("default", err.Error())
		}
	}
	return f, problems
}

// standard are the sources of Default, each with a target of the same name.
var standard = []string{"topic", "payload", "qos", "retain", "timestamp", "client_id"}

// Default returns the mapping that is used if none is configured: topic, payload, qos, retain,
// timestamp and client_id.
func Default() *Mapping {
	s := Spec{}
	for _, name := range standard {
		s.Mapping = append(s.Mapping, FieldSpec{Source: name, Target: name})
	}
	m, _ := Compile(s) // cannot fail
	return m
}

// Targets returns the names of the members in their order.
func (m *Mapping) Targets() []string {
	targets := make([]string, len(m.fields))
	for i := range m.fields {
		targets[i] = m.fields[i].target
	}
	return targets
}

// Types returns the configured types of the members in their order, "" for no conversion.
func (m *Mapping) Types() []string {
	list := make([]string, len(m.fields))
	for i := range m.fields {
		list[i] = m.fields[i].typ
	}
	return list
}

// Record makes a record from a message. The error is an *Unfit.
func (m *Mapping) Record(msg *Message) (Record, error) {
	var found []gjson.Result
	if m.paths != nil {
		doc, err := msg.json()
		if err != nil {
			return nil, err
		}
		found = m.paths.find(doc)
	}
	r, size := make(Record, len(m.fields)), 0
	for i := range m.fields {
		v, err := m.fields[i].value(msg, found)
		if err != nil {
			return nil, err
		}
		if size += sizeOf(v); size > msg.maxSize() {
			return nil, errTooLarge
		}
		r[i] = Field{Target: m.fields[i].target, Value: v}
	}
	return r, nil
}

// sizeOf returns the size of values with a variable size, in bytes.
func sizeOf(v Value) int {
	switch v := v.(type) {
	case []byte:
		return len(v)
	case string:
		return len(v)
	case json.RawMessage:
		return len(v)
	}
	return 0
}

// value returns a member of the record. Found are the values of the mapping's paths in the
// payload.
func (f *field) value(msg *Message, found []gjson.Result) (Value, error) {
	if f.source == nil {
		return f.constant, nil
	}
	v, err := f.raw(msg, found)
	if err != nil {
		return nil, err
	}
	if v == nil {
		v = f.fallback
	} else if v, err = f.converted(v); err != nil {
		return nil, err
	}
	if v == nil && f.required {
		return nil, &Unfit{fmt.Sprintf("the message has no %s, which is required", f.source)}
	}
	return v, nil
}

func (f *field) raw(msg *Message, found []gjson.Result) (Value, error) {
	if f.source.isJSON {
		return valueOf(found[f.path])
	}
	return f.source.Value(msg)
}

func (f *field) converted(v Value) (Value, error) {
	to, ok := f.convert(v)
	if !ok {
		return nil, &Unfit{fmt.Sprintf("%s is not a value of type %s", f.source, f.typ)}
	}
	return to, nil
}
