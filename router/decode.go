package router

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"signalbox/handlers"
)

// maxFieldErrors bounds the list of invalid fields in one response.
const maxFieldErrors = 100

// place is the position of a value in the request; it is formatted only for an error.
type place struct {
	parent *place
	name   string
	index  int // of a list's entry; name is then ""
}

func (p *place) String() string {
	switch {
	case p.parent == nil:
		return p.name
	case p.name == "":
		return p.parent.String() + "[" + strconv.Itoa(p.index) + "]"
	}
	return p.parent.String() + "." + p.name
}

// problems collects the errors of a request.
type problems struct{ list []handlers.FieldError }

func (p *problems) add(at *place, message string) {
	if message != "" && len(p.list) < maxFieldErrors {
		p.list = append(p.list, handlers.FieldError{Field: at.String(), Message: message})
	}
}

// decode sets v from raw, one valid JSON value, and records every error. Names of
// members are case-sensitive; a duplicate member is refused, since parsers differ about
// which one counts.
func (s *shape) decode(p *problems, at *place, raw json.RawMessage, r *rules, v reflect.Value) {
	if raw[0] == 'n' {
		s.decodeNull(p, at, r, v)
		return
	}
	if s.opt {
		v.Field(1).SetBool(true)
		v = v.Field(0)
	}
	if s.pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch s.kind {
	case object:
		s.decodeObject(p, at, raw, v)
	case list:
		s.decodeList(p, at, raw, r, v)
	case table:
		s.decodeTable(p, at, raw, v)
	case free, choice:
		p.add(at, decodeFree(raw, r, v))
	default:
		p.add(at, s.decodeScalar(raw, r, v))
	}
}

func (s *shape) decodeNull(p *problems, at *place, r *rules, v reflect.Value) {
	switch {
	case s.kind == free && !s.opt && !r.object:
		p.add(at, decodeFree(json.RawMessage("null"), r, v))
	case !r.nullable:
		p.add(at, "must not be null")
	case s.opt:
		v.Field(1).SetBool(true)
		v.Field(2).SetBool(true)
	}
}

func (s *shape) decodeObject(p *problems, at *place, raw json.RawMessage, v reflect.Value) {
	if raw[0] != '{' {
		p.add(at, "must be an object")
		return
	}
	seen := make([]bool, len(s.members))
	for name, value := range members(raw) {
		here := &place{parent: at, name: name}
		i := s.memberIndex(name)
		switch {
		case i < 0 && s.strict:
			p.add(here, "is not a member of this object")
		case i < 0:
		case seen[i]:
			p.add(here, "is given more than once")
		default:
			seen[i] = true
			m := &s.members[i]
			m.shape.decode(p, here, value, &m.rules, v.FieldByIndex(m.index))
		}
	}
	for i := range s.members {
		if s.members[i].rules.required && !seen[i] {
			p.add(&place{parent: at, name: s.members[i].name}, "is required")
		}
	}
}

func (s *shape) memberIndex(name string) int {
	for i := range s.members {
		if s.members[i].name == name {
			return i
		}
	}
	return -1
}

func (s *shape) decodeList(p *problems, at *place, raw json.RawMessage, r *rules, v reflect.Value) {
	if raw[0] != '[' {
		p.add(at, "must be an array")
		return
	}
	n := 0
	for range elements(raw) {
		n++
	}
	entries := reflect.MakeSlice(s.elemSlice(), n, n)
	for i, value := range elements(raw) {
		s.elem.decode(p, &place{parent: at, index: i}, value, &s.elem.rules, entries.Index(i))
	}
	v.Set(entries)
	p.add(at, r.checkLen(n))
}

// elemSlice returns the slice type of a list, also inside an Opt.
func (s *shape) elemSlice() reflect.Type { return reflect.SliceOf(s.elem.typ) }

func (s *shape) decodeTable(p *problems, at *place, raw json.RawMessage, v reflect.Value) {
	if raw[0] != '{' {
		p.add(at, "must be an object")
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for name, value := range members(raw) {
		entry := reflect.New(s.elem.typ).Elem()
		s.elem.decode(p, &place{parent: at, name: name}, value, &s.elem.rules, entry)
		v.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), entry)
	}
}

// decodeFree stores a value unchanged, or calls the type's own decoder.
func decodeFree(raw json.RawMessage, r *rules, v reflect.Value) string {
	if r.object && raw[0] != '{' {
		return "must be an object"
	}
	if hasLoneSurrogate(raw) {
		return loneSurrogate
	}
	if v.Type() == rawType {
		v.SetBytes(raw)
		return ""
	}
	err := json.Unmarshal(raw, v.Addr().Interface())
	if want, ok := errors.AsType[*handlers.FieldTypeError](err); ok {
		return "must be " + want.Want
	}
	if err != nil {
		return "has a form that is not understood"
	}
	return ""
}

func (s *shape) decodeScalar(raw json.RawMessage, r *rules, v reflect.Value) string {
	switch s.kind {
	case text:
		return s.decodeText(raw, r, v)
	case boolean:
		if c := raw[0]; c != 't' && c != 'f' {
			return "must be true or false"
		}
		v.SetBool(raw[0] == 't')
		return ""
	}
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return "must be " + s.noun()
	}
	return s.setNumber(string(raw), r, v)
}

func (s *shape) decodeText(raw json.RawMessage, r *rules, v reflect.Value) string {
	if raw[0] != '"' {
		return "must be a string"
	}
	if hasLoneSurrogate(raw) {
		return loneSurrogate
	}
	value := unquote(raw)
	if v.Type() == timeType {
		return setTime(value, v)
	}
	v.SetString(value)
	return r.checkText(value)
}

func setTime(value string, v reflect.Value) string {
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return "must be a date and time as in 2026-01-31T12:00:00Z"
	}
	v.Set(reflect.ValueOf(t))
	return ""
}

func (s *shape) noun() string {
	if s.kind == integer {
		return "an integer"
	}
	return "a number"
}

// setNumber sets a number that is written in decimal. An integer may be written with a
// fraction of zero or an exponent, as JSON has only one type of number.
func (s *shape) setNumber(literal string, r *rules, v reflect.Value) string {
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return "is out of range"
	}
	if s.kind == number {
		v.SetFloat(f)
		return r.checkNumber(f)
	}
	if f != math.Trunc(f) {
		return "must be an integer"
	}
	if !setInteger(literal, f, v) {
		return "is out of range"
	}
	return r.checkNumber(f)
}

// exactFloat is the first integer beyond which a float64 is not exact.
const exactFloat = 1 << 53

// setInteger reports whether the number fits the Go type.
func setInteger(literal string, f float64, v reflect.Value) bool {
	if strings.ContainsAny(literal, ".eE") {
		if math.Abs(f) > exactFloat {
			return false
		}
		literal = strconv.FormatInt(int64(f), 10)
	}
	if v.CanUint() {
		n, err := strconv.ParseUint(literal, 10, v.Type().Bits())
		v.SetUint(n)
		return err == nil
	}
	n, err := strconv.ParseInt(literal, 10, v.Type().Bits())
	v.SetInt(n)
	return err == nil
}
