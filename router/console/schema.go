package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// schemaNode is a JSON Schema (2020-12), as far as forms are made from it.
type schemaNode struct {
	Ref         string                `json:"$ref"`
	Type        any                   `json:"type"`
	Title       string                `json:"title"`
	Description string                `json:"description"`
	Default     json.RawMessage       `json:"default"`
	Enum        []json.RawMessage     `json:"enum"`
	Const       json.RawMessage       `json:"const"`
	OneOf       []schemaNode          `json:"oneOf"`
	WriteOnly   bool                  `json:"writeOnly"` // a secret
	Address     bool                  `json:"x-address"` // determines where secrets are sent
	Required    []string              `json:"required"`
	Properties  orderedMembers        `json:"properties"`
	Others      *schemaNode           `json:"additionalProperties"`
	Items       *schemaNode           `json:"items"`
	MinLength   int                   `json:"minLength"`
	MaxLength   int                   `json:"maxLength"`
	Minimum     json.Number           `json:"minimum"`
	Maximum     json.Number           `json:"maximum"`
	Defs        map[string]schemaNode `json:"$defs"`
}

// UnmarshalJSON reads a schema. One of a form that is not known here, such as true, becomes
// an empty schema, whose values are edited as JSON.
func (n *schemaNode) UnmarshalJSON(b []byte) error {
	type plain schemaNode
	if json.Unmarshal(b, (*plain)(n)) != nil {
		*n = schemaNode{}
	}
	return nil
}

// orderedMembers are the properties of a schema in the order of the document.
type orderedMembers []namedSchema

type namedSchema struct {
	name string
	node schemaNode
}

// UnmarshalJSON reads an object in the order of its members.
func (m *orderedMembers) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(strings.NewReader(string(b)))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		n := namedSchema{name: fmt.Sprint(name)}
		if err := d.Decode(&n.node); err != nil {
			return err
		}
		*m = append(*m, n)
	}
	return nil
}

func (m orderedMembers) has(name string) bool {
	return slices.ContainsFunc(m, func(p namedSchema) bool { return p.name == name })
}

// resolved returns the definition that the node refers to, with the node's
// own title, description, default and annotations, or the node.
func (n *schemaNode) resolved(defs map[string]schemaNode) *schemaNode {
	target, ok := defs[strings.TrimPrefix(n.Ref, "#/$defs/")]
	if !ok || n.Ref == "" {
		return n
	}
	target.Title, target.Description = cmp.Or(n.Title, target.Title), cmp.Or(n.Description, target.Description)
	target.WriteOnly, target.Address = target.WriteOnly || n.WriteOnly, target.Address || n.Address
	if len(n.Default) > 0 {
		target.Default = n.Default
	}
	return &target
}

func (n *schemaNode) requires(name string) bool { return slices.Contains(n.Required, name) }

// typ returns the type, "" for none or several.
func (n *schemaNode) typ() string {
	name, _ := n.Type.(string)
	return name
}

// defaultValue returns the default, if there is one.
func (n *schemaNode) defaultValue() (v any, ok bool) {
	if len(n.Default) == 0 {
		return nil, false
	}
	v, err := readJSON(n.Default)
	return v, err == nil
}

// schemaChoice is a value of an enumeration.
type schemaChoice struct {
	text  string // that is posted: the value itself if it is text, otherwise as JSON
	label string
	value any
}

func newChoice(v any, label string) schemaChoice {
	text, isText := v.(string)
	if !isText {
		text = string(writeJSON(v))
	}
	return schemaChoice{text, cmp.Or(label, text), v}
}

// choices returns the values of an enumeration, or of alternatives that are constants; nil
// for any other schema.
func (n *schemaNode) choices() (all []schemaChoice) {
	for _, text := range n.Enum {
		v, err := readJSON(text)
		if err != nil {
			return nil
		}
		all = append(all, newChoice(v, ""))
	}
	if all != nil {
		return all
	}
	alternatives := n.OneOf
	if len(n.Const) > 0 {
		alternatives = []schemaNode{{Const: n.Const}}
	}
	for i := range alternatives {
		v, err := readJSON(alternatives[i].Const)
		if err != nil {
			return nil
		}
		all = append(all, newChoice(v, alternatives[i].Title))
	}
	return all
}

// discriminator returns the member whose constant distinguishes the alternatives of an
// object, with its values; "" if there is none.
func (n *schemaNode) discriminator() (name string, values []schemaChoice) {
	for i := range n.OneOf {
		found := false
		for _, p := range n.OneOf[i].Properties {
			c := p.node.choices()
			if len(c) != 1 || name != "" && p.name != name {
				continue
			}
			name, found = p.name, true
			values = append(values, newChoice(c[0].value, n.OneOf[i].Title))
			break
		}
		if !found {
			return "", nil
		}
	}
	return name, values
}

// chosen returns the object schema for a value: the members of all alternatives and those
// of the one that the value has chosen, after the member that chooses.
func (n *schemaNode) chosen(value any) *schemaNode {
	name, values := n.discriminator()
	if name == "" {
		return n
	}
	all := *n
	choice := schemaNode{Title: name}
	for _, p := range n.Properties {
		if p.name == name {
			choice = p.node
		}
	}
	choice.Enum, choice.OneOf = nil, nil
	current, _ := asObject(value).get(name)
	all.Properties = orderedMembers{}
	var more orderedMembers
	for i, c := range values {
		choice.OneOf = append(choice.OneOf, schemaNode{Title: c.label, Const: writeJSON(c.value)})
		if string(writeJSON(current)) == string(writeJSON(c.value)) {
			more = n.OneOf[i].Properties
			all.Required = append(slices.Clone(all.Required), n.OneOf[i].Required...)
		}
	}
	all.Properties = append(all.Properties, namedSchema{name, choice})
	for _, p := range append(slices.Clone(n.Properties), more...) {
		if !all.Properties.has(p.name) {
			all.Properties = append(all.Properties, p)
		}
	}
	all.Required, all.OneOf = append(slices.Clone(all.Required), name), nil
	return &all
}

// schemaMember is a member of a configuration, from its JSON Schema.
type schemaMember struct {
	Path        string // "connections[].connection.url"
	Type        string
	Title       string
	Description string
	Default     string
	Secret      bool
	Required    bool
}

// maxSchemaDepth bounds the depth to which a schema is described.
const maxSchemaDepth = 8

// allMembers returns the members of a configuration in the order of its schema.
func (n *schemaNode) allMembers() []schemaMember { return n.members("", n.Defs, maxSchemaDepth) }

func (n *schemaNode) members(prefix string, defs map[string]schemaNode, depth int) []schemaMember {
	n = n.resolved(defs)
	if depth == 0 {
		return nil
	}
	if n.Items != nil {
		return n.Items.members(prefix+"[]", defs, depth-1)
	}
	var all []schemaMember
	for _, p := range n.Properties {
		node, path := p.node.resolved(defs), strings.TrimPrefix(prefix+"."+p.name, ".")
		all = append(all, schemaMember{Path: path, Type: node.typeName(), Title: node.Title, Description: node.Description,
			Default: string(node.Default), Secret: node.WriteOnly, Required: n.requires(p.name)})
		all = append(all, node.members(path, defs, depth-1)...)
	}
	return all
}

// typeName returns the type, or the values of an enumeration.
func (n *schemaNode) typeName() string {
	if choices := n.choices(); choices != nil {
		names := make([]string, 0, len(choices))
		for _, c := range choices {
			names = append(names, string(writeJSON(c.value)))
		}
		return strings.Join(names, " | ")
	}
	return n.typ()
}
