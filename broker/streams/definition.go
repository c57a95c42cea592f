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

// The bounds of a definition.
const (
	maxName  = 255         // bytes
	maxText  = 64 << 10    // bytes
	maxQuery = 256 << 10   // bytes
	maxTTL   = 315_360_000 // seconds: ten years of 365 days
)

// noQuery is the query that changes nothing.
const noQuery = "{}"

// define gives the definition that a wish makes of an old one, nil for none, and
// its query. With replace, what the wish does not give falls to its default;
// otherwise it stays. The name of a stream never changes. The error is a
// [*broker.Error] of kind Invalid with every member that cannot be used.
func define(old *Definition, spec broker.StreamSpec, replace bool) (Definition, *query.Query, error) {
	op, d := opCreate, fresh(0, spec.StreamName)
	if old != nil {
		op, d = opModify, *old
		d.Replaying, d.Replay, d.Stats = false, nil, nil // they are not part of a definition
		if replace {
			d = fresh(old.ID, old.StreamName)
		}
	}
	d.take(spec)
	q, flaws := compile(d.Query, spec.Query != nil && (old == nil || !bytes.Equal(compact(spec.Query), old.Query)))
	flaws = append(d.flaws(), flaws...)
	if len(flaws) > 0 {
		return Definition{}, nil, refuse(op, flaws)
	}
	d.Query = compact(d.Query)
	if spec.Process == nil && (old == nil || replace) {
		d.Process = !q.Empty()
	}
	return d, q, nil
}

// fresh gives a definition of which all members but one have their defaults;
// that of process depends on the query.
func fresh(id int64, name string) Definition {
	return Definition{ID: id, Stream: broker.Stream{
		StreamName: name, TargetQoS: -1, Active: true, Query: json.RawMessage(noQuery),
	}}
}

// take takes over what a wish gives.
func (d *Definition) take(spec broker.StreamSpec) {
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

// set sets a member to what is given, nil for nothing.
func set[T any](member, given *T) {
	if given != nil {
		*member = *given
	}
}

// compile compiles a query, or returns everything that is wrong with it. A new one
// must hold no unknown members; in one that is stored they have always been ignored.
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
	flaws := make([]broker.Field, 0, len(problems))
	for _, p := range problems {
		flaws = append(flaws, broker.Field{Path: strings.TrimSuffix("query."+p.Path, "."), Msg: p.Msg})
	}
	return nil, flaws
}

// compact gives a query that was compiled in the form in which it is stored:
// without white space, and as an object where it is none.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil || b.String() == "null" {
		return json.RawMessage(noQuery)
	}
	return b.Bytes()
}

// flaws tells what is wrong with a definition but for its query.
func (d *Definition) flaws() []broker.Field {
	var found flaws
	found.check("streamname", nameFlaw(d.StreamName))
	found.check("sourcetopic", sourceFlaw(d.SourceTopic))
	if d.TargetTopic != "" {
		found.check("targettopic", topicFlaw(d.TargetTopic))
	}
	if d.TargetQoS < -1 || d.TargetQoS > 2 {
		found.check("targetqos", "must be -1, 0, 1 or 2")
	}
	if d.TTL < 0 || d.TTL > maxTTL {
		found.check("ttl", fmt.Sprintf("must be from 0 to %d seconds", maxTTL))
	}
	found.check("textname", textFlaw(d.TextName))
	found.check("textdescription", textFlaw(d.TextDescription))
	found.check("key", textFlaw(d.Key))
	return found
}

// flaws collects the arguments that cannot be used.
type flaws []broker.Field

// check adds an argument if something is wrong with it.
func (f *flaws) check(path, flaw string) {
	if flaw != "" {
		*f = append(*f, broker.Field{Path: path, Msg: flaw})
	}
}

func nameFlaw(s string) string {
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

func sourceFlaw(s string) string {
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

func topicFlaw(s string) string {
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

func textFlaw(s string) string {
	switch {
	case len(s) > maxText:
		return fmt.Sprintf("must not be longer than %d bytes", maxText)
	case !utf8.ValidString(s):
		return "must be UTF-8"
	}
	return ""
}

// refuse gives the error for arguments that cannot be used. Its sentence names
// the first few of them.
func refuse(op string, fields []broker.Field) error {
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
