package router

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"signalbox/handlers"
	"signalbox/router/manual"
)

// Operation is a row of the table as a caller sees it.
type Operation struct {
	ID, Method, Path     string
	Tag                  string
	Summary, Description string
	Role                 string // the minimum role
	PathParameters       []Field
	Query                []Field
	Body                 *Schema // nil if the operation has none
	Media                string  // media type of the response, "" if it has no body
	Result               *Schema // of a JSON response; nil if it is not known
	List                 bool    // the response is a list with X-Total-Count
	Large                bool    // bodies may be large, and take more time
}

// Field is a parameter, or a member of an object.
type Field struct {
	Name string
	Schema
}

// FormatEpochMs is the format of a number that is a time in milliseconds since 1970, in UTC.
const FormatEpochMs = "epoch-ms"

// Schema describes a JSON value, with what the tags of its field state.
type Schema struct {
	Kind     Kind
	Required bool
	Nullable bool
	Secret   bool // a password, a key or what else must not be in a log
	Doc      string
	Default  string
	Enum     []string
	Format   string   // "", "email", "date-time" or FormatEpochMs
	Members  []Field  // of an object, in the order of the Go type
	Elem     *Schema  // of a list or a map
	Choices  []Schema // of a value of several kinds
}

// Kind is the JSON type of a value.
type Kind string

// The kinds. An object has known members, a map any; free is any JSON value.
const (
	Text    Kind = "string"
	Boolean Kind = "boolean"
	Integer Kind = "integer"
	Number  Kind = "number"
	Object  Kind = "object"
	Map     Kind = "map"
	List    Kind = "list"
	Choice  Kind = "choice"
	Free    Kind = "free"
)

var exportedKinds = map[kind]Kind{free: Free, text: Text, boolean: Boolean, integer: Integer, number: Number,
	object: Object, table: Map, list: List, choice: Choice}

// Operations returns the rows of the table, for a caller in another process: it needs no
// service.
func Operations() ([]Operation, error) {
	rt := &router{api: &handlers.API{}, metrics: newMetrics(""), manual: manual.New("")}
	types := shapes{}
	var all []Operation
	for _, row := range rt.routes() {
		if err := row.prepare(types); err != nil {
			return nil, err
		}
		op, err := row.describe(types)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", row.ID, err)
		}
		all = append(all, op)
	}
	return all, nil
}

// describe returns the row for callers.
func (row *route) describe(types shapes) (Operation, error) {
	op := Operation{ID: row.ID, Method: row.Method, Path: row.Path, Tag: row.Tag, Summary: row.Summary, Description: row.Description,
		Role: row.Role.String(), Media: row.Produces, Large: row.Large}
	if row.Serve != nil {
		return op, nil
	}
	op.PathParameters, op.Query = fieldsOf(row.plan.path), fieldsOf(row.plan.query)
	if b := row.plan.body; b != nil {
		body := schemaOf(b.shape, &b.rules)
		body.Required = !b.rules.optional
		op.Body = &body
	}
	return op, op.addResult(row, types)
}

// addResult adds the form of the response.
func (op *Operation) addResult(row *route, types shapes) error {
	t := row.Do.result
	switch {
	case row.Status == http.StatusNoContent:
		return nil
	case t.Implements(typeOf[eventStream]()):
		op.Media = eventMedia
		return nil
	}
	if t == typeOf[handlers.File]() {
		op.Media = fileMedia
		return nil
	}
	op.Media = "application/json"
	if t == typeOf[handlers.Raw]() {
		return nil
	}
	if l, ok := reflect.Zero(t).Interface().(listed); ok {
		t, op.List = reflect.TypeOf(l.Item()), true
	}
	sh, err := types.of(t)
	if err != nil {
		return err
	}
	result := schemaOf(sh, &rules{})
	op.Result = &result
	return nil
}

func fieldsOf(parameters []parameter) []Field {
	var all []Field
	for i := range parameters {
		p := &parameters[i]
		all = append(all, Field{Name: p.name, Schema: schemaOf(p.shape, &p.rules)})
	}
	return all
}

// schemaOf returns a shape with the rules of one of its fields.
func schemaOf(sh *shape, r *rules) Schema {
	out := Schema{Kind: exportedKinds[sh.kind], Required: r.required, Nullable: r.nullable, Secret: r.secret || sh.isSecret(), Doc: r.doc, Default: r.fallback,
		Enum: slices.Clone(r.enum), Format: r.format}
	if r.object && sh.kind == free {
		out.Kind = Map
	}
	if sh.elem != nil {
		elem := schemaOf(sh.elem, &sh.elem.rules)
		out.Elem = &elem
	}
	for i := range sh.members {
		m := &sh.members[i]
		out.Members = append(out.Members, Field{Name: m.name, Schema: schemaOf(m.shape, &m.rules)})
	}
	for _, c := range sh.choices {
		out.Choices = append(out.Choices, schemaOf(c, &c.rules))
	}
	return out
}
