// Package mapping makes records and texts of messages, as schema mappings and
// templates of bridges describe them.
package mapping

import (
	"time"

	"signalbox/broker/messaging"
)

// Message is a message as expressions see it.
type Message struct {
	*messaging.Message
	MessageID string
	Hostname  string // of the machine that signalbox runs on
}

// Value is what a source has, nil where it has nothing: []byte (payload), string,
// int64, float64, bool, time.Time, or json.RawMessage for an object or array.
type Value any

// Field is a member of a record.
type Field struct {
	Target string
	Value  Value
}

// Mapping makes records of messages.
type Mapping struct{}

// Record is what a message becomes, in the order of the mapping.
type Record []Field

var _ time.Time // Value may be one
