package console

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// auditPages show the audit log of the service and that of a project.
func auditPages() []*page {
	return []*page{
		{path: "/ui/audit", name: "audit", role: root, help: "audit", calls: []string{"listAudit", "listAuditSinks", "listMembers", "listBrokers"}, view: viewAudit, fragments: []string{"filters", "list"}},
		{path: "/ui/p/{projectId}/audit", name: "project-audit", template: "audit", role: admin, help: "audit", calls: []string{"listProjectAudit", "listMembers", "listBrokers"},
			view: viewProjectAudit, fragments: []string{"filters", "list"}},
		{path: "/ui/audit/checkpoint", name: "audit-checkpoint", template: "document", group: "audit", role: root, help: "audit",
			calls: []string{"getAuditCheckpoint"}, view: viewAuditCheckpoint},
		{path: "/ui/audit/verify", name: "audit-verify", template: "form", group: "audit", role: root, help: "audit", large: true,
			calls: []string{"verifyAudit"}, view: viewAuditVerify, actions: map[string]action{"": func(*request) (string, error) { return "", errShow }}},
	}
}

// auditEvent is a row of the audit log.
type auditEvent struct {
	Seq       int64           `json:"seq"`
	Time      string          `json:"time"`
	ActorType string          `json:"actor_type"`
	ActorID   string          `json:"actor_id"`
	ActorName string          `json:"actor_name"`
	Address   string          `json:"address"`
	UserAgent string          `json:"user_agent"`
	RequestID string          `json:"request_id"`
	Operation string          `json:"operation"`
	ProjectID string          `json:"project_id"`
	BrokerID  string          `json:"broker_id"`
	Object    string          `json:"object"`
	Name      string          `json:"object_name"`
	Outcome   string          `json:"outcome"`
	Code      string          `json:"code"`
	Change    json.RawMessage `json:"change"`
	Count     int             `json:"count"`
}

// Who returns the actor's name, and what kind of actor it is where that is no person.
func (e *auditEvent) Who() string {
	if e.ActorName == "" {
		return e.ActorType
	}
	return e.ActorName
}

// State returns how the outcome is shown.
func (e *auditEvent) State() string {
	return map[string]string{"done": "good", "failed": "bad", "refused": "bad", "unknown": "warn", "begun": "warn"}[e.Outcome]
}

// Document returns the change as indented text, "" if there is none.
func (e *auditEvent) Document() string {
	if e.Change == nil {
		return ""
	}
	return indented(e.Change)
}

// auditView is a page of the audit log.
type auditView struct {
	frame
	query              url.Values // of the operation
	Events             part[auditPage]
	Sinks              part[[]auditSink]
	Rows               []shownEvent
	Filter             []auditFilter
	Set                int      // how many of Filter are set
	Wrong              bool     // one of Filter is invalid
	Known              []option // operations
	Outcomes           []option
	Operation, Outcome string
	Active             bool
	Export             string // link to all events that the filter selects, "" if the caller may not have them
	Older              string // link to the next page, "" if there is none
	Newest             string // link to the first page, "" if this is it
}

// auditPage is what listAudit returns.
type auditPage struct {
	Events []auditEvent `json:"events"`
	Open   []auditEvent `json:"open"`
	Next   int64        `json:"next"`
}

// auditSink is a destination to which the log is copied.
type auditSink struct {
	Name        string `json:"name"`
	Destination string `json:"destination"`
	Pending     int64  `json:"pending"`
	Error       string `json:"error"`
	Since       string `json:"since"`
}

// auditFilter is a field of the filter.
type auditFilter struct {
	Name, Kind, Label, Value string
	Wrong                    bool
}

// auditFilters are the parameters of the query by which the log is filtered, besides operation
// and outcome.
var auditFilters = []string{"object", "actor", "broker", "address", "requestId", "since", "until"}

// newAuditFilter returns a field of the filter. Times are in UTC, as in all forms.
func (q *request) newAuditFilter(name string) auditFilter {
	f := auditFilter{Name: name, Kind: "search", Label: q.t("audit." + name), Value: q.query.Get(name)}
	if name == "since" || name == "until" {
		f.Kind, f.Value = kindTime, strings.TrimSuffix(f.Value, "Z")
	}
	return f
}

// parameter returns the value that the operation takes.
func (f *auditFilter) parameter() string {
	switch {
	case f.Kind != kindTime || f.Value == "":
		return f.Value
	case len(f.Value) == len("2006-01-02T15:04"):
		return f.Value + ":00Z"
	}
	return f.Value + "Z"
}

func viewAudit(q *request) (view, error) {
	v := q.newAuditView()
	v.Export = v.exportLink(q)
	var g parts
	load(&g, q, &v.Events, "listAudit", v.query)
	load(&g, q, &v.Sinks, "listAuditSinks", nil)
	return v.completed(q, &g), nil
}

func viewProjectAudit(q *request) (view, error) {
	v := q.newAuditView()
	var g parts
	load(&g, q, &v.Events, "listProjectAudit", v.query)
	return v.completed(q, &g), nil
}

// newAuditView returns the page with its filter.
func (q *request) newAuditView() *auditView {
	v := &auditView{Operation: q.query.Get("operation"), Outcome: q.query.Get("outcome"), Outcomes: []option{{"", q.t("audit.outcome.any")}},
		query: url.Values{"count": {strconv.Itoa(q.prefs.PageSize)}}}
	for _, name := range []string{"operation", "outcome", "before"} {
		if value := q.query.Get(name); value != "" {
			v.query.Set(name, value)
			v.Active = v.Active || name != "before"
		}
	}
	for _, name := range auditFilters {
		f := q.newAuditFilter(name)
		if v.Filter = append(v.Filter, f); f.Value != "" {
			v.query.Set(name, f.parameter())
			v.Set++
			v.Active = true
		}
	}
	for _, name := range []string{"done", "failed", "refused", "unknown"} {
		v.Outcomes = append(v.Outcomes, option{name, q.t("audit.outcome." + name)})
	}
	return v
}

// exportLink returns the link to the selected events as a file.
func (v *auditView) exportLink(q *request) string {
	query := maps.Clone(v.query)
	query.Del("count")
	query.Del("before")
	query.Set("format", "csv")
	return q.root + "/../api/audit/export?" + query.Encode()
}

// completed waits for the events and returns the page with them.
func (v *auditView) completed(q *request, g *parts) *auditView {
	g.wait()
	page := v.Events.Value
	for i := range v.Filter {
		f := &v.Filter[i]
		f.Wrong = v.Events.Err.Field(f.Name) != ""
		v.Wrong = v.Wrong || f.Wrong
	}
	v.Rows, v.Known = q.shownEvents(append(page.Open, page.Events...)), q.operationOptions()
	if page.Next > 0 {
		v.Older = q.withQuery("before", strconv.FormatInt(page.Next, 10))
	}
	if q.query.Get("before") > "0" {
		v.Newest = q.withQuery("before", "0")
	}
	return v
}

// viewAuditVerify verifies the log when its form is sent, and shows the result.
func viewAuditVerify(q *request) (view, error) {
	v := &formView{Intro: []string{q.t("audit.verify.what")}, Form: q.newForm("", "audit.verify"), Back: q.back("audit")}
	if q.http.Method != http.MethodPost {
		return v, nil
	}
	var found struct {
		Intact                   bool
		First, Last, Checkpoints int
		Problem                  string
	}
	if err := q.get("verifyAudit", nil, &found); err != nil {
		return nil, err
	}
	result := cell{Text: q.t("audit.verify.intact", found.First, found.Last), State: "good"}
	if !found.Intact {
		result = cell{Text: q.t("audit.verify.changed"), State: "bad", Quiet: found.Problem}
	}
	v.Facts = []fact{{q.t("audit.verify.result"), result}, plainly(q.t("audit.verify.checkpoints"), q.lang.number(found.Checkpoints))}
	return v, nil
}

// viewAuditCheckpoint shows a signed state of the log, to be kept elsewhere.
func viewAuditCheckpoint(q *request) (view, error) {
	var c struct{ Note, Key string }
	if err := q.get("getAuditCheckpoint", nil, &c); err != nil {
		return nil, err
	}
	return &documentView{Intro: q.t("audit.checkpoint.what", c.Key), Text: c.Note, Back: q.back("audit")}, nil
}
