package console

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// form is a form of a page, as the template "form" writes it.
type form struct {
	ID      string // of the element, "" for none
	Do      string // value of the field "do", which selects the action
	Submit  string // text of the button
	Danger  bool   // the button deletes something
	Fields  []field
	Upload  bool   // has a field for a file
	Confirm string // a name that must be typed, "" for none
	Cancel  string // link back, "" for none
	Part    string // fragment that a script shows of the response, keeping the form; "" for all
	Also    []button
	Partial bool // the button needs no required field
	Fold    fold
}

// fold is the part of a form that is closed until it is opened, or until it has something.
type fold struct {
	Title string // "" for none
	First string // name of its first field; it ends with the form
	On    string // name of a checkbox that is checked unless it was changed, "" for none
	Open  bool   // whatever it has
}

// IsFoldOpen reports whether the part has values, changed checkboxes or errors.
func (f form) IsFoldOpen() bool {
	first := slices.IndexFunc(f.Fields, func(field field) bool { return field.Name == f.Fold.First })
	return f.Fold.Open || slices.ContainsFunc(f.Fields[max(first, 0):], func(e field) bool {
		return e.Kind != kindCheckbox && e.Value != "" || e.Checked != (e.Name == f.Fold.On) || e.Error != ""
	})
}

// button is a further button of a form, for another action of the page. With a part, a
// script shows only that fragment of the response, and the form keeps what was typed.
type button struct {
	Do, Text, Part string
	Partial        bool // needs no required field
}

// The kinds of fields.
const (
	kindText     = "text"
	kindPassword = "password"
	kindNumber   = "number"
	kindLong     = "long"  // several lines of text
	kindLines    = "lines" // an array of strings, one per line
	kindSelect   = "select"
	kindChecks   = "checks" // an array of strings, each of which is an option that is checked
	kindCheckbox = "checkbox"
	kindFile     = "file" // its content, as text
	kindHidden   = "hidden"
	kindTime     = "datetime-local" // in UTC
)

// field is a field of a form. Its name is the path of the member in the operation's
// body, with slashes: "acls/0/topic".
type field struct {
	Name         string
	Kind         string
	Label        string
	About        string // what the field is for, in the words of the API
	English      bool   // the label is English, whatever the language
	Hint         string
	Value        string
	Error        string
	Required     bool
	Secret       bool // the value is never shown
	Checked      bool
	Options      []option
	Chosen       []string // those that are checked
	Min, Max     string
	AsText       bool   // a number whose field takes any text: one of type number sends "" for what is none
	Step         string // between values, "" for the default of the browser
	Autocomplete string
	Suggest      string // id of a data list
	Part         string // name of the fragment that the field is, "" for none
	Focus        bool   // takes the focus when the page is shown
	Unsent       bool   // is no member of the operation's body
	form         string // value of "do" of its form
}

// option is a choice of a select field.
type option struct{ Value, Text string }

// ID returns the id of the input. It is unique also on a page with several forms.
func (f field) ID() string {
	id := idEscapes.ReplaceAllStringFunc(strings.ReplaceAll(f.Name, "/", "-"), func(s string) string { return fmt.Sprintf("_%x", s) })
	if f.form != "" {
		return "f-" + f.form + "-" + id
	}
	return "f-" + id
}

// MustChoose reports whether the first choice is the request to choose, and an empty one is refused.
func (f field) MustChoose() bool {
	return f.Required && len(f.Options) > 0 && f.Options[0].Value == ""
}

// maxShort bounds the text of an option that a narrow field shows whole, in bytes.
const maxShort = 30

// IsLong reports whether a field may cut off the text of the option.
func (o option) IsLong() bool { return len(o.Text) > maxShort }

// IsChosen reports whether an option is checked.
func (f field) IsChosen(value string) bool { return slices.Contains(f.Chosen, value) }

// Field returns the field with a name, nil if the form has none.
func (f form) Field(name string) *field {
	for i := range f.Fields {
		if f.Fields[i].Name == name {
			return &f.Fields[i]
		}
	}
	return nil
}

// label returns the label of the field with a name, "" if the form has none.
func (f form) label(name string) string {
	if field := f.Field(name); field != nil {
		return field.Label
	}
	return ""
}

// idEscapes matches what ids must not have, or should not in references to them.
var idEscapes = regexp.MustCompile(`[^A-Za-z0-9-]+`)

// newForm returns a form with the posted values and the errors of the failed action, if
// the form was posted. The labels of fields that have none are the texts "field.NAME".
func (q *request) newForm(do, submit string, fields ...field) form {
	return q.fillForm(q.http.PostForm != nil, do, submit, fields)
}

// newFormOf is newForm for a page with several forms: only the one that was posted has
// posted values.
func (q *request) newFormOf(do, submit string, fields ...field) form {
	return q.fillForm(q.http.PostForm != nil && q.posted("do") == do, do, submit, fields)
}

func (q *request) fillForm(posted bool, do, submit string, fields []field) form {
	for i := range fields {
		f := &fields[i]
		f.form = do
		if f.Label == "" && f.Kind != kindHidden {
			f.Label = q.t("field." + strings.ToLower(f.Name))
		}
		if hint := "hint." + strings.ToLower(f.Name); f.Hint == "" && q.lang.has(hint) {
			f.Hint = q.t(hint)
		}
		if !posted {
			continue
		}
		f.Error = q.failure.Field(f.Name)
		if f.Kind != kindPassword && !f.Secret {
			f.Value, f.Checked, f.Chosen = q.posted(f.Name), q.posted(f.Name) == "true", q.http.PostForm[f.Name]
		}
	}
	f := form{Do: do, Submit: q.t(submit), Fields: fields}
	for i := range fields {
		fields[i].Error = inFormTerms(fields[i].Error, f.label)
	}
	return f
}

// body returns the members of an operation's body from the posted form. An empty text of
// an optional field is absent, so that the operation's default applies, unless keep names
// it: then it is sent as "".
func (f form) body(posted url.Values, keep ...string) map[string]any {
	root := map[string]any{}
	for _, field := range f.Fields {
		if field.Unsent {
			continue
		}
		if v, ok := field.value(posted, slices.Contains(keep, field.Name)); ok {
			put(root, strings.Split(field.Name, "/"), v)
		}
	}
	return root
}

// value returns the member for the posted value, and whether it is sent at all. A number
// that is none is sent as text: the operation names it in its error.
func (f field) value(posted url.Values, keep bool) (any, bool) {
	text := strings.ReplaceAll(posted.Get(f.Name), "\r\n", "\n")
	switch f.Kind {
	case kindCheckbox:
		return text == "true", true
	case kindLines:
		return lines(text), true
	case kindChecks:
		return append([]string{}, posted[f.Name]...), true
	case kindNumber:
		if text == "" {
			return nil, false
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, true
		}
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return json.Number(strconv.FormatFloat(n, 'g', -1, 64)), true
		}
	}
	return text, text != "" || f.Required || keep
}

// lines returns the lines that are not empty.
func lines(text string) []string {
	list := []string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// put sets the member at a path. Numbers in the path are indexes of arrays; an entry that
// has no field is an empty object.
func put(into map[string]any, path []string, v any) {
	if len(path) == 1 {
		into[path[0]] = v
		return
	}
	if _, err := strconv.Atoi(path[1]); err == nil {
		list, _ := into[path[0]].([]any)
		into[path[0]] = putAt(list, path[1:], v)
		return
	}
	inner, ok := into[path[0]].(map[string]any)
	if !ok {
		inner = map[string]any{}
		into[path[0]] = inner
	}
	put(inner, path[1:], v)
}

// maxItems bounds the arrays of a form.
const maxItems = 1000

func putAt(list []any, path []string, v any) []any {
	i, err := strconv.Atoi(path[0])
	if err != nil || i < 0 || i >= maxItems {
		return list
	}
	for len(list) <= i {
		list = append(list, map[string]any{})
	}
	if len(path) == 1 {
		list[i] = v
		return list
	}
	inner, ok := list[i].(map[string]any)
	if !ok {
		inner = map[string]any{}
	}
	put(inner, path[1:], v)
	list[i] = inner
	return list
}

// repeatedField returns the field in which a new password is typed again.
func (q *request) repeatedField(required bool) field {
	return field{Name: "repeated", Kind: kindPassword, Label: q.t("access.password.repeat"), Autocomplete: "new-password", Required: required, Unsent: true}
}

// checkRepeated returns an error unless the password in a field was typed twice. A caller
// that sends no repetition has no form.
func (q *request) checkRepeated(name string) error {
	if q.http.PostForm.Has("repeated") && q.posted(name) != q.posted("repeated") {
		return q.invalid("repeated", q.t("access.password.differs"))
	}
	return nil
}
