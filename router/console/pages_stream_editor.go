package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// streamEditorView is the editor of a stream. The draft stands in the posted form only, so
// that the editor works without scripts and in several tabs.
type streamEditorView struct {
	frame
	IsNew     bool
	Draft     streamDraft
	From      form // name, source and target
	To        form // what happens to the results
	Mistakes  []fieldError
	Functions []option
	Operators []option
	Kinds     []option
	Full      bool // no more selects fit
	Samples   []streamSample
	Sampled   bool   // the preview was asked for
	Followed  bool   // by a script
	Events    string // link to the stream of messages
	Cancel    string
}

// streamDraft is the query and the sample message as the editor has them.
type streamDraft struct {
	Query   queryFields
	AsJSON  bool
	JSON    string
	Process bool
	Sample  sampleMessage
}

// sampleMessage is a message of the preview, as the API takes it.
type sampleMessage struct {
	Topic     string `json:"topic"`
	Payload   string `json:"payload"`
	Encoding  string `json:"encoding,omitempty"`
	QoS       int    `json:"qos"`
	At        int64  `json:"at,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

// streamOutcome is what the stream does with a message, as the API returns it.
type streamOutcome struct {
	Result    string `json:"result"`
	Cause     string `json:"cause"`
	Path      string `json:"path"`
	Payload   string `json:"payload"`
	Encoding  string `json:"encoding"`
	Truncated bool   `json:"truncated"`
	Topic     string `json:"topic"`
	QoS       int    `json:"qos"`
	Stored    bool   `json:"stored"`
}

// streamSample is a message with its outcome.
type streamSample struct {
	sampleMessage
	Outcome streamOutcome
	Why     string // the words for the cause
	Cut     bool   // the message is too long for the preview
}

// Good reports whether the message has a result.
func (s streamSample) Good() bool { return s.Outcome.Result == "passed" }

func (q *request) isNewStream() bool { return q.page.name == "stream-new" }

func viewStreamEditor(q *request) (view, error) {
	v := &streamEditorView{IsNew: q.isNewStream(), Events: q.brokerAPI("messages/events"), Cancel: q.linkInBroker("streams")}
	isPosted := q.http.PostForm != nil
	saved := streamRecord{Active: true, Process: true, TargetQoS: -1}
	if !v.IsNew {
		saved = streamRecord{Name: q.query.Get("streamname")}
		if !isPosted { // what was posted takes the place of all that is saved
			if err := q.get("getStream", q.streamQuery(), &saved); err != nil {
				return nil, err
			}
		}
		v.Title, v.Cancel = q.t("streams.edit.of", show(saved.Name)), q.linkInBroker("streams/detail", "streamname", saved.Name)
	}
	v.From, v.To = q.streamFields(saved)
	v.Functions, v.Operators = []option{{"", q.t("query.copy")}}, []option{{"", q.t("query.no_condition")}}
	for _, name := range selectFunctions {
		v.Functions = append(v.Functions, option{name, name})
	}
	for _, operator := range whereOperators {
		v.Operators = append(v.Operators, option{operator, operator})
	}
	for _, kind := range []string{rightNumber, rightText, rightBoolean} {
		v.Kinds = append(v.Kinds, option{kind, q.t("query.kind." + kind)})
	}
	if isPosted {
		v.Draft = q.postedStream()
		v.applyStep(q)
	} else {
		v.Draft = draftOf(saved)
	}
	v.Full = len(v.Draft.Query.Selects) >= maxSelectRows
	return v, nil
}

// draftOf returns the draft of a saved stream.
func draftOf(s streamRecord) streamDraft {
	d := streamDraft{Process: s.Process, JSON: "{}", Sample: sampleMessage{Topic: strings.NewReplacer("+", "1", "#", "1").Replace(s.Source)}}
	if len(s.Query) > 0 && string(s.Query) != "null" {
		d.JSON = indented(s.Query)
	}
	fields, ok := parseQuery(d.JSON)
	d.Query, d.AsJSON = fields, !ok
	return d
}

// streamFields returns the fields around the query; the name cannot be changed once the
// stream exists.
func (q *request) streamFields(s streamRecord) (from, to form) {
	name := field{Name: "streamname", Kind: kindHidden, Value: s.Name, Required: true}
	if q.isNewStream() {
		name.Kind = kindText
	}
	qos := []option{{"-1", q.t("qos.message")}, {"0", "0"}, {"1", "1"}, {"2", "2"}}
	from = q.newForm("", "save", name,
		field{Name: "sourcetopic", Kind: kindText, Required: true, Value: s.Source},
		field{Name: "targettopic", Kind: kindText, Value: s.Target},
		field{Name: "targetqos", Kind: kindSelect, Value: fmt.Sprint(s.TargetQoS), Options: qos},
		field{Name: "active", Kind: kindCheckbox, Checked: s.Active})
	to = q.newForm("", "save",
		field{Name: "persist", Kind: kindCheckbox, Checked: s.Persist},
		field{Name: "ttl", Kind: kindNumber, Min: "0", Value: fmt.Sprint(s.TTL)},
		field{Name: "textname", Kind: kindText, Value: s.TextName},
		field{Name: "textdescription", Kind: kindLong, Value: s.Description})
	return from, to
}

// postedStream returns the draft of the posted form.
func (q *request) postedStream() streamDraft {
	d := streamDraft{AsJSON: q.posted("mode") == "json", JSON: q.posted("query"), Process: q.posted("process") == "true"}
	d.Sample = sampleMessage{Topic: q.posted("sample/topic"), Payload: strings.ReplaceAll(q.posted("sample/payload"), "\r\n", "\n")}
	if d.AsJSON {
		return d
	}
	for i := range maxSelectRows {
		at := "query/select/" + strconv.Itoa(i)
		if !q.http.PostForm.Has(at + "/target") {
			break
		}
		d.Query.Selects = append(d.Query.Selects, selectRow{
			Source: q.posted(at + "/source"), Whole: q.posted(at+"/whole") == "true" && q.posted(at+"/source") == "",
			Function: q.posted(at + "/function/name"), Size: q.posted(at + "/function/intervalsize"), Offset: q.posted(at + "/function/intervaloffset"),
			Target: q.posted(at + "/target"), Alias: q.posted(at + "/alias"),
		})
	}
	const at = "query/where/0"
	d.Query.Condition = conditionRow{q.posted(at + "/left"), q.posted(at + "/operator"), q.posted(at + "/kind"), q.posted(at + "/right")}
	d.JSON = d.Query.format()
	return d
}

// applyStep applies the button with which the draft was posted.
func (v *streamEditorView) applyStep(q *request) {
	d := &v.Draft
	step, argument, _ := strings.Cut(q.posted("step"), ":")
	i, err := strconv.Atoi(argument)
	if err != nil {
		i = -1
	}
	switch step {
	case "add":
		if len(d.Query.Selects) < maxSelectRows {
			d.Query.Selects = append(d.Query.Selects, selectRow{})
		}
	case "up":
		d.Query.move(i, -1)
	case "down":
		d.Query.move(i, +1)
	case "remove":
		d.Query.remove(i)
	case "json":
		d.AsJSON = true
	case "fields":
		if q.failure == nil {
			d.Query, _ = parseQuery(d.JSON)
			d.AsJSON = false
		}
	case "preview":
		v.Sampled, v.Followed = true, q.posted("messages") != ""
		v.Samples, _ = q.result.([]streamSample)
	}
	if q.failure != nil {
		v.Mistakes = queryMistakes(q.failure.Info.Errors)
	}
}

// queryMistakes returns what is wrong in the query, with the path in it.
func queryMistakes(all []fieldError) (list []fieldError) {
	for _, f := range all {
		if path, ok := strings.CutPrefix(f.Field, "body.query"); ok {
			list = append(list, fieldError{strings.TrimPrefix(path, "."), f.Message})
		}
	}
	return list
}

// editStream performs the step of the posted form, as far as it needs operations.
func editStream(q *request) (string, error) {
	d := q.postedStream()
	switch q.posted("step") {
	case "fields":
		if _, ok := parseQuery(d.JSON); !ok {
			return "", q.invalid("query", q.t("query.only_json"))
		}
	case "preview":
		if err := q.checkQuery(d); err != nil {
			return "", err
		}
		return "", q.previewStream(d)
	case "save":
		if err := q.checkQuery(d); err != nil {
			return "", err
		}
		return q.saveStream(d)
	}
	return "", errShow
}

// checkQuery returns the errors that the operations cannot find: JSON that is none, and a
// value that is not of the chosen kind.
func (q *request) checkQuery(d streamDraft) error {
	if d.AsJSON {
		var v any
		if err := json.Unmarshal([]byte(d.JSON), &v); err != nil && strings.TrimSpace(d.JSON) != "" {
			return q.invalid("query", notDocument(q.t, d.JSON, err))
		}
		return nil
	}
	if c := d.Query.Condition; (c.Left != "" || c.Operator != "") && c.wrong() {
		e := &apiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Message: q.t("query.wrong_kind")}
		e.Info.Errors = []fieldError{{"body.query.where[0].right", e.Message}}
		return e
	}
	return nil
}

// streamBody returns the members of the definition that concern messages.
func (q *request) streamBody(d streamDraft) map[string]any {
	from, _ := q.streamFields(streamRecord{})
	body := from.body(q.http.PostForm, "targettopic", "sourcetopic")
	if n, err := strconv.Atoi(q.posted("targetqos")); err == nil {
		body["targetqos"] = n
	}
	if !q.isNewStream() {
		body["streamname"] = q.query.Get("streamname")
	}
	body["process"], body["query"] = d.Process, json.RawMessage("{}")
	if strings.TrimSpace(d.JSON) != "" {
		body["query"] = json.RawMessage(d.JSON)
	}
	return body
}

// previewStream has the page show what the stream does with the sample message, or with
// those that a script has received.
func (q *request) previewStream(d streamDraft) error {
	messages := []sampleMessage{}
	if list := q.posted("messages"); list != "" {
		if json.Unmarshal([]byte(list), &messages) != nil {
			return q.invalid("messages", q.t("error.not_json", 1))
		}
	} else if d.Sample.Topic != "" {
		messages = append(messages, d.Sample)
	}
	samples := make([]streamSample, 0, len(messages))
	sent := []sampleMessage{}
	for _, m := range messages {
		samples = append(samples, streamSample{sampleMessage: m, Cut: m.Truncated})
		if m.Truncated {
			continue
		}
		sent = append(sent, m)
	}
	body := q.streamBody(d)
	delete(body, "active")
	body["messages"], body["persist"] = sent, q.posted("persist") == "true"
	var out struct {
		Outcomes []streamOutcome `json:"outcomes"`
	}
	if _, err := q.perform("previewStream", q.params, nil, body, &out); err != nil {
		return err
	}
	for i := range samples {
		if !samples[i].Cut && len(out.Outcomes) > 0 {
			outcome := out.Outcomes[0]
			samples[i].Outcome, samples[i].Why, out.Outcomes = outcome, q.known("preview.cause."+outcome.Cause, outcome.Cause), out.Outcomes[1:]
		}
	}
	q.result = samples
	return errShow
}

// saveStream creates or changes the stream.
func (q *request) saveStream(d streamDraft) (string, error) {
	_, to := q.streamFields(streamRecord{})
	body := q.streamBody(d)
	body["ttl"] = 0
	for name, value := range to.body(q.http.PostForm, "textname", "textdescription") {
		body[name] = value
	}
	if q.isNewStream() {
		name := q.posted("streamname")
		return done(q.inBroker("streams/detail", "streamname", name), "stream_created", name), q.do("createStream", nil, body)
	}
	name := q.query.Get("streamname")
	return done(q.inBroker("streams/detail", "streamname", name), "stream_updated", name), q.do("modifyStream", nil, body)
}

// queryMistake is a mistake in the query, with the id that ties it to its field.
type queryMistake struct {
	fieldError
	ID string
}

// MistakesOf returns the mistakes of a select or the condition; with "" those of neither.
func (v *streamEditorView) MistakesOf(part string) (list []queryMistake) {
	for _, m := range v.Mistakes {
		inPart := strings.HasPrefix(m.Field, part)
		if part == "" {
			inPart = !strings.HasPrefix(m.Field, "select[") && !strings.HasPrefix(m.Field, "where[")
		}
		if inPart {
			list = append(list, queryMistake{m, "e-" + fieldName("body.query."+m.Field)})
		}
	}
	return list
}
