package streams

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"signalbox/broker"
	"signalbox/broker/streams/query"
)

// Limits of a definition.
const (
	maxName  = 255         // bytes
	maxText  = 64 << 10    // bytes
	maxQuery = 256 << 10   // bytes
	maxTTL   = 315_360_000 // seconds: ten years of 365 days
)

// noQuery is the empty query.
const noQuery = "{}"

// define returns the definition that results from a spec, and its query. If old
// is not nil, it is modified: with replace, members that the spec lacks get
// their defaults; otherwise they stay. The name of a stream never changes. The
// error of the operation op is a [*broker.Error] of kind Invalid with every member that is not
// valid.
func define(op string, old *Definition, spec broker.StreamSpec, replace bool) (Definition, *query.Query, error) {
	d := defaultDefinition(0, spec.StreamName)
	if old != nil {
		d = *old
		d.Replaying, d.Replay, d.Stats = false, nil, nil // they are not stored
		if replace {
			d = defaultDefinition(old.ID, old.StreamName)
			d.Rev, d.UID = old.Rev, old.UID
		}
	}
	d.apply(spec)
	q, fields := compile(d.Query, spec.Query != nil && (old == nil || !bytes.Equal(compact(spec.Query), old.Query)))
	fields = append(d.check(), fields...)
	if len(fields) > 0 {
		return Definition{}, nil, invalid(op, fields)
	}
	d.Query = compact(d.Query)
	if spec.Process == nil && (old == nil || replace) {
		d.Process = !q.Empty()
	}
	return d, q, nil
}

// defaultDefinition returns a definition with defaults. The default of Process
// depends on the query and is not set.
func defaultDefinition(id int64, name string) Definition {
	return Definition{ID: id, Stream: broker.Stream{
		StreamName: name, TargetQoS: -1, Active: true, Query: json.RawMessage(noQuery),
	}}
}

// apply sets the members that a spec has.
func (d *Definition) apply(spec broker.StreamSpec) {
	set(&d.SourceTopic, spec.SourceTopic)
	set(&d.TargetTopic, spec.TargetTopic)
	set(&d.TargetQoS, spec.TargetQoS)
	set(&d.TTL, spec.TTL)
	set(&d.Key, spec.Key)
	set(&d.TextName, spec.TextName)
	set(&d.TextDescription, spec.TextDescription)
	set(&d.Active, spec.Active)
	set(&d.Process, spec.Process)
	set(&d.Persist, spec.Persist)
	if spec.Query != nil {
		d.Query = spec.Query
	}
}

// set sets a member unless the given value is nil.
func set[T any](member, given *T) {
	if given != nil {
		*member = *given
	}
}

// compile compiles a query, or returns everything that is wrong with it. A new
// query must not have unknown members; in a stored one they have always been
// ignored.
func compile(raw json.RawMessage, isNew bool) (*query.Query, []broker.Field) {
	if len(raw) > maxQuery {
		return nil, []broker.Field{{Path: "query", Msg: fmt.Sprintf("must not be longer than %d bytes", maxQuery)}}
	}
	if !utf8.Valid(raw) {
		return nil, []broker.Field{{Path: "query", Msg: "must be UTF-8"}}
	}
	read := query.Compile
	if isNew {
		read = query.CompileStrict
	}
	q, err := read(raw)
	if err == nil {
		return q, nil
	}
	problems, ok := errors.AsType[query.Problems](err)
	if !ok {
		return nil, []broker.Field{{Path: "query", Msg: "cannot be used"}}
	}
	fields := make([]broker.Field, 0, len(problems))
	for _, p := range problems {
		fields = append(fields, broker.Field{Path: strings.TrimSuffix("query."+p.Path, "."), Msg: p.Msg})
	}
	return nil, fields
}

// compact returns the stored form of a valid query: without whitespace, and an
// object even if it is null or missing.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil || b.String() == "null" {
		return json.RawMessage(noQuery)
	}
	return b.Bytes()
}

// check returns the problems of a definition, except those of its query.
func (d *Definition) check() []broker.Field {
	var errs fieldErrors
	errs.add("streamname", checkName(d.StreamName))
	errs.add("sourcetopic", checkSource(d.SourceTopic))
	if d.TargetTopic != "" {
		errs.add("targettopic", checkTopic(d.TargetTopic))
	}
	if d.TargetQoS < -1 || d.TargetQoS > 2 {
		errs.add("targetqos", "must be -1, 0, 1 or 2")
	}
	if d.TTL < 0 || d.TTL > maxTTL {
		errs.add("ttl", fmt.Sprintf("must be from 0 to %d seconds", maxTTL))
	}
	errs.add("textname", checkText(d.TextName))
	errs.add("textdescription", checkText(d.TextDescription))
	errs.add("key", checkText(d.Key))
	return errs
}

// fieldErrors are the arguments that are not valid.
type fieldErrors []broker.Field

// add adds an argument unless the problem is empty.
func (f *fieldErrors) add(path, problem string) {
	if problem != "" {
		*f = append(*f, broker.Field{Path: path, Msg: problem})
	}
}

func checkName(s string) string {
	switch {
	case s == "":
		return "must be given"
	case len(s) > maxName:
		return fmt.Sprintf("must not be longer than %d bytes", maxName)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return "must be UTF-8 without control characters"
	}
	return ""
}

func checkSource(s string) string {
	switch {
	case s == "":
		return "must be given"
	case s[0] == '$':
		return `must not begin with "$"`
	case !broker.ValidFilter(s):
		return "must be a topic filter"
	}
	return ""
}

func checkTopic(s string) string {
	switch {
	case s == "":
		return "must be given"
	case s[0] == '$':
		return `must not begin with "$"`
	case !broker.ValidTopic(s):
		return "must be a topic without wildcards"
	}
	return ""
}

func checkText(s string) string {
	switch {
	case len(s) > maxText:
		return fmt.Sprintf("must not be longer than %d bytes", maxText)
	case !utf8.ValidString(s):
		return "must be UTF-8"
	}
	return ""
}

// invalid returns the error for invalid arguments. Its text lists the first few
// of them.
func invalid(op string, fields []broker.Field) error {
	const most = 3
	var parts []string
	for _, f := range fields[:min(len(fields), most)] {
		parts = append(parts, f.Path+": "+f.Msg)
	}
	if more := len(fields) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return &broker.Error{Kind: broker.Invalid, Op: op, Fields: fields, Msg: strings.Join(parts, "; ")}
}
