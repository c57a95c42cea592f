package router

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// kind is the JSON form of a Go type.
type kind int

const (
	free    kind = iota // any JSON value
	text                // string
	boolean             // true, false
	integer             // number without a fraction
	number              // number
	object              // object with known members
	table               // object with any member names
	list                // array
	choice              // one of several shapes
)

// shape describes a Go type as JSON: the binder decodes by it, the OpenAPI document is
// written from it. It is computed once, when the router is built.
type shape struct {
	kind    kind
	typ     reflect.Type
	members []member // of an object
	elem    *shape   // of a list or table
	choices []*shape // of a choice
	strict  bool     // an object without additional members
	inner   *shape   // of a pointer or an Opt
	opt     bool     // a handlers.Opt: the value is its field Value
	pointer bool
	rules   rules // that apply to every value of the type, e.g. format

	responseOnly bool // has parts that may be missing as a whole, which a request cannot set
}

// member is a member of a JSON object.
type member struct {
	name  string
	index []int // of the Go field, through embedded structs
	shape *shape
	rules rules
	maybe bool // omitted from responses when empty

	variant bool // in an embedded pointer: only some variants of the object have it
}

// shapes computes shapes, each type once. A nil entry is in progress.
type shapes map[reflect.Type]*shape

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

// oneOf is implemented by types that are documented as a choice.
type oneOf interface{ OneOf() []any }

// of returns the shape of a type. It fails on types that JSON cannot represent, on
// recursive types, and on invalid tags.
func (s shapes) of(t reflect.Type) (*shape, error) {
	if sh, ok := s[t]; ok {
		if sh == nil {
			return nil, fmt.Errorf("%s contains itself", t)
		}
		return sh, nil
	}
	s[t] = nil
	sh := &shape{typ: t}
	if err := s.fill(sh, t); err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	s[t] = sh
	return sh, nil
}

func (s shapes) fill(sh *shape, t reflect.Type) (err error) {
	if special(sh, t) {
		return nil
	}
	if isOneOf(t) {
		return s.fillChoice(sh, reflect.Zero(t).Interface().(oneOf))
	}
	if value, ok := optValue(t); ok {
		return s.wrap(sh, value, func() { sh.opt = true })
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.wrap(sh, t.Elem(), func() { sh.pointer = true })
	case reflect.Slice, reflect.Array:
		sh.kind = list
		sh.elem, err = s.of(t.Elem())
	case reflect.Map:
		sh.kind = table
		sh.elem, err = s.of(t.Elem())
	case reflect.Struct:
		sh.kind = object
		err = s.fillObject(sh, t, nil, false)
	default:
		err = fillScalar(sh, t)
	}
	return err
}

// special recognises types whose JSON differs from their Go form.
func special(sh *shape, t reflect.Type) bool {
	switch {
	case t == timeType:
		sh.kind, sh.rules.format = text, "date-time"
	case t == rawType, t.Kind() == reflect.Interface:
		sh.kind = free
	case ownJSON(t) && !isOneOf(t):
		sh.kind = free
	default:
		return false
	}
	return true
}

// ownJSON reports whether a type encodes or decodes its JSON itself. An Opt does too,
// but its form is known.
func ownJSON(t reflect.Type) bool {
	if _, ok := optValue(t); ok || t.Kind() == reflect.Pointer {
		return false
	}
	return t.Implements(reflect.TypeFor[json.Marshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

func isOneOf(t reflect.Type) bool {
	return t.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[oneOf]())
}

func fillScalar(sh *shape, t reflect.Type) error {
	switch k := t.Kind(); {
	case k == reflect.String:
		sh.kind = text
	case k == reflect.Bool:
		sh.kind = boolean
	case reflect.Int <= k && k <= reflect.Uint64:
		sh.kind = integer
	case k == reflect.Float32, k == reflect.Float64:
		sh.kind = number
	default:
		return fmt.Errorf("kind %s has no JSON form", k)
	}
	return nil
}

// wrap sets sh to the shape of the type inside a pointer or an Opt.
func (s shapes) wrap(sh *shape, inner reflect.Type, mark func()) error {
	in, err := s.of(inner)
	if err != nil {
		return err
	}
	if in.inner != nil {
		return fmt.Errorf("%s wraps what is wrapped already", sh.typ)
	}
	t := sh.typ
	*sh = *in
	sh.typ, sh.inner = t, in
	mark()
	return nil
}

func (s shapes) fillChoice(sh *shape, v oneOf) error {
	sh.kind = choice
	for _, alternative := range v.OneOf() {
		alt, err := s.of(reflect.TypeOf(alternative))
		if err != nil {
			return err
		}
		sh.choices = append(sh.choices, alt)
	}
	return nil
}

// fillObject collects the members of a struct; those of embedded structs without a name
// are promoted.
func (s shapes) fillObject(sh *shape, t reflect.Type, prefix []int, maybe bool) error {
	for f := range t.Fields() {
		if f.Name == "_" && f.Tag.Get("strict") == "true" {
			sh.strict = true
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		index := append(prefix[:len(prefix):len(prefix)], f.Index...)
		inner, pointer := embedded(f, name)
		var err error
		switch {
		case name == "-":
		case inner != nil:
			sh.responseOnly = sh.responseOnly || pointer
			err = s.fillObject(sh, inner, index, maybe || pointer)
		case f.IsExported():
			err = s.addMember(sh, f, member{name: cmp.Or(name, f.Name), index: index, maybe: maybe || leftOut(opts), variant: maybe})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// embedded returns the struct whose members a field promotes, nil if it does not, and
// whether it may be missing.
func embedded(f reflect.StructField, name string) (inner reflect.Type, pointer bool) {
	if !f.Anonymous || name != "" {
		return nil, false
	}
	inner = f.Type
	if inner.Kind() == reflect.Pointer {
		inner, pointer = inner.Elem(), true
	}
	if inner.Kind() != reflect.Struct {
		return nil, false
	}
	return inner, pointer
}

func leftOut(opts string) bool {
	return strings.Contains(opts, "omitempty") || strings.Contains(opts, "omitzero")
}

// addMember adds a field; of two with one name that nearer the top counts.
func (s shapes) addMember(sh *shape, f reflect.StructField, m member) (err error) {
	if m.rules, err = parseRules(f.Tag); err != nil {
		return err
	}
	if m.shape, err = s.of(f.Type); err != nil {
		return err
	}
	m.rules.format = cmp.Or(m.rules.format, m.shape.rules.format)
	sh.responseOnly = sh.responseOnly || m.shape.responseOnly
	i := sh.memberIndex(m.name)
	switch {
	case i < 0:
		sh.members = append(sh.members, m)
	case len(m.index) < len(sh.members[i].index):
		sh.members[i] = m
	case len(m.index) == len(sh.members[i].index):
		return fmt.Errorf("member %q stands there twice", m.name)
	}
	return nil
}

// optValue recognises handlers.Opt[T] by its form and returns T.
func optValue(t reflect.Type) (reflect.Type, bool) {
	if t.Kind() != reflect.Struct || t.NumField() != 3 {
		return nil, false
	}
	value, set, null := t.Field(0), t.Field(1), t.Field(2)
	ok := value.Name == "Value" && set.Name == "Set" && null.Name == "Null" &&
		set.Type.Kind() == reflect.Bool && null.Type.Kind() == reflect.Bool
	return value.Type, ok
}
