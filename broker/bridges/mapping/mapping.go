// Package mapping makes records and texts from messages, as defined by the schema mappings and
// templates of bridges. Their expressions, such as jsonPayload.speed, name a part of a message.
//
// The package must not import the engine of bridges or any kind of bridge.
package mapping

import "encoding/json"

// Value is the value of an expression, nil if there is none: []byte (payload and correlation
// data), string, int64, float64, bool, time.Time, or json.RawMessage for an object, an array or a
// conversion to JSON.
type Value any

// Field is a member of a record.
type Field struct {
	Target string
	Value  Value
}

// Record is the fields of a message, in the order of the mapping.
type Record []Field

// AppendJSON appends the record as a JSON object. A payload is written as text if it is UTF-8,
// otherwise as base64.
func (r Record) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for i, f := range r {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, f.Target), ':')
		dst = AppendJSON(dst, f.Value)
	}
	return append(dst, '}')
}

// Spec is the configuration of a schema mapping.
type Spec struct {
	Name    string      `json:"name"`
	Mapping []FieldSpec `json:"mapping"`
}

// FieldSpec configures a member of records: its source, which is an expression, or a constant
// value.
type FieldSpec struct {
	Source   string          `json:"source,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
	Target   string          `json:"target"`
	Type     string          `json:"type,omitempty"`    // "" for no conversion; string, number, integer, boolean, json, time
	Default  json.RawMessage `json:"default,omitempty"` // used if the source has no value
	Required bool            `json:"required,omitempty"`
}

// Problem is an error in a Spec or a text, at a path such as "mapping[0].source".
type Problem struct{ Path, Msg string }

// Unfit is the error of a message that lacks a required value or has an invalid one. A retry
// cannot succeed.
type Unfit struct{ Msg string }

// Error returns the reason.
func (u *Unfit) Error() string { return u.Msg }
