package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"signalbox/broker"
)

// Refusal is the error text of a response.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// detailedRefusal is a refusal that names the invalid arguments.
type detailedRefusal struct {
	Refusal
	Fields []broker.Field
}

// Unwrap returns the text.
func (r *detailedRefusal) Unwrap() error { return r.Refusal }

// Classify is that of the text; a refusal that names arguments is of kind Invalid.
func (r *detailedRefusal) Classify(op string, _ broker.Capability) error {
	return &broker.Error{Kind: broker.Invalid, Op: op, Msg: string(r.Refusal), Fields: r.Fields}
}

// Classify returns the refusal of an operation as a [*broker.Error]. Brokers have no
// error codes, so that it depends on their texts.
func (r Refusal) Classify(op string, feature broker.Capability) error {
	has := func(part string) bool { return strings.Contains(string(r), part) }
	e := &broker.Error{Op: op, Msg: string(r)}
	switch {
	case r == Refusal(errUnknownCommand):
		return broker.NotSupported(op, feature)
	case r == Refusal(ErrNodeAway), r == Refusal(ErrNoHost):
		e.Kind = broker.Unavailable
	case r == Refusal(ErrUnconfirmed):
		e.Kind = broker.Unconfirmed
	case has("not found"):
		e.Kind = broker.NotFound
	case has("nvalid"), has("issing"):
		e.Kind = broker.Invalid
	}
	return e
}

// Read decodes the response with the correlation data in a message into a value, nil for
// none: an array into a slice, an object into anything else. Decoding is tolerant: a
// member that is missing, or of another type than expected, stays unchanged; a
// json.RawMessage takes any data. The error is a [Refusal] if the response is one, which
// may be a [DetailedRefusal].
func Read(payload []byte, correlation string, into any) error {
	var m struct {
		Responses []struct {
			CorrelationData string          `json:"correlationData"`
			Error           string          `json:"error"`
			Fields          json.RawMessage `json:"fields"`
			Data            json.RawMessage `json:"data"`
		} `json:"responses"`
	}
	if err := json.Unmarshal(payload, &m); err != nil && !isTypeError(err) {
		return fmt.Errorf("read an answer: %w", err)
	}
	for _, r := range m.Responses {
		switch {
		case r.CorrelationData != correlation:
		case r.Error != "":
			return refusalOf(r.Error, r.Fields)
		case into == nil:
			return nil
		case len(r.Data) == 0 || r.Data[0] != firstByte(into):
			return errors.New("answer holds no data")
		default:
			return decodeTolerant(r.Data, into)
		}
	}
	return errors.New("answer not found in its message")
}

// firstByte returns the first byte of the data for a value.
func firstByte(into any) byte {
	if t := reflect.TypeOf(into).Elem(); t.Kind() == reflect.Slice && t != reflect.TypeFor[json.RawMessage]() {
		return '['
	}
	return '{'
}

// refusalOf returns the refusal with its invalid arguments, if they are in our form.
func refusalOf(text string, fields json.RawMessage) error {
	var list []field
	if len(fields) == 0 || json.Unmarshal(fields, &list) != nil || len(list) == 0 {
		return Refusal(text)
	}
	r := &detailedRefusal{Refusal: Refusal(text)}
	for _, f := range list {
		r.Fields = append(r.Fields, broker.Field{Path: f.Path, Msg: f.Message})
	}
	return r
}

// decodeTolerant decodes JSON and ignores members of an unexpected type, but accepts integers
// that are written with a fraction or an exponent.
func decodeTolerant(raw []byte, into any) error {
	err := json.Unmarshal(raw, into)
	if !isTypeError(err) {
		return err
	}
	plain, err := integers(raw)
	if err != nil {
		return err
	}
	if err = json.Unmarshal(plain, into); isTypeError(err) {
		return nil
	}
	return err
}

func isTypeError(err error) bool {
	_, ok := errors.AsType[*json.UnmarshalTypeError](err)
	return ok
}

// integers rewrites JSON with all numbers as integers, as far as they fit.
func integers(raw []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return encode(whole(v)), nil
}

// maxExact bounds the integers that a float64 represents exactly.
const maxExact = 1 << 53

func whole(v any) any {
	switch v := v.(type) {
	case float64:
		if v > -maxExact && v < maxExact {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = whole(v[name])
		}
	}
	return v
}
