package console

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
)

// The kinds of the parts of a schema form that are no fields, in addition to those of forms.
const (
	kindRadio = "radio"
	kindGroup = "group" // an object
	kindList  = "list"  // an array of objects
	kindPairs = "pairs" // an object of texts with any names, one per line
	kindJSON  = "json"
	kindFixed = "" // has only one value
)

// control returns the kind of field for a value.
func (f *schemaForm) control(n *schemaNode, v any, present bool, depth int) string {
	kind := n.control(f.schema.Defs, depth)
	if !present || fits(kind, n, v) {
		return kind
	}
	if text, ok := v.(string); ok && kind == kindText && strings.ContainsAny(text, "\r\n") && fits(kindLong, n, v) {
		return kindLong
	}
	return kindJSON
}

// longText is the length from which a text has a field of several lines.
const longText = 1 << 16

// control returns the kind of field for a schema.
func (n *schemaNode) control(defs map[string]schemaNode, depth int) string {
	if choices := n.choices(); choices != nil {
		switch optional := len(n.Default) == 0; {
		case len(choices) == 1:
			return kindFixed
		case len(choices) <= 3 && !optional:
			return kindRadio
		}
		return kindSelect
	}
	switch n.typ() {
	case "boolean":
		return kindCheckbox
	case "integer", "number":
		return kindNumber
	case "string":
		return n.textControl()
	case "array":
		return n.arrayControl(defs, depth)
	case "object":
		return n.objectControl(defs, depth)
	}
	return kindJSON
}

func (n *schemaNode) textControl() string {
	switch {
	case n.MaxLength >= longText:
		return kindLong
	case n.WriteOnly:
		return kindPassword
	}
	return kindText
}

func (n *schemaNode) arrayControl(defs map[string]schemaNode, depth int) string {
	if n.Items == nil || n.Items.resolved(defs).typ() == "array" {
		return kindJSON
	}
	switch kind := n.Items.resolved(defs).control(defs, depth); kind {
	case kindText, kindLong, kindNumber:
		return kindLines
	case kindGroup:
		return kindList
	}
	return kindJSON
}

func (n *schemaNode) objectControl(defs map[string]schemaNode, depth int) string {
	name, _ := n.discriminator()
	switch {
	case depth > maxFormDepth:
	case len(n.Properties) > 0 && len(n.OneOf) == 0 || name != "":
		return kindGroup
	case len(n.OneOf) == 0 && n.Others != nil && n.Others.resolved(defs).typ() == "string":
		return kindPairs
	}
	return kindJSON
}

// fits reports whether a field of a kind can show a value without changing it.
func fits(kind string, n *schemaNode, v any) bool {
	switch kind {
	case kindJSON:
		return true
	case kindGroup, kindPairs:
		o, ok := v.(*jsonObject)
		return ok && (kind == kindGroup || arePairs(o))
	case kindList, kindLines:
		return areEntries(kind, n, v)
	case kindCheckbox:
		_, ok := v.(bool)
		return ok
	case kindNumber:
		return fitsNumber(v)
	case kindSelect, kindRadio, kindFixed:
		_, ok := n.choice(newChoice(v, "").text, v)
		return ok
	}
	text, ok := v.(string)
	return ok && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && (kind != kindLong || r != '\n' && r != '\r' && r != '\t')
	})
}

// fitsNumber reports whether the field of a number can show a value: also text that was typed
// into it and is no number.
func fitsNumber(v any) bool {
	switch v := v.(type) {
	case json.Number:
		return true
	case string:
		return v != "" && number(v) == any(v) && !strings.ContainsFunc(v, unicode.IsControl)
	}
	return false
}

// choice returns the choice with a posted text; with a value it must be that of the choice.
func (n *schemaNode) choice(text string, value any) (schemaChoice, bool) {
	for _, c := range n.choices() {
		if c.text == text && (value == nil || string(writeJSON(c.value)) == string(writeJSON(value))) {
			return c, true
		}
	}
	return schemaChoice{}, false
}

func areEntries(kind string, n *schemaNode, v any) bool {
	list, ok := v.([]any)
	if !ok || kind == kindList && len(list) > maxFormEntries {
		return false
	}
	for _, e := range list {
		switch e := e.(type) {
		case *jsonObject:
			ok = kind == kindList
		case json.Number:
			ok = kind == kindLines && n.Items.typ() != "string"
		case string:
			ok = kind == kindLines && n.Items.typ() == "string" && e != "" && !strings.ContainsFunc(e, unicode.IsControl)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}

// arePairs reports whether the members of an object can be written as lines.
func arePairs(o *jsonObject) bool {
	for _, m := range o.members {
		text, ok := m.value.(string)
		if !ok || m.name == "" || strings.Contains(m.name, ":") || strings.TrimSpace(m.name) != m.name || strings.TrimSpace(text) != text ||
			strings.ContainsFunc(m.name+text, unicode.IsControl) {
			return false
		}
	}
	return true
}

// text returns the text of a value's field; that of its default if it is not present.
func (n *schemaNode) text(kind string, v any, present bool) string {
	if !present {
		var ok bool
		if v, ok = n.defaultValue(); !ok || !fits(kind, n, v) {
			return map[string]string{kindCheckbox: "false"}[kind]
		}
	}
	switch kind {
	case kindCheckbox:
		return strconv.FormatBool(v == true)
	case kindSelect, kindRadio:
		return newChoice(v, "").text
	case kindLines:
		list, _ := v.([]any)
		texts := make([]string, len(list))
		for i, e := range list {
			texts[i] = newChoice(e, "").text
		}
		return strings.Join(texts, "\n")
	case kindPairs:
		var lines []string
		for _, m := range asObject(v).members {
			lines = append(lines, m.name+": "+newChoice(m.value, "").text)
		}
		return strings.Join(lines, "\n")
	case kindJSON:
		if !present {
			return ""
		}
		return indented(writeJSON(v))
	}
	return newChoice(v, "").text
}
