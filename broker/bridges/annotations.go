package bridges

import (
	"encoding/json"
	"fmt"
	"strings"
)

// flags are annotations of a value in a schema.
type flags struct {
	secret  bool // masked when it is read
	address bool // determines where secrets are sent
}

// annotations is the positions of secrets and addresses in a connection. Alternatives of a schema
// are merged.
type annotations struct {
	flags
	defaultValue string // fingerprint of the default, "" for none
	members      map[string]*annotations
	rest         *annotations // of the other members
	items        *annotations
}

// newAnnotations reads the annotations of a schema.
func newAnnotations(schema, defs map[string]any, depth int) *annotations {
	if depth > maxDepth {
		panic("bridges: a schema refers to itself")
	}
	s := &annotations{members: map[string]*annotations{}}
	s.secret, _ = schema["writeOnly"].(bool)
	s.address, _ = schema["x-address"].(bool)
	if d, ok := schema["default"]; ok {
		s.defaultValue = fingerprint(d)
	}
	if ref, ok := schema["$ref"].(string); ok {
		target, ok := defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		if !ok {
			panic(fmt.Sprintf("bridges: a schema refers to %s, which is none of its definitions", ref))
		}
		s.add(newAnnotations(target, defs, depth+1))
	}
	for keyword, v := range schema {
		s.read(keyword, v, defs, depth+1)
	}
	return s
}

// read merges the annotations of a keyword.
func (s *annotations) read(keyword string, v any, defs map[string]any, depth int) {
	list, _ := v.([]any)
	schemas, _ := v.(map[string]any)
	switch keyword {
	case "allOf", "anyOf", "oneOf":
		for _, e := range list {
			s.add(newAnnotations(asSchema(e), defs, depth))
		}
	case "dependentSchemas":
		for _, e := range schemas {
			s.add(newAnnotations(asSchema(e), defs, depth))
		}
	case "properties":
		for name, e := range schemas {
			s.add(&annotations{members: map[string]*annotations{name: newAnnotations(asSchema(e), defs, depth)}})
		}
	case "patternProperties":
		for _, e := range schemas {
			s.add(&annotations{rest: newAnnotations(asSchema(e), defs, depth)})
		}
	}
	if schemas != nil {
		s.readSchema(keyword, schemas, defs, depth)
	}
}

// readSchema merges the annotations of a keyword whose value is a schema.
func (s *annotations) readSchema(keyword string, v, defs map[string]any, depth int) {
	switch keyword {
	case "additionalProperties", "unevaluatedProperties":
		s.add(&annotations{rest: newAnnotations(v, defs, depth)})
	case "items":
		s.add(&annotations{items: newAnnotations(v, defs, depth)})
	case "if", "then", "else":
		s.add(newAnnotations(v, defs, depth))
	}
}

func asSchema(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// add merges other annotations.
func (s *annotations) add(o *annotations) {
	s.secret, s.address = s.secret || o.secret, s.address || o.address
	if s.defaultValue == "" {
		s.defaultValue = o.defaultValue
	}
	for name, m := range o.members {
		if known := s.members[name]; known != nil {
			known.add(m)
		} else {
			s.members[name] = m
		}
	}
	s.rest, s.items = merge(s.rest, o.rest), merge(s.items, o.items)
}

func merge(a, b *annotations) *annotations {
	if a == nil {
		return b
	}
	if b != nil {
		a.add(b)
	}
	return a
}

// member returns the annotations of a member, nil if it has none.
func (s *annotations) member(name string) *annotations {
	if s == nil {
		return nil
	}
	if m := s.members[name]; m != nil {
		return m
	}
	return s.rest
}

// leaf is a value in a document that is neither an object nor an array. Its key is its path with
// names in place of indices, where entries have names, so that it is the same in two documents.
type leaf struct {
	path, key string
	flags
	isDefault bool // equals the schema's default
	value     any
}

// rewrite returns a tree with change applied to every leaf.
func (s *annotations) rewrite(v any, root string, change func(leaf) any) any {
	return s.visit(v, leaf{path: root}, change)
}

func (s *annotations) visit(v any, at leaf, change func(leaf) any) any {
	if s != nil {
		at.secret, at.address = at.secret || s.secret, at.address || s.address
	}
	switch v := v.(type) {
	case *object:
		o := &object{members: make([]member, len(v.members))}
		for i, m := range v.members {
			o.members[i] = member{m.name, s.member(m.name).visit(m.value, at.step(m.name), change)}
		}
		return o
	case []any:
		var items *annotations
		if s != nil {
			items = s.items
		}
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = items.visit(e, at.entry(i, e), change)
		}
		return list
	}
	at.value = v
	at.isDefault = s != nil && s.defaultValue != "" && s.defaultValue == fingerprint(v)
	return change(at)
}

func (l leaf) step(name string) leaf {
	l.path, l.key = memberPath(l.path, name), memberPath(l.key, name)
	return l
}

func (l leaf) entry(i int, v any) leaf {
	l.path = elementPath(l.path, i)
	if o, ok := v.(*object); ok {
		if name, ok := o.get("name").(string); ok {
			text, _ := json.Marshal(name) //nolint:errchkjson // a string
			l.key += "[name=" + string(text) + "]"
			return l
		}
	}
	l.key = elementPath(l.key, i)
	return l
}
