package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"
)

// Limits of the number of steps in a path and of an index.
const (
	maxPath  = 32
	maxIndex = 1 << 20
)

// step is a step of a path: the name of a member, or the index of an element, which counts from
// the end if it is negative.
type step struct {
	name    string
	index   int
	isIndex bool
}

// parsePath parses the path after a name, for example .a["b c"][0].
func parsePath(text string) (path []step, err error) {
	for text != "" {
		var s step
		if s, text, err = cutStep(text); err != nil {
			return nil, err
		}
		if path = append(path, s); len(path) > maxPath {
			return nil, fmt.Errorf("must have at most %d parts", maxPath)
		}
	}
	return path, nil
}

func cutStep(text string) (s step, rest string, err error) {
	switch {
	case text[0] == '.':
		return cutName(text[1:])
	case strings.HasPrefix(text, `["`):
		return cutQuoted(text[1:])
	case text[0] == '[':
		return cutIndex(text[1:])
	}
	return step{}, "", fmt.Errorf("has %q where a dot or a bracket must be", firstRune(text))
}

func cutName(text string) (step, string, error) {
	end := strings.IndexFunc(text, func(r rune) bool { return !isNameRune(r) })
	if end < 0 {
		end = len(text)
	}
	name := text[:end]
	if name == "" || strings.IndexFunc(name[:1], func(r rune) bool { return r == '-' || unicode.IsDigit(r) }) == 0 {
		return step{}, "", errors.New(`needs a name after a dot; any other name is written as in jsonPayload["a b"], an element of an array as in jsonPayload.list[0]`)
	}
	return step{name: name}, text[end:], nil
}

func isNameRune(r rune) bool {
	return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// cutQuoted cuts a JSON string and a closing bracket.
func cutQuoted(text string) (step, string, error) {
	end := 1
	for end < len(text) && text[end] != '"' {
		if text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(text) {
		return step{}, "", errors.New("has a quote that is not closed")
	}
	var name string
	if json.Unmarshal([]byte(text[:end+1]), &name) != nil {
		return step{}, "", fmt.Errorf("has %s, which is not a JSON string", text[:end+1])
	}
	rest, ok := strings.CutPrefix(text[end+1:], "]")
	if !ok {
		return step{}, "", errors.New("has a bracket that is not closed behind a quote")
	}
	return step{name: name}, rest, nil
}

func cutIndex(text string) (step, string, error) {
	digits, rest, ok := strings.Cut(text, "]")
	if !ok {
		return step{}, "", errors.New("has a bracket that is not closed")
	}
	n, err := strconv.Atoi(digits)
	if err != nil || strconv.Itoa(n) != digits || n > maxIndex || n < -maxIndex {
		return step{}, "", fmt.Errorf(`has [%s]: in brackets is a number, or a name in quotes as in ["a b"]`, digits)
	}
	return step{index: n, isIndex: true}, rest, nil
}

func firstRune(s string) string {
	for _, r := range s {
		return string(r)
	}
	return ""
}

// jsonValue returns the value at a path of the payload, nil if there is none.
func jsonValue(m *Message, path []step) (Value, error) {
	doc, err := m.json()
	if err != nil {
		return nil, err
	}
	for _, s := range path {
		if doc = s.find(doc); !doc.Exists() {
			return nil, nil
		}
	}
	return valueOf(doc)
}

// find returns the part of a valid document at a step. Of duplicate members the last counts.
func (s step) find(doc gjson.Result) (found gjson.Result) {
	switch {
	case s.isIndex && doc.IsArray():
		return element(doc, s.index)
	case !s.isIndex && doc.IsObject():
		doc.ForEach(func(name, value gjson.Result) bool {
			if name.Str == s.name {
				found = value
			}
			return true
		})
	}
	return found
}

func element(list gjson.Result, index int) (found gjson.Result) {
	if index < 0 {
		length := 0
		list.ForEach(func(_, _ gjson.Result) bool { length++; return true })
		if index += length; index < 0 {
			return found
		}
	}
	list.ForEach(func(_, value gjson.Result) bool {
		if index == 0 {
			found = value
		}
		index--
		return index >= 0
	})
	return found
}

// valueOf returns a part of a valid document as a Value. Integers that fit an int64 are exact.
func valueOf(doc gjson.Result) (Value, error) {
	switch doc.Type {
	case gjson.Null:
		return nil, nil
	case gjson.True, gjson.False:
		return doc.Type == gjson.True, nil
	case gjson.String:
		return strings.ToValidUTF8(doc.Str, "\ufffd"), nil
	case gjson.Number:
		return numberOf(strings.TrimSpace(doc.Raw))
	}
	return json.RawMessage(strings.TrimSpace(doc.Raw)), nil
}

func numberOf(text string) (Value, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, &Unfit{"the payload has a number that is too large"}
	}
	return f, nil
}
