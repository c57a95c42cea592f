package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// jsonObject is a JSON object that keeps the order of its members. The other values of a
// document are nil, bool, string, json.Number and []any.
type jsonObject struct{ members []jsonMember }

type jsonMember struct {
	name  string
	value any
}

func (o *jsonObject) get(name string) (any, bool) {
	for _, m := range o.members {
		if m.name == name {
			return m.value, true
		}
	}
	return nil, false
}

func (o *jsonObject) set(name string, v any) {
	for i := range o.members {
		if o.members[i].name == name {
			o.members[i].value = v
			return
		}
	}
	o.members = append(o.members, jsonMember{name, v})
}

func (o *jsonObject) remove(name string) {
	o.members = slices.DeleteFunc(o.members, func(m jsonMember) bool { return m.name == name })
}

// put sets the member, or removes it if it is not present.
func (o *jsonObject) put(name string, v any, present bool) {
	if present {
		o.set(name, v)
	} else {
		o.remove(name)
	}
}

// asObject returns a copy of an object whose members can be changed, an empty one for
// anything else.
func asObject(v any) *jsonObject {
	if o, ok := v.(*jsonObject); ok {
		return &jsonObject{slices.Clone(o.members)}
	}
	return &jsonObject{}
}

// maxJSONDepth bounds the depth of a document.
const maxJSONDepth = 64

// documentError is why valid JSON is not a document: the key of a sentence, and its argument.
type documentError struct {
	key    string
	of     any
	offset int64 // of the place, in bytes
}

// Error returns the place, and the sentence without its language.
func (e *documentError) Error() string { return fmt.Sprintf("offset %d: %s %v", e.offset, e.key, e.of) }

// notDocument returns why a text cannot be read as a document, and in which line.
func notDocument(t func(key string, args ...any) string, text string, err error) string {
	line := lineOf([]byte(text), err)
	if e, ok := errors.AsType[*documentError](err); ok {
		return t("schema.line", line, t(e.key, e.of))
	}
	return t("error.not_json", line)
}

// readJSON reads a document. No object may have two members with the same name, of which
// one would be lost.
func readJSON(text []byte) (any, error) {
	if err := json.Unmarshal(text, new(any)); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := readValue(d, 0)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return v, nil
		}
	}
	return nil, err
}

func readValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, &documentError{"schema.too_deep", maxJSONDepth, d.InputOffset()}
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return readObject(d, depth)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := readValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	return token, nil
}

func readObject(d *json.Decoder, depth int) (any, error) {
	o, known := &jsonObject{}, map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		if known[name] {
			return nil, &documentError{"schema.twice", show(name), d.InputOffset()}
		}
		known[name] = true
		v, err := readValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		o.members = append(o.members, jsonMember{name, v})
	}
	_, err := d.Token()
	return o, err
}

// MarshalJSON writes the members in their order.
func (o *jsonObject) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, m := range o.members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, writeJSON(m.name)...), ':'), writeJSON(m.value)...)
	}
	return append(out, '}'), nil
}

// writeJSON writes a document without spaces.
func writeJSON(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.Encode(v) //nolint:errcheck // every document can be written
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'})
}

// A pointer names a value of a document [RFC 6901]: "" is the whole one.

var (
	escapePointer   = strings.NewReplacer("~", "~0", "/", "~1")
	unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
)

// below returns the pointer of a member or entry of what a pointer names.
func below(pointer, name string) string { return pointer + "/" + escapePointer.Replace(name) }

// isWithin reports whether a pointer names what root names, or a part of it.
func isWithin(pointer, root string) bool {
	rest, ok := strings.CutPrefix(pointer, root)
	return ok && (rest == "" || rest[0] == '/')
}

// pointerSteps returns the names that lead to what a pointer names.
func pointerSteps(pointer string) []string {
	if pointer == "" {
		return nil
	}
	steps := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range steps {
		steps[i] = unescapePointer.Replace(steps[i])
	}
	return steps
}

// pointerOf returns the pointer for the path of a field in an error object, as in
// `body.connections[0].connection.headers["X-Key"]`. The first name is that of the part of
// the request.
func pointerOf(path string) string {
	pointer, first := "", true
	for path != "" {
		var name string
		if name, path = nextStep(path); first {
			first = false
			continue
		}
		pointer = below(pointer, name)
	}
	return pointer
}

// nextStep returns the first name of a path, and the rest.
func nextStep(path string) (name, rest string) {
	if strings.HasPrefix(path, `["`) {
		if quoted, err := strconv.QuotedPrefix(path[1:]); err == nil {
			name, _ = strconv.Unquote(quoted) // has been checked
			return name, strings.TrimPrefix(path[1+len(quoted):], "]")
		}
	}
	path = strings.TrimLeft(path, ".[")
	end := strings.IndexAny(path, ".[]")
	if end < 0 {
		return path, ""
	}
	return path[:end], strings.TrimPrefix(path[end:], "]")
}

// pathOf returns the path of a field in an error object for a pointer.
func pathOf(pointer string) string {
	var path strings.Builder
	path.WriteString("body")
	for _, name := range pointerSteps(pointer) {
		switch _, err := strconv.Atoi(name); {
		case err == nil:
			path.WriteString("[" + name + "]")
		case name == "" || strings.ContainsAny(name, `.[]"`):
			path.WriteString("[" + strconv.Quote(name) + "]")
		default:
			path.WriteString("." + name)
		}
	}
	return path.String()
}

// changeAt returns a document in which what the names lead to was changed; v and present are
// what it is. A member that is missing on the way becomes an object; what is no object or
// array stays.
func changeAt(document any, steps []string, change func(v any, present bool) (any, bool)) any {
	if len(steps) == 0 {
		changed, _ := change(document, true)
		return changed
	}
	if list, ok := document.([]any); ok {
		i, err := strconv.Atoi(steps[0])
		if err != nil || i < 0 || i >= len(list) {
			return document
		}
		list = slices.Clone(list)
		list[i] = changeAt(list[i], steps[1:], change)
		return list
	}
	if _, isObject := document.(*jsonObject); !isObject && document != nil {
		return document
	}
	o := asObject(document)
	v, present := o.get(steps[0])
	if len(steps) == 1 {
		v, present = change(v, present)
		o.put(steps[0], v, present)
		return o
	}
	o.set(steps[0], changeAt(v, steps[1:], change))
	return o
}
