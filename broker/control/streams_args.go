package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"signalbox/broker"
)

// Commands about streams have arguments that [dynsec.Object] has no method for:
// queries, which are JSON of any depth, and numbers with a fraction. Their request is
// parsed a second time for these.

// argumentReader returns the arguments of the commands of a request, one after the other.
type argumentReader struct{ rest []json.RawMessage }

func reread(payload []byte) *argumentReader {
	var r argumentReader
	m, err := membersOf(payload)
	if err != nil || json.Unmarshal(m["commands"], &r.rest) != nil {
		r.rest = nil // next reports the error
	}
	return &r
}

// next returns the arguments of the next command of that name, and skips those of
// others. A request that only the tolerant parser of the envelope accepts has none.
func (r *argumentReader) next(name string) (members, error) {
	for len(r.rest) > 0 {
		m, err := membersOf(r.rest[0])
		r.rest = r.rest[1:]
		if err != nil {
			continue
		}
		if op, _ := member[string](m, "command"); op != nil && strings.EqualFold(*op, name) {
			return m, nil
		}
	}
	return nil, errNotJSON
}

// members are the members of a JSON object by their names in lower case; of several
// with one name the first counts. One that is null is absent.
type members map[string]json.RawMessage

// membersOf decodes the object at the beginning of b.
func membersOf(b []byte) (members, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("no object")
	}
	m := members{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		key := lowerASCII(name.(string)) // the decoder returns only strings here
		if _, ok := m[key]; !ok {
			m[key] = raw
		}
	}
	return m, nil
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// raw returns a member, if it is present.
func (m members) raw(name string) (json.RawMessage, bool) {
	raw, ok := m[name]
	return raw, ok && string(raw) != "null"
}

// member returns a member of type T, nil if it is absent. Another type, and text that
// is not UTF-8, is an error.
func member[T any](m members, name string) (*T, error) {
	raw, ok := m.raw(name)
	if !ok {
		return nil, nil
	}
	v := new(T)
	if !utf8.Valid(raw) || json.Unmarshal(raw, v) != nil {
		return nil, invalid(name)
	}
	return v, nil
}

func invalid(name string) refusal { return refusal("Invalid/missing " + name) }

// take is member for a list of members: it sets *dst unless *err is set.
func take[T any](m members, name string, dst **T, err *error) {
	if *err == nil {
		*dst, *err = member[T](m, name)
	}
}

// spec returns the definition of a stream, as far as it is given.
func (m members) spec(name string) (broker.StreamSpec, error) {
	s, err := broker.StreamSpec{StreamName: name}, error(nil)
	take(m, "sourcetopic", &s.SourceTopic, &err)
	take(m, "targettopic", &s.TargetTopic, &err)
	take(m, "targetqos", &s.TargetQoS, &err)
	take(m, "ttl", &s.TTL, &err)
	take(m, "key", &s.Key, &err)
	take(m, "textname", &s.TextName, &err)
	take(m, "textdescription", &s.TextDescription, &err)
	take(m, "active", &s.Active, &err)
	take(m, "process", &s.Process, &err)
	take(m, "persist", &s.Persist, &err)
	query, ok := m.raw("query")
	if ok && (query[0] != '{' || !utf8.Valid(query)) && err == nil {
		err = invalid("query")
	}
	if ok {
		s.Query = query
	}
	return s, err
}

// replay returns the arguments of a replay.
func (m members) replay(name string) (r broker.StreamReplay, err error) {
	r = broker.StreamReplay{StreamName: name, Limit: -1}
	var topic *string
	var reverse *bool
	var limit *int64
	take(m, "replaytopic", &topic, &err)
	take(m, "reverse", &reverse, &err)
	take(m, "limit", &limit, &err)
	if err != nil {
		return r, err
	}
	if topic == nil || *topic == "" {
		return r, errReplayTopic
	}
	r.ReplayTopic, r.Reverse = *topic, reverse != nil && *reverse
	if limit != nil {
		r.Limit = *limit
	}
	if r.GTE, r.LTE, err = m.period(); err != nil {
		return r, err
	}
	r.Speed, err = m.speed()
	return r, err
}

// period returns the bounds of a period in Unix seconds; nil is open.
func (m members) period() (gte, lte *float64, err error) {
	if gte, err = m.seconds("gte"); err != nil {
		return nil, nil, err
	}
	lte, err = m.seconds("lte")
	return gte, lte, err
}

// seconds returns a time, which may be a number or text with one; empty text is none.
func (m members) seconds(name string) (*float64, error) {
	if text, err := member[string](m, name); text != nil && err == nil {
		return decimal(*text, name)
	}
	return member[float64](m, name)
}

func decimal(text, name string) (*float64, error) {
	if text == "" {
		return nil, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, invalid(name)
	}
	return &v, nil
}

// speed returns the factor: one if it is absent, zero for the fastest.
func (m members) speed() (float64, error) {
	if word, err := member[string](m, "speed"); word != nil && err == nil {
		switch lowerASCII(*word) {
		case speedOriginal:
			return 1, nil
		case speedFastest:
			return 0, nil
		}
		return 0, errSpeed
	}
	factor, err := member[float64](m, "speed")
	if err != nil || factor == nil {
		return 1, err
	}
	return *factor, nil
}
