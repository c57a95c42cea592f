package console

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// queryFields is the query of a stream as fields: a row for each select, and the one
// condition.
type queryFields struct {
	Selects   []selectRow
	Condition conditionRow
}

// selectRow is a select as its row has it.
type selectRow struct {
	Source   string
	Whole    bool   // the source is the whole payload, which is an empty path
	Function string // "" copies the value
	Size     string // of the interval of time_bucket, in seconds
	Offset   string // as above
	Target   string
	Alias    string
}

// conditionRow is the condition. There is none if neither Left nor Operator is given.
type conditionRow struct{ Left, Operator, Kind, Right string }

// The kinds of the right side of a condition.
const (
	rightNumber  = "number"
	rightText    = "text"
	rightBoolean = "boolean"
)

// selectFunctions and whereOperators are the choices of the fields.
var (
	selectFunctions = []string{"min", "max", "sum", "count", "time_bucket"}
	whereOperators  = []string{"==", "!=", ">", "<", ">=", "<="}
)

// The query as JSON.
type (
	queryJSON struct {
		Select []selectJSON    `json:"select,omitempty"`
		Where  []conditionJSON `json:"where,omitempty"`
	}
	selectJSON struct {
		Source   *string       `json:"source,omitempty"`
		Function *functionJSON `json:"function,omitempty"`
		Target   string        `json:"target,omitempty"`
		Alias    string        `json:"alias,omitempty"`
	}
	functionJSON struct {
		Name   string          `json:"name"`
		Size   json.RawMessage `json:"intervalsize,omitempty"`
		Offset json.RawMessage `json:"intervaloffset,omitempty"`
	}
	conditionJSON struct {
		Left     string          `json:"left"`
		Operator string          `json:"operator"`
		Right    json.RawMessage `json:"right,omitempty"`
	}
)

// format returns the query as JSON.
func (f queryFields) format() string {
	q := queryJSON{}
	for _, r := range f.Selects {
		q.Select = append(q.Select, r.format())
	}
	if c := f.Condition; c.Left != "" || c.Operator != "" {
		q.Where = []conditionJSON{{c.Left, c.Operator, c.right()}}
	}
	return indented(writeJSON(q))
}

func (r selectRow) format() selectJSON {
	s := selectJSON{Target: r.Target, Alias: r.Alias}
	if r.Whole || r.Source != "" {
		s.Source = &r.Source
	}
	if r.Function != "" || r.Size != "" || r.Offset != "" {
		s.Function = &functionJSON{r.Function, numberJSON(r.Size), numberJSON(r.Offset)}
	}
	return s
}

// numberJSON returns a number as it is written; as a string if it is none, which the
// operation names in its error.
func numberJSON(text string) json.RawMessage {
	if text == "" || isNumber(text) {
		return json.RawMessage(text)
	}
	return writeJSON(text)
}

// isNumber reports whether a text is a number of JSON.
func isNumber(text string) bool {
	return json.Valid([]byte(text)) && strings.Trim(text[:1], "-0123456789") == "" && strings.TrimSpace(text) == text
}

// right returns the right side as JSON. What is not of its kind is a string, see wrong.
func (c conditionRow) right() json.RawMessage {
	switch {
	case c.Kind == rightNumber && c.Right == "":
		return nil
	case c.wrong() || c.Kind == rightText:
		return writeJSON(c.Right)
	}
	return json.RawMessage(c.Right)
}

// wrong reports whether the right side is not of its kind, so that the comparison would
// silently be another one.
func (c conditionRow) wrong() bool {
	switch c.Kind {
	case rightNumber:
		return c.Right != "" && !isNumber(c.Right)
	case rightBoolean:
		return c.Right != "true" && c.Right != "false"
	}
	return c.Kind != rightText
}

// parseQuery returns a query as fields, and reports whether these say the same: that which
// they cannot show, such as a member that is misspelt, is only in the JSON.
func parseQuery(text string) (queryFields, bool) {
	var q queryJSON
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	if json.Unmarshal([]byte(text), &q) != nil || len(q.Where) > 1 || len(q.Select) > maxSelectRows {
		return queryFields{}, false
	}
	f := queryFields{Condition: conditionRow{Kind: rightNumber}}
	for _, s := range q.Select {
		f.Selects = append(f.Selects, s.row())
	}
	if len(q.Where) == 1 {
		f.Condition = q.Where[0].row()
	}
	return f, sameQuery(text, f.format())
}

func (s selectJSON) row() selectRow {
	r := selectRow{Target: s.Target, Alias: s.Alias}
	if s.Source != nil {
		r.Source, r.Whole = *s.Source, *s.Source == ""
	}
	if s.Function != nil {
		r.Function, r.Size, r.Offset = s.Function.Name, string(s.Function.Size), string(s.Function.Offset)
	}
	return r
}

func (c conditionJSON) row() conditionRow {
	r := conditionRow{Left: c.Left, Operator: c.Operator, Kind: rightNumber, Right: string(c.Right)}
	switch {
	case r.Right == "true" || r.Right == "false":
		r.Kind = rightBoolean
	case strings.HasPrefix(r.Right, `"`):
		r.Kind = rightText
		json.Unmarshal(c.Right, &r.Right) //nolint:errcheck // it was parsed before
	}
	return r
}

// sameQuery reports whether two queries are the same but for members whose absence means
// the same.
func sameQuery(a, b string) bool {
	x, errX := decodeQuery(a)
	y, errY := decodeQuery(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func decodeQuery(text string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&v); v == nil {
		v = map[string]any{}
	}
	return withoutAbsent(v), err
}

// optionalMembers are the members of a query that may be null. Others that are null are
// mistakes, which must not vanish.
var optionalMembers = []string{"select", "where", "source", "target", "alias", "function", "intervalsize", "intervaloffset"}

// withoutAbsent removes optional members that are null, empty lists of selects or
// conditions, and a target that is "".
func withoutAbsent(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutAbsent(v[i])
		}
	case map[string]any:
		for name, member := range v {
			list, isList := member.([]any)
			switch {
			case member == nil && slices.Contains(optionalMembers, name),
				isList && len(list) == 0 && (name == "select" || name == "where"), name == "target" && member == "":
				delete(v, name)
			default:
				v[name] = withoutAbsent(member)
			}
		}
	}
	return v
}

// maxSelectRows bounds the selects that are edited in fields; more are edited as JSON.
const maxSelectRows = 24

// move moves a select to the place before or after it.
func (f *queryFields) move(i, by int) {
	if j := i + by; i >= 0 && i < len(f.Selects) && j >= 0 && j < len(f.Selects) {
		f.Selects[i], f.Selects[j] = f.Selects[j], f.Selects[i]
	}
}

// remove removes a select.
func (f *queryFields) remove(i int) {
	if i >= 0 && i < len(f.Selects) {
		f.Selects = slices.Delete(f.Selects, i, i+1)
	}
}
