package bridges

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed common.json
var commonText []byte

// common holds the schemas that all kinds share, by name.
var common = sync.OnceValue(func() *object { return mustTree(commonText) })

// kind is a Kind with its schema.
type kind struct {
	Kind
	schema func() *schema // created by the first call
}

// schema is the schema of a kind's documents.
type schema struct {
	text        json.RawMessage
	compiled    *jsonschema.Schema
	annotations *annotations // of a connection
	records     bool
}

func newKind(k Kind) *kind {
	return &kind{Kind: k, schema: sync.OnceValue(func() *schema { return newSchema(k.ID(), k.Schema()) })}
}

// newSchema creates a schema. It panics if the kind's part is not a valid schema, which is an
// error of the program.
func newSchema(id string, s Schema) *schema {
	root := assemble(s)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	const location = "urn:signalbox:bridge"
	whole := toAny(root)
	err := c.AddResource(location, whole)
	if err != nil {
		panic(fmt.Sprintf("bridges: schema of %s: %v", id, err))
	}
	compiled, err := c.Compile(location)
	if err != nil {
		panic(fmt.Sprintf("bridges: schema of %s: %v", id, err))
	}
	defs, _ := whole.(map[string]any)["$defs"].(map[string]any) //nolint:forcetypeassert // it is an object
	connection, _ := defs["connection"].(map[string]any)
	return &schema{text: appendTree(nil, root), compiled: compiled, annotations: newAnnotations(connection, defs, 0), records: s.Records}
}

// mustTree parses an object that is part of the program; nil for none.
func mustTree(text []byte) *object {
	if len(text) == 0 {
		return nil
	}
	v, problems := readTree(text)
	o, ok := v.(*object)
	if !ok || len(problems) > 0 {
		panic(fmt.Sprintf("bridges: part of a schema is not an object: %v", problems))
	}
	return o
}

// assemble returns the JSON Schema of a kind's documents.
func assemble(s Schema) *object {
	connection := mustTree(s.Connection)
	if connection == nil {
		connection = newObject("type", "object")
	}
	if !connection.has("title") {
		connection.members = append([]member{{"title", "Target"}}, connection.members...)
	}
	options := extend(sharedPart("options"), mustTree(s.Options))
	topic := sharedPart("topicMapping")
	if s.Records {
		properties(topic).put("schemaMapping", sharedPart("schemaMappingName"))
	}
	topic = extend(topic, mustTree(s.Mapping))
	defs := newObject("connection", newObject(
		"title", "Connection", "type", "object",
		"properties", newObject(
			"name", newObject("title", "Name", "type", "string", "minLength", json.Number("1"), "maxLength", json.Number("255")),
			"enabled", newObject("title", "Enabled", "description", "If disabled, there is no connection; queued messages are kept, and none are added.", "type", "boolean", "default", true),
			"connection", connection, "options", options,
			"topicMappings", newObject("title", "Topic mappings", "type", "array", "maxItems", json.Number("1000"), "items", topic)),
		"required", []any{"name", "connection"}))
	members := newObject(
		"version", newObject("title", "Version of the document", "enum", []any{"v1"}, "default", "v1"),
		"connections", newObject("title", "Connections", "type", "array", "maxItems", json.Number(strconv.Itoa(maxConnections)), "items", newObject("$ref", "#/$defs/connection")))
	if s.Records {
		members.put("schemaMappings", newObject("title", "Schema mappings", "type", "array", "maxItems", json.Number("1000"), "items", newObject("$ref", "#/$defs/schemaMapping")))
		defs.put("schemaMapping", sharedPart("schemaMapping"))
	}
	defs.put("tls", sharedPart("tls"))
	defs.put("credentials", sharedPart("credentials"))
	root := newObject("$schema", "https://json-schema.org/draft/2020-12/schema", "title", s.Title, "description", s.Description,
		"type", "object", "properties", members, "required", []any{"connections"}, "$defs", defs)
	closed, _ := closeObjects(root).(*object)
	return closed
}

// newObject returns an object from names and values.
func newObject(pairs ...any) *object {
	o := &object{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		o.members = append(o.members, member{name, pairs[i+1]})
	}
	return o
}

// sharedPart returns a copy of an object schema of all kinds, which may be extended.
func sharedPart(name string) *object {
	return mustTree(appendTree(nil, common().get(name)))
}

// properties returns the properties of an object schema, and adds them if it has none.
func properties(o *object) *object {
	p, ok := o.get("properties").(*object)
	if !ok {
		p = &object{}
		o.put("properties", p)
	}
	return p
}

// extend adds a kind's part to an object schema. It replaces properties that exist.
func extend(o, more *object) *object {
	if more == nil {
		return o
	}
	for _, m := range more.members {
		switch m.name {
		case "properties":
			if added, ok := m.value.(*object); ok {
				for _, p := range added.members {
					properties(o).put(p.name, p.value)
				}
			}
		case "required":
			old, _ := o.get("required").([]any)
			added, _ := m.value.([]any)
			o.put("required", append(append([]any{}, old...), added...))
		default:
			o.put(m.name, m.value)
		}
	}
	return o
}

// composing are the keywords that include properties of other schemas.
var composing = []string{"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"}

// open are the keywords whose subschemas describe only a part of an object, so that they must
// permit other members.
var open = map[string]bool{"allOf": true, "anyOf": true, "oneOf": true, "if": true, "then": true, "else": true, "not": true, "dependentSchemas": true}

// verbatim are the keywords whose values are not schemas.
var verbatim = map[string]bool{"default": true, "enum": true, "const": true, "examples": true}

// closeObjects makes every object schema with properties refuse unknown members.
func closeObjects(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = closeObjects(v[i])
		}
	case *object:
		for i, m := range v.members {
			if !open[m.name] && !verbatim[m.name] {
				v.members[i].value = closeMember(m)
			}
		}
		if _, ok := v.get("properties").(*object); ok && isObjectSchema(v) {
			v.put(closingKeyword(v), false)
		}
	}
	return v
}

// closeMember closes a keyword's value; the names of properties are not keywords.
func closeMember(m member) any {
	named, ok := m.value.(*object)
	if !ok || m.name != "properties" && m.name != "$defs" && m.name != "patternProperties" {
		return closeObjects(m.value)
	}
	for i := range named.members {
		named.members[i].value = closeObjects(named.members[i].value)
	}
	return named
}

func isObjectSchema(o *object) bool {
	return o.get("type") == "object" && !o.has("additionalProperties") && !o.has("unevaluatedProperties")
}

func closingKeyword(o *object) string {
	for _, k := range composing {
		if o.has(k) {
			return "unevaluatedProperties"
		}
	}
	return "additionalProperties"
}
