// Package mapping makes records and texts of messages, as schema mappings and
// templates of bridges describe them. It knows expressions such as
// jsonPayload.speed, which name a part of a message.
//
// It must not import the engine of the bridges nor any kind of them.
package mapping

import "encoding/json"

// Value is what an expression finds in a message, nil where there is nothing:
// []byte (payload and correlation data), string, int64, float64, bool, time.Time,
// or json.RawMessage for what was asked for as JSON, an object or an array.
type Value any

// Field is a member of a record.
type Field struct {
	Target string
	Value  Value
}

// Record is what a message becomes, in the order of the mapping.
type Record []Field

// AppendJSON appends the record as a JSON object. A payload is shown as text
// where it is UTF-8, otherwise in base64.
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

// Spec is a schema mapping as it is configured.
type Spec struct {
	Name    string      `json:"name"`
	Mapping []FieldSpec `json:"mapping"`
}

// FieldSpec says what a member of records is made of: a source, which is an
// expression, or a constant value.
type FieldSpec struct {
	Source   string          `json:"source,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
	Target   string          `json:"target"`
	Type     string          `json:"type,omitempty"`    // "" as it is; string, number, integer, boolean, json, time
	Default  json.RawMessage `json:"default,omitempty"` // where the source has nothing
	Required bool            `json:"required,omitempty"`
}

// Problem is what is wrong at a place of a Spec or a text, as in
// "mapping[0].source".
type Problem struct{ Path, Msg string }

// Unfit is the error of a message that does not have what is asked for, and never
// will: trying again does not help.
type Unfit struct{ Msg string }

// Error gives the reason, a sentence.
func (u *Unfit) Error() string { return u.Msg }
