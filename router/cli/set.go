package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// step is a part of a path to a value: the name of a member, or the index of an entry.
type step struct {
	name  string
	index int // if name is ""
}

const (
	maxSteps = 32
	maxIndex = 999
)

// parsePath parses a path such as "nodes[0].address". A backslash before a dot, a bracket
// or a backslash makes it a part of the name.
func parsePath(text string) (path []step, err error) {
	for len(text) > 0 {
		var s step
		if text[0] == '[' {
			s, text, err = parseIndex(text)
		} else {
			s, text, err = parseName(text, len(path) > 0)
		}
		if err != nil {
			return nil, err
		}
		if path = append(path, s); len(path) > maxSteps {
			return nil, errors.New("the path has too many parts")
		}
	}
	if len(path) == 0 || path[0].name == "" {
		return nil, errors.New("a path begins with the name of a member")
	}
	return path, nil
}

func parseIndex(text string) (s step, rest string, err error) {
	digits, rest, found := strings.Cut(text[1:], "]")
	n, err := strconv.Atoi(digits)
	if !found || err != nil || n < 0 || n > maxIndex || strings.HasPrefix(digits, "+") {
		return step{}, "", fmt.Errorf("an index is a number of at most %d in brackets, as in nodes[0]", maxIndex)
	}
	return step{index: n}, rest, nil
}

func parseName(text string, further bool) (s step, rest string, err error) {
	if further {
		if text[0] != '.' {
			return step{}, "", errors.New("a dot must stand between two names")
		}
		text = text[1:]
	}
	var b strings.Builder
	i := 0
	for ; i < len(text) && text[i] != '.' && text[i] != '['; i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		b.WriteByte(text[i])
	}
	if b.Len() == 0 {
		return step{}, "", errors.New("a name in the path is empty")
	}
	return step{name: b.String()}, text[i:], nil
}

// parseSet parses an argument of --set, "PATH=VALUE". A value that is JSON is used as
// such, any other is a text.
func parseSet(argument string) (path []step, value any, err error) {
	name, text, found := cutUnescaped(argument)
	if !found {
		return nil, nil, fmt.Errorf("--set %s: must be PATH=VALUE", name)
	}
	if path, err = parsePath(name); err != nil {
		return nil, nil, fmt.Errorf("--set %s: %w", name, err)
	}
	value = jsonOrText(text)
	if member := lastName(path); namesSecret(member) || holdsSecret(value) {
		return nil, nil, fmt.Errorf("--set %s: a secret must not be an argument, which all users of the machine can read; give the body with -f", name)
	}
	return path, value, nil
}

// cutUnescaped cuts at the first equals sign that no backslash precedes.
func cutUnescaped(text string) (before, after string, found bool) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '=':
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

// jsonOrText returns the value of a JSON text, or the text itself.
func jsonOrText(text string) any {
	if v, err := decodeJSON([]byte(text)); err == nil {
		return v
	}
	return text
}

func lastName(path []step) (name string) {
	for _, s := range path {
		if s.name != "" {
			name = s.name
		}
	}
	return name
}

// namesSecret reports whether the name of a member stands for a secret, also in the
// configurations of bridges.
func namesSecret(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"password", "secret", "token", "client_key", "clientkey", "privatekey", "private_key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// holdsSecret reports whether a value has a member that is a secret.
func holdsSecret(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if namesSecret(name) && inner != nil || holdsSecret(inner) {
				return true
			}
		}
	case []any:
		for _, inner := range v {
			if holdsSecret(inner) {
				return true
			}
		}
	}
	return false
}

// setAt returns target with the value at path, whose objects and lists it creates where
// they do not exist.
func setAt(target any, path []step, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	s := path[0]
	if s.name != "" {
		object, ok := target.(map[string]any)
		if !ok && target != nil {
			return nil, fmt.Errorf("%s is a member of a value that is not an object", s.name)
		}
		if object == nil {
			object = map[string]any{}
		}
		inner, err := setAt(object[s.name], path[1:], value)
		object[s.name] = inner
		return object, err
	}
	list, ok := target.([]any)
	if !ok && target != nil {
		return nil, fmt.Errorf("[%d] is an entry of a value that is not a list", s.index)
	}
	if s.index > len(list) {
		return nil, fmt.Errorf("[%d] leaves a gap in a list of %d", s.index, len(list))
	}
	if s.index == len(list) {
		list = append(list, nil)
	}
	inner, err := setAt(list[s.index], path[1:], value)
	list[s.index] = inner
	return list, err
}

// decodeJSON decodes one JSON value; numbers keep their text.
func decodeJSON(text []byte) (value any, err error) {
	if !json.Valid(text) {
		return nil, errors.New("is not JSON")
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	err = d.Decode(&value)
	return value, err
}
