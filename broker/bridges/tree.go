package bridges

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// object is a JSON object that preserves the order of its members. Other values of a tree are
// nil, bool, string, json.Number and []any.
type object struct{ members []member }

type member struct {
	name  string
	value any
}

// get returns a member's value, nil if there is none.
func (o *object) get(name string) any {
	for i := range o.members {
		if o.members[i].name == name {
			return o.members[i].value
		}
	}
	return nil
}

// has reports whether a member exists.
func (o *object) has(name string) bool {
	for i := range o.members {
		if o.members[i].name == name {
			return true
		}
	}
	return false
}

// put replaces a member, or appends it.
func (o *object) put(name string, v any) {
	for i := range o.members {
		if o.members[i].name == name {
			o.members[i].value = v
			return
		}
	}
	o.members = append(o.members, member{name, v})
}

// Bounds of a document.
const (
	maxDocument = 4 << 20 // bytes
	maxDepth    = 64      // nested arrays and objects
	maxNumber   = 64      // characters
	maxValues   = 100_000
	maxPath     = 1024 // bytes of the path of a value
	maxProblems = 100  // that are reported
)

// treeReader reads a tree, and collects problems.
type treeReader struct {
	dec      *json.Decoder
	values   int
	problems Problems
}

var errProblems = errors.New("there are too many problems")

// readTree parses JSON and reports duplicate members.
func readTree(text []byte) (any, Problems) {
	switch {
	case len(text) > maxDocument:
		return nil, Problems{{"", fmt.Sprintf("must not be longer than %d bytes", maxDocument)}}
	case !utf8.Valid(text):
		return nil, Problems{{"", "must be UTF-8"}}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, Problems{{"", "is not JSON: " + err.Error()}}
	}
	r := &treeReader{dec: json.NewDecoder(bytes.NewReader(text))}
	r.dec.UseNumber()
	v, err := r.value("", 0)
	switch {
	case errors.Is(err, errProblems):
		return nil, r.problems
	case err != nil:
		return nil, Problems{{"", "cannot be used: " + err.Error()}}
	}
	return v, r.problems
}

func (r *treeReader) value(path string, depth int) (any, error) {
	t, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	if err := r.count(path); err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if depth >= maxDepth {
			return nil, fmt.Errorf("it is more than %d levels deep", maxDepth)
		}
		if t == '[' {
			return r.array(path, depth)
		}
		return r.object(path, depth)
	case json.Number:
		return r.number(path, t), nil
	}
	return t, nil
}

// count returns an error if a document exceeds its bounds. Without it the paths of a small
// document could take gigabytes.
func (r *treeReader) count(path string) error {
	r.values++
	switch {
	case r.values > maxValues:
		return fmt.Errorf("it has more than %d values", maxValues)
	case len(path) > maxPath:
		return fmt.Errorf("the names that lead to a value have more than %d bytes", maxPath)
	case len(r.problems) >= maxProblems:
		return errProblems
	}
	return nil
}

func (r *treeReader) array(path string, depth int) (any, error) {
	list := []any{}
	for r.dec.More() {
		v, err := r.value(elementPath(path, len(list)), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := r.dec.Token()
	return list, err
}

func (r *treeReader) object(path string, depth int) (any, error) {
	o, seen := &object{}, map[string]bool{}
	for r.dec.More() {
		t, err := r.dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		v, err := r.value(memberPath(path, name), depth+1)
		if err != nil {
			return nil, err
		}
		if seen[name] {
			r.problems.Add(memberPath(path, name), "is given twice")
			continue
		}
		seen[name] = true
		o.members = append(o.members, member{name, v})
	}
	_, err := r.dec.Token()
	return o, err
}

// number normalises integers, so that 1.0 and 1e3 are valid integers.
func (r *treeReader) number(path string, n json.Number) json.Number {
	f, err := n.Float64()
	if err != nil || len(n) > maxNumber {
		r.problems.Add(path, "is a number that cannot be used: it is too large or too long")
		return "0"
	}
	if f > 1e300 || f < -1e300 || f != 0 && f < 1e-300 && f > -1e-300 {
		return n
	}
	if exact, ok := new(big.Rat).SetString(n.String()); ok && exact.IsInt() && exact.Num().IsInt64() {
		return json.Number(strconv.FormatInt(exact.Num().Int64(), 10))
	}
	return n
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// memberPath returns the path of a member.
func memberPath(path, name string) string {
	switch {
	case !plainName.MatchString(name):
		return path + "[" + strconv.Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// elementPath returns the path of an entry.
func elementPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// isBelow reports whether a path equals root or is below it.
func isBelow(path, root string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (root == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// appendTree appends a tree as JSON, without spaces.
func appendTree(dst []byte, v any) []byte {
	switch v := v.(type) {
	case *object:
		dst = append(dst, '{')
		for i, m := range v.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendScalar(dst, m.name), ':')
			dst = appendTree(dst, m.value)
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendTree(dst, e)
		}
		return append(dst, ']')
	}
	return appendScalar(dst, v)
}

func appendScalar(dst []byte, v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return append(dst, "null"...) // no tree holds what cannot be written
	}
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// toAny converts a tree to the types of encoding/json, with numbers as json.Number.
func toAny(v any) any {
	switch v := v.(type) {
	case *object:
		m := make(map[string]any, len(v.members))
		for _, e := range v.members {
			m[e.name] = toAny(e.value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = toAny(v[i])
		}
		return list
	}
	return v
}

// fingerprint returns a text that is equal for trees that are equal up to the order of members.
func fingerprint(v any) string {
	b, err := json.Marshal(toAny(v))
	if err != nil {
		return ""
	}
	return string(b)
}
