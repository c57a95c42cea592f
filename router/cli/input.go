package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"signalbox/router"
)

// input is a parameter of an operation, or a member of its body, with the texts given for
// it on the command line.
type input struct {
	in     string // inPath, inQuery or inBody
	field  router.Field
	flag   string // "" if it is given by its position
	texts  []string
	given  bool
	preset bool // given by the command itself

	file string // of a secret: the flag of the file with its value
	ask  bool
}

const (
	inPath  = "path"
	inQuery = "query"
	inBody  = "body"
)

var _ pflag.Value = (*input)(nil)

// many reports whether the flag may be repeated.
func (i *input) many() bool { return i.field.Kind == router.List }

// isPast reports whether the value is a time from which, or until which, records are asked for.
func (i *input) isPast() bool { return i.in == inQuery && i.field.Format == "date-time" }

// Set takes a value from the command line. A time may be an age, such as 12h.
func (i *input) Set(text string) error {
	if i.isPast() {
		at, err := pastTime(text)
		if err != nil {
			return err
		}
		text = at
	}
	if _, err := i.value(text); err != nil {
		return err
	}
	if !i.many() {
		i.texts = nil
	}
	i.texts, i.given, i.preset = append(i.texts, text), true, false
	return nil
}

// pastTime returns a time of the past as the API takes it. Empty text is no time.
func pastTime(text string) (string, error) {
	if age, err := time.ParseDuration(text); err == nil {
		return time.Now().UTC().Add(-age).Format(time.RFC3339), nil
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil && text != "" {
		return "", errors.New("must be a date and time, as in 2026-01-31T12:00:00Z, or an age, as in 90s, 45m or 12h")
	}
	return text, nil
}

// String returns the values.
func (i *input) String() string { return strings.Join(i.texts, ",") }

// Type returns the name of the type for the help.
func (i *input) Type() string {
	kind := i.field.Kind
	if i.many() && i.field.Elem != nil {
		if kind = i.field.Elem.Kind; nameMember(i.field.Elem) != "" {
			return "name"
		}
	}
	switch kind {
	case router.Boolean:
		return "bool"
	case router.Integer, router.Number:
		return "number"
	case router.Text, router.Choice:
		return "text"
	}
	return "json"
}

// nameMember returns the only required member of an object if it is a text: an entry of a
// list is then given by its name, as in --role sensor. Otherwise it returns "".
func nameMember(s *router.Schema) string {
	name := ""
	for _, m := range s.Members {
		if !m.Required {
			continue
		}
		if name != "" || m.Kind != router.Text {
			return ""
		}
		name = m.Name
	}
	return name
}

// value returns the JSON value of one text.
func (i *input) value(text string) (any, error) {
	if !i.many() {
		return valueOf(&i.field.Schema, text)
	}
	if name := nameMember(i.field.Elem); name != "" && !strings.HasPrefix(text, "{") {
		return map[string]any{name: text}, nil
	}
	return valueOf(i.field.Elem, text)
}

// valueOf returns the value of a schema from a text.
func valueOf(s *router.Schema, text string) (any, error) {
	switch s.Kind {
	case router.Text:
		return text, nil
	case router.Boolean:
		if text != "true" && text != "false" {
			return nil, errors.New("must be true or false")
		}
		return text == "true", nil
	case router.Integer, router.Number:
		v, err := decodeJSON([]byte(text))
		if _, ok := v.(json.Number); err != nil || !ok {
			return nil, errors.New("must be a number")
		}
		return v, nil
	case router.Choice:
		if v, ok := jsonOrText(text).(json.Number); ok && slices.ContainsFunc(s.Choices, func(c router.Schema) bool { return c.Kind == router.Number }) {
			return v, nil
		}
		return text, nil
	}
	v, err := decodeJSON([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("must be JSON, as in %s", example(s))
	}
	return v, nil
}

// example returns the form of a value for a message.
func example(s *router.Schema) string {
	if s.Kind == router.List {
		return `["..."]`
	}
	for _, m := range s.Members {
		return fmt.Sprintf(`{"%s":...}`, m.Name)
	}
	return `{"name":"value"}`
}

// whole returns the value of all texts. One empty text is an empty list.
func (i *input) whole() (any, error) {
	if !i.many() {
		return i.value(i.texts[0])
	}
	list := []any{}
	if len(i.texts) == 1 && i.texts[0] == "" {
		return list, nil
	}
	for _, text := range i.texts {
		v, err := i.value(text)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// usage returns the help of the flag.
func (i *input) usage() string {
	text := strings.ReplaceAll(i.field.Doc, "`", "'")
	if i.in == inPath && i.flag != "" {
		text = "Name or id of the " + i.flag + "; of the context or the only one by default."
	}
	if n := len(i.field.Enum); n > 0 {
		text += " One of: " + strings.Trim(strings.Join(i.field.Enum, ", "), ", ") + "."
	}
	if i.isPast() {
		text = strings.TrimSuffix(text, ".") + ", or an age, such as 12h."
	}
	if i.many() {
		text += " May be repeated."
	}
	if i.field.Default != "" && !strings.Contains(i.field.Doc, "default") {
		text += " Default: " + i.field.Default + "."
	}
	if i.field.Required && i.field.Default == "" && i.flag != "" && !i.preset {
		text += " Required."
	}
	return text
}

// placeholder returns the name of an argument in the help.
func (i *input) placeholder() string {
	name := strings.ToUpper(kebab(strings.TrimSuffix(i.field.Name, "Id")))
	if i.many() {
		name += "..."
	}
	return name
}

// flagName returns the name of the flag: in the singular if it may be repeated.
func flagName(f router.Field) string {
	name := kebab(f.Name)
	if f.Kind == router.List {
		return singular(name)
	}
	return strings.TrimSuffix(name, "-id")
}
