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

// common holds what the schemas of all kinds share, by name.
var common = sync.OnceValue(func() *object { return mustTree(commonText) })

// kind is a Kind with its schema.
type kind struct {
	Kind
	schema func() *schema // made when it is asked for first
}

// schema is that of the documents of a kind.
type schema struct {
	text     json.RawMessage
	compiled *jsonschema.Schema
	shape    *shape // of a connection
	records  bool
}

func newKind(k Kind) *kind {
	return &kind{Kind: k, schema: sync.OnceValue(func() *schema { return newSchema(k.ID(), k.Schema()) })}
}

// newSchema puts a schema together. It panics where a kind's part is no schema,
// as nothing but another program helps then.
func newSchema(id string, s Schema) *schema {
	root := assemble(s)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	const location = "urn:signalbox:bridge"
	whole := plain(root)
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
	return &schema{text: appendTree(nil, root), compiled: compiled, shape: newShape(connection, defs, 0), records: s.Records}
}

// mustTree reads an object that is part of the program; nil where there is none.
func mustTree(text []byte) *object {
	if len(text) == 0 {
		return nil
	}
	v, problems := readTree(text)
	o, ok := v.(*object)
	if !ok || len(problems) > 0 {
		panic(fmt.Sprintf("bridges: part of a schema is no object: %v", problems))
	}
	return o
}

// assemble gives the JSON Schema of a kind's documents.
func assemble(s Schema) *object {
	connection := mustTree(s.Connection)
	if connection == nil {
		connection = tree("type", "object")
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
	defs := tree("connection", tree(
		"title", "Connection", "type", "object",
		"properties", tree(
			"name", tree("title", "Name", "type", "string", "minLength", json.Number("1"), "maxLength", json.Number("255")),
			"enabled", tree("title", "Enabled", "description", "Without it there is no connection; what waits is kept, and nothing is added to it.", "type", "boolean", "default", true),
			"connection", connection, "options", options,
			"topicMappings", tree("title", "Topic mappings", "type", "array", "maxItems", json.Number("1000"), "items", topic)),
		"required", []any{"name", "connection"}))
	members := tree(
		"version", tree("title", "Version of the document", "enum", []any{"v1"}, "default", "v1"),
		"connections", tree("title", "Connections", "type", "array", "maxItems", json.Number(strconv.Itoa(maxConnections)), "items", tree("$ref", "#/$defs/connection")))
	if s.Records {
		members.put("schemaMappings", tree("title", "Schema mappings", "type", "array", "maxItems", json.Number("1000"), "items", tree("$ref", "#/$defs/schemaMapping")))
		defs.put("schemaMapping", sharedPart("schemaMapping"))
	}
	defs.put("tls", sharedPart("tls"))
	defs.put("credentials", sharedPart("credentials"))
	root := tree("$schema", "https://json-schema.org/draft/2020-12/schema", "title", s.Title, "description", s.Description,
		"type", "object", "properties", members, "required", []any{"connections"}, "$defs", defs)
	closed, _ := closeObjects(root).(*object)
	return closed
}

// tree gives an object of names and values.
func tree(pairs ...any) *object {
	o := &object{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		o.members = append(o.members, member{name, pairs[i+1]})
	}
	return o
}

// sharedPart gives a copy of an object schema of all kinds that can be extended.
func sharedPart(name string) *object {
	return mustTree(appendTree(nil, common().get(name)))
}

// properties gives those of an object schema, which has them from now on.
func properties(o *object) *object {
	p, ok := o.get("properties").(*object)
	if !ok {
		p = &object{}
		o.put("properties", p)
	}
	return p
}

// extend adds to an object schema what a kind has beside it. What a kind says
// about a property that there is takes its place.
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

// composing are the keywords by which properties come from elsewhere.
var composing = []string{"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"}

// open are the keywords whose subschemas describe parts of an object that is
// described elsewhere too, so that they must let other members be.
var open = map[string]bool{"allOf": true, "anyOf": true, "oneOf": true, "if": true, "then": true, "else": true, "not": true, "dependentSchemas": true}

// verbatim are the keywords whose values are no schemas.
var verbatim = map[string]bool{"default": true, "enum": true, "const": true, "examples": true}

// closeObjects has every object schema with properties refuse members that it
// does not know.
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

// closeMember closes a keyword's value; the names of properties are no keywords.
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
