package router

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"

	"signalbox/handlers"
)

// schema is a JSON Schema, as far as we use it.
type schema struct {
	Ref         string             `json:"$ref,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"` // string, or []string with "null"
	Format      string             `json:"format,omitempty"`
	Enum        []any              `json:"enum,omitempty"`
	Default     any                `json:"default,omitempty"`
	MinLength   int                `json:"minLength,omitempty"`
	MinItems    int                `json:"minItems,omitempty"`
	Minimum     *float64           `json:"minimum,omitempty"`
	Maximum     *float64           `json:"maximum,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Additional  any                `json:"additionalProperties,omitempty"` // *schema, or false
	AnyOf       []*schema          `json:"anyOf,omitempty"`
}

// direction distinguishes requests and responses. A request must contain what is
// required; a response contains everything that is not omitted when empty.
type direction int

const (
	forRequest direction = iota
	forAnswer
)

// schemas converts shapes to schemas and collects the named ones.
type schemas struct {
	types shapes
	named map[string]*schema
	owner map[string]usage // of a name
	gaps  []string         // what has no description or example
}

// usage is a type in one direction: a request's schema may require less than a
// response's.
type usage struct {
	typ reflect.Type
	dir direction
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// kindNames are the JSON types of the shapes that have one.
var kindNames = map[kind]string{
	text: "string", boolean: "boolean", integer: "integer", number: "number",
	object: "object", table: "object", list: "array",
}

// anyType names every JSON type: some tools treat a schema without a type as one that
// excludes null.
var anyType = []string{"string", "number", "object", "array", "boolean", "null"}

// of returns the schema of a shape: a reference if the type has a name.
func (s *schemas) of(sh *shape, dir direction) *schema {
	for sh.inner != nil {
		sh = sh.inner
	}
	if (sh.kind != object && sh.kind != choice) || sh.typ.Name() == "" {
		return s.inline(sh, dir)
	}
	name := s.name(usage{sh.typ, dir})
	if s.named[name] == nil {
		s.owner[name] = usage{sh.typ, dir}
		s.named[name] = s.inline(sh, dir)
	}
	return &schema{Ref: "#/components/schemas/" + name}
}

// name returns the name of a type in the document. The first type has the plain name;
// another type adds its package, another direction its own.
func (s *schemas) name(u usage) string {
	name := u.typ.Name()
	if other, ok := s.owner[name]; ok && other.typ != u.typ {
		name = strings.ToUpper(packageOf(u.typ)[:1]) + packageOf(u.typ)[1:] + name
	}
	if other, ok := s.owner[name]; ok && other.dir != u.dir {
		name += [...]string{forRequest: "Request", forAnswer: "Answer"}[u.dir]
	}
	return name
}

func packageOf(t reflect.Type) string {
	return t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
}

// inline returns a schema without a reference.
func (s *schemas) inline(sh *shape, dir direction) *schema {
	out := &schema{Format: sh.rules.format}
	if name := kindNames[sh.kind]; name != "" {
		out.Type = name
	}
	switch sh.kind {
	case free:
		out.Type = anyType
	case object:
		s.addMembers(out, sh, dir)
	case table:
		out.Additional = s.of(sh.elem, dir)
	case list:
		out.Items = s.of(sh.elem, dir)
		if dir == forAnswer && sh.elem.pointer {
			out.Items = orNull(out.Items)
		}
	case choice:
		for _, alternative := range sh.choices {
			out.AnyOf = append(out.AnyOf, s.of(alternative, dir))
		}
	}
	return out
}

func (s *schemas) addMembers(out *schema, sh *shape, dir direction) {
	out.Properties = map[string]*schema{}
	if sh.strict {
		out.Additional = false
	}
	for i := range sh.members {
		m := &sh.members[i]
		s.needs(m.rules.doc != "", sh.typ.String()+"."+m.name+" has no description")
		out.Properties[m.name] = s.ofMember(m, dir)
		if dir == forAnswer && !m.maybe || dir == forRequest && m.rules.required {
			out.Required = append(out.Required, m.name)
		}
	}
}

func (s *schemas) ofMember(m *member, dir direction) *schema {
	nullable := m.rules.nullable
	if dir == forAnswer {
		nullable = m.shape.pointer && !m.maybe
	}
	return s.constrain(m.shape, &m.rules, nullable, dir)
}

func (s *schemas) ofParameter(p *parameter) *schema {
	out := s.constrain(p.shape, &p.rules, p.rules.nullable, forRequest)
	out.Default = p.fallback()
	if p.name != "body" {
		out.Description = "" // it is with the parameter
	}
	return out
}

// fallback returns the default as JSON.
func (p *parameter) fallback() any {
	if p.rules.fallback == "" {
		return nil
	}
	if p.shape.kind == text {
		return p.rules.fallback
	}
	return json.RawMessage(p.rules.fallback)
}

// constrain adds the constraints of a field's tags to a type's schema.
func (s *schemas) constrain(sh *shape, r *rules, nullable bool, dir direction) *schema {
	out := s.of(sh, dir)
	out.Description = r.doc
	out.Minimum, out.Maximum = r.min, r.max
	if r.format != "" {
		out.Format = r.format
	}
	for _, e := range r.enum {
		out.Enum = append(out.Enum, enumValue(sh, e))
	}
	if r.object {
		out.Type = "object"
	}
	if sh.kind == list {
		out.MinItems = r.minLen
	} else {
		out.MinLength = r.minLen
	}
	if nullable {
		return orNull(out)
	}
	return out
}

func enumValue(sh *shape, e string) any {
	if sh.kind == text {
		return e
	}
	return json.RawMessage(e)
}

// orNull makes a value nullable.
func orNull(s *schema) *schema {
	if name, ok := s.Type.(string); ok {
		s.Type = []string{name, "null"}
		if s.Enum != nil {
			s.Enum = append(s.Enum, nil)
		}
		return s
	}
	if s.Ref == "" {
		return s // any value
	}
	doc := s.Description
	s.Description = ""
	return &schema{Description: doc, AnyOf: []*schema{s, {Type: "null"}}}
}

// success describes a row's response.
func (s *schemas) success(row *route) (*response, error) {
	out := &response{Description: http.StatusText(row.Status)}
	switch {
	case row.Status == http.StatusNoContent:
		out.Description = "Done; the answer has no body."
		return out, nil
	case row.Serve != nil:
		out.Content = map[string]docMedia{row.Produces: {Schema: &schema{}}}
		return out, nil
	case row.Do.result.Implements(typeOf[eventStream]()):
		out.Content = map[string]docMedia{eventMedia: {Schema: &schema{Type: "string"}}}
		return out, nil
	case row.Do.result == typeOf[handlers.File]():
		out.Content = map[string]docMedia{fileMedia: {Schema: &schema{}}}
		return out, nil
	case row.Do.result == typeOf[handlers.Raw]():
		out.Content = jsonMedia(&schema{Type: "object"})
		return out, nil
	}
	if l, ok := reflect.Zero(row.Do.result).Interface().(listed); ok {
		return s.listResponse(out, row, l)
	}
	sh, err := s.types.of(row.Do.result)
	if err != nil {
		return nil, err
	}
	out.Content = jsonMedia(s.of(sh, forAnswer))
	return out, nil
}

// listed is a list that knows the type of its entries and whether they may be names.
type listed interface {
	Item() any
	HasNames() bool
}

func (s *schemas) listResponse(out *response, row *route, l listed) (*response, error) {
	sh, err := s.types.of(reflect.TypeOf(l.Item()))
	if err != nil {
		return nil, err
	}
	item := s.of(sh, forAnswer)
	if l.HasNames() {
		item = &schema{AnyOf: []*schema{item, {Type: "string", Description: "The name alone, with verbose=false."}}}
	}
	out.Content = jsonMedia(&schema{Type: "array", Items: item})
	if row.columns != nil {
		out.Content["text/csv"] = docMedia{Schema: &schema{Type: "string"}}
	}
	out.Headers = map[string]docHeader{"X-Total-Count": {
		Description: "Number of entries before offset and count.", Schema: &schema{Type: "integer"}}}
	return out, nil
}
