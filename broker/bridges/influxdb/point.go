package influxdb

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
)

// plan is a compiled topic mapping.
type plan struct {
	measurement *mapping.Template
	tags        []tag            // sorted by name
	record      *mapping.Mapping // nil if the fields are those of the payload
	types       []string         // of the record's fields
	time        *mapping.Expression
	unit        time.Duration // of a time that is a number
	unique      bool          // the time is that of arrival, and made unique
}

type tag struct {
	name  string
	value *mapping.Template
}

var units = map[string]time.Duration{"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}

// line returns the line of an entry. The error is the reason for a dead letter.
func (l *plan) line(e *bridges.Entry) ([]byte, error) {
	m := e.MappingMessage()
	var enc lineprotocol.Encoder
	name, err := l.measurement.Append(nil, m)
	if err != nil {
		return nil, err
	}
	if len(name) == 0 || name[0] == '#' || isAmbiguous(string(name)) { // a line that begins with # is a comment
		return nil, fmt.Errorf("%q is not a name of a measurement", name)
	}
	enc.StartLine(string(name))
	if err := l.addTags(&enc, m); err != nil {
		return nil, err
	}
	if err := enc.Err(); err != nil {
		return nil, fmt.Errorf("the message makes no point: %w", err)
	}
	fields, err := l.fields(m)
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, errors.New("the message has no value for any field")
	}
	at, err := l.at(m, e.ID)
	if err != nil {
		return nil, err
	}
	line := enc.Bytes()
	for i, f := range fields {
		line = append(line, " ,"[min(i, 1)])
		line = f.append(line)
	}
	line = strconv.AppendInt(append(line, ' '), at.UnixNano(), 10)
	return append(line, '\n'), nil
}

// Preview returns the line of an entry.
func (c *connector) Preview(e *bridges.Entry) (p bridges.Preview, err error) {
	l := c.plans[e.Mapping]
	if p.Payload, err = l.line(e); err != nil {
		return bridges.Preview{}, err
	}
	name, err := l.measurement.Append(nil, e.MappingMessage())
	p.Destination = string(name)
	return p, err
}

// addTags adds the tags that have a value.
func (l *plan) addTags(enc *lineprotocol.Encoder, m *mapping.Message) error {
	for _, t := range l.tags {
		value, err := t.value.Append(nil, m)
		if err != nil {
			return err
		}
		if isAmbiguous(string(value)) {
			return fmt.Errorf("the tag %s cannot be %q because of its backslash: InfluxDB could not determine its end", t.name, value)
		}
		if len(value) > 0 {
			enc.AddTag(t.name, string(value))
		}
	}
	return nil
}

// field is a field of a point.
type field struct {
	name  string
	value lineprotocol.Value
}

// nameEscapes and textEscapes escape names and strings in the line protocol. The library would
// write a line break in a string as two characters.
var (
	nameEscapes = strings.NewReplacer(",", `\,`, "=", `\=`, " ", `\ `)
	textEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
)

func (f field) append(line []byte) []byte {
	line = append(append(line, nameEscapes.Replace(f.name)...), '=')
	if f.value.Kind() != lineprotocol.String {
		return f.value.AppendBytes(line)
	}
	line = append(append(line, '"'), textEscapes.Replace(f.value.StringV())...)
	return append(line, '"')
}

func (l *plan) fields(m *mapping.Message) ([]field, error) {
	if l.record == nil {
		return payloadFields(m.Payload)
	}
	record, err := l.record.Record(m)
	if err != nil {
		return nil, err
	}
	var all []field
	for i, f := range record {
		if f.Value == nil {
			continue
		}
		v, ok := lineprotocol.NewValue(plain(f.Value, l.types[i] == "integer"))
		if !ok {
			return nil, fmt.Errorf("the field %q has a value that InfluxDB does not have", f.Target)
		}
		all = append(all, field{f.Target, v})
	}
	return all, nil
}

// plain converts a value to a type that points have. A number is a float unless an integer is
// configured: a field has one type for its whole life, and 20 may be followed by 20.5.
func plain(v mapping.Value, integer bool) any {
	switch v := v.(type) {
	case int64:
		if !integer {
			return float64(v)
		}
		return v
	case float64, bool:
		return v
	case []byte:
		if !utf8.Valid(v) {
			return base64.StdEncoding.EncodeToString(v)
		}
		return string(v)
	}
	return string(mapping.AppendText(nil, v))
}

// payloadFields returns the fields of a payload without a schema mapping: the members of a JSON
// object, except objects, arrays and null; any other payload is the field "value".
func payloadFields(payload []byte) ([]field, error) {
	members := map[string]any{"value": string(payload)}
	var document any
	if json.Unmarshal(payload, &document) == nil {
		if object, ok := document.(map[string]any); ok {
			members = object
		} else {
			members["value"] = document
		}
	}
	var all []field
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch members[name].(type) {
		case float64, bool, string:
		default:
			continue
		}
		v, ok := lineprotocol.NewValue(members[name])
		if why := nameProblem(name); why != "" || !ok {
			return nil, fmt.Errorf("%q is not a field: its name %s", name, strings.TrimSpace(why+" or its value is not text"))
		}
		all = append(all, field{name, v})
	}
	return all, nil
}

// at returns the time of a point. Times of arrival have a resolution of milliseconds; the number
// in the queue makes them unique below that, so that a point does not overwrite another of its
// series, and a retry overwrites only itself.
func (l *plan) at(m *mapping.Message, id uint64) (time.Time, error) {
	v, err := l.time.Value(m)
	if err != nil {
		return time.Time{}, err
	}
	at, ok := l.instant(v)
	if !ok || at.Before(firstTime) || at.After(lastTime) {
		return time.Time{}, fmt.Errorf("%s is not a time, neither a number nor RFC 3339", l.time)
	}
	if l.unique {
		at = at.Add(time.Duration(id % uint64(time.Millisecond)))
	}
	return at, nil
}

// The range of times that both versions accept.
var (
	firstTime = time.Unix(0, math.MinInt64).Add(time.Second)
	lastTime  = time.Unix(0, math.MaxInt64).Add(-time.Second)
)

func (l *plan) instant(v mapping.Value) (time.Time, bool) {
	switch v := v.(type) {
	case time.Time:
		return v, true
	case int64:
		if limit := math.MaxInt64 / int64(l.unit); v > limit || v < -limit {
			return time.Time{}, false
		}
		return time.Unix(0, v*int64(l.unit)), true
	case float64:
		ns := v * float64(l.unit)
		return time.Unix(0, int64(ns)), math.Abs(ns) < math.MaxInt64
	case []byte:
		return l.instant(string(bytes.TrimSpace(v)))
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return at, true
		}
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return l.instant(n)
		}
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(f) {
			return time.Time{}, false
		}
		return l.instant(f)
	}
	return time.Time{}, false
}
