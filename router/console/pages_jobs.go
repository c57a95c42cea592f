package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// jobPages are the changes of many objects, which run in the background.
func jobPages() []*page {
	return []*page{
		{path: brokerPath + "jobs", name: "jobs", group: "sessions", role: viewer, help: "embedded-broker",
			calls: []string{"listJobs"}, view: viewJobs, fragments: []string{"list"}},
		{path: brokerPath + "jobs/{jobId}", name: "job", group: "sessions", role: viewer, help: "embedded-broker",
			change: editor, calls: []string{"getJob", "cancelJob"}, view: viewJob, fragments: []string{"progress"}, actions: map[string]action{"cancel": cancelJob}},
		{path: brokerPath + "sessions/matching", name: "sessions-matching", template: "form", group: "sessions", role: editor,
			calls: []string{"inspectClients", "createJob"}, view: viewMatching, actions: map[string]action{"disconnect": changeMatching, "end": changeMatching}},
		{path: brokerPath + "clients/matching", name: "clients-matching", template: "form", group: "clients", role: editor,
			calls: []string{"listClients", "createJob"}, view: viewClientsMatching,
			actions: map[string]action{"enable": changeClientsMatching, "disable": changeClientsMatching, "delete": changeClientsMatching}},
	}
}

// jobRecord is a job and its progress.
type jobRecord struct {
	ID        string   `json:"id"`
	Action    string   `json:"action"`
	State     string   `json:"state"`
	CreatedBy string   `json:"created_by"`
	StartedAt string   `json:"started_at"`
	EndedAt   string   `json:"ended_at"`
	Total     int      `json:"total"`
	Done      int      `json:"done"`
	Failed    int      `json:"failed"`
	Names     []string `json:"names"`
	Failures  []struct {
		Name string `json:"name"`
		jobError
	} `json:"failures"`
	Error *jobError `json:"error"`
}

// jobError is why an object was not changed, or why a job ended.
type jobError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Running reports whether the job goes on.
func (j *jobRecord) Running() bool { return j.State == "running" || j.State == "stopping" }

// bulkJobs are the actions of jobs, by the action of the form: on sessions, and on clients.
var bulkJobs = map[string]string{"disconnect": "disconnect", "end": "forgetSession", "enable": "enableClients", "disable": "disableClients", "delete": "deleteClients"}

// changedBy returns the list of what an action changes, and the key of the name of one of them.
func changedBy(do string) (list, name string) {
	if do == "disconnect" || do == "end" {
		return "sessions", "sessions.clientid"
	}
	return "clients", "access.username"
}

// jobsView is the jobs of a broker.
type jobsView struct {
	frame
	Jobs part[[]jobRecord]
	Rows []shownJob
}

// shownJob is a job with its texts.
type shownJob struct {
	jobRecord
	What string
	How  cell
}

func (q *request) shownJob(j jobRecord) shownJob {
	state, mark := j.outcome()
	return shownJob{jobRecord: j, What: q.known("jobs.action."+j.Action, j.Action), How: cell{Text: q.known("jobs.state."+state, state), State: mark}}
}

// outcome returns the state of the job and how good that is, "" while it runs. A job is
// completed if every object was tried: it did not succeed with those that were not changed.
func (j *jobRecord) outcome() (state, mark string) {
	switch {
	case j.State == "failed" || j.State == "completed" && j.Failed > 0 && j.Failed >= j.Done:
		return "failed", "bad"
	case j.State == "completed" && j.Failed > 0:
		return "partly", "warn"
	case j.State == "completed":
		return j.State, "good"
	case j.State == "cancelled":
		return j.State, "warn"
	}
	return j.State, ""
}

func viewJobs(q *request) (view, error) {
	v := &jobsView{}
	var g parts
	load(&g, q, &v.Jobs, "listJobs", nil)
	g.wait()
	for _, j := range v.Jobs.Value {
		v.Rows = append(v.Rows, q.shownJob(j))
	}
	return v, nil
}

// jobView is one job.
type jobView struct {
	frame
	Job shownJob
}

func viewJob(q *request) (view, error) {
	var j jobRecord
	if err := q.get("getJob", nil, &j); err != nil {
		return nil, err
	}
	return &jobView{Job: q.shownJob(j)}, nil
}

func cancelJob(q *request) (string, error) { return "", q.do("cancelJob", nil, nil) }

// createJob starts a job and returns its page.
func (q *request) createJob(body map[string]any) (string, error) {
	var j jobRecord
	if _, err := q.perform("createJob", q.params, nil, body, &j); err != nil {
		return "", err
	}
	return q.inBroker("jobs/" + url.PathEscape(j.ID)), nil
}

// bulkForm asks whether something is done with sessions or clients, of which the first are named.
func (q *request) bulkForm(do string, total int, ids []string) *formView {
	list, name := changedBy(do)
	v := &formView{Intro: []string{q.t(strings.TrimSuffix(list, "s") + "." + do + "_effect"), q.t(list+".selected", total)},
		Form: form{Do: do, Submit: q.t(list+"."+do+"_selected", total), Danger: do != "enable", Cancel: q.linkInBroker(list)}}
	v.Title = q.t("jobs.action." + bulkJobs[do])
	for _, id := range ids {
		v.Facts = append(v.Facts, of(q.t(name), id))
	}
	return v
}

// selectionForm is bulkForm for what was selected.
func (q *request) selectionForm(do string) *formView {
	ids := q.http.PostForm["selected"]
	v := q.bulkForm(do, len(ids), ids)
	for _, id := range ids {
		v.Form.Fields = append(v.Form.Fields, field{Name: "selected", Kind: kindHidden, Value: id})
	}
	return v
}

// noneSelected returns the error of an action that nothing was selected for.
func (q *request) noneSelected(do string) error {
	list, _ := changedBy(do)
	return &apiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Message: q.t(list + ".none_selected")}
}

// askSelected shows what is done with what was selected, and asks for it.
func askSelected(do string) action {
	return func(q *request) (string, error) {
		if len(q.http.PostForm["selected"]) == 0 {
			return "", q.noneSelected(do)
		}
		q.shown = do
		return "", errShow
	}
}

// changeSelected does it.
func changeSelected(do string) action {
	return func(q *request) (string, error) {
		if len(q.http.PostForm["selected"]) == 0 {
			return "", q.noneSelected(do)
		}
		return q.createJob(map[string]any{"action": bulkJobs[do], "ids": q.http.PostForm["selected"]})
	}
}

// matchingFilter returns the filter in the query, for the sessions on which something is
// done. Only clients that are connected can be disconnected.
func (q *request) matchingFilter(do string) (map[string]string, error) {
	filter := map[string]string{}
	for _, name := range []string{"filterValue", "filterTarget"} {
		if value := q.query.Get(name); value != "" {
			filter[name] = value
		}
	}
	state := q.query.Get("state")
	switch {
	case do == "disconnect" && state == "disconnected":
		return nil, q.noneSelected(do)
	case do == "disconnect":
		filter["state"] = "connected"
	case state == "connected" || state == "disconnected":
		filter["state"] = state
	}
	return filter, nil
}

// bulkAction returns the action that the page asks for: to end sessions, unless it is to
// disconnect clients.
func (q *request) bulkAction() string {
	if q.query.Get("action") == "disconnect" {
		return "disconnect"
	}
	return "end"
}

func viewMatching(q *request) (view, error) {
	do := q.bulkAction()
	filter, err := q.matchingFilter(do)
	if err != nil {
		return nil, err
	}
	query := url.Values{"offset": {"0"}, "count": {"20"}}
	for name, value := range filter {
		query.Set(name, value)
	}
	var first []sessionRecord
	total, err := q.list("inspectClients", query, &first)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, s := range first {
		ids = append(ids, s.ClientID)
	}
	return q.bulkForm(do, total, ids), nil
}

func changeMatching(q *request) (string, error) {
	do := q.bulkAction()
	filter, err := q.matchingFilter(do)
	if err != nil {
		return "", err
	}
	return q.createJob(map[string]any{"action": bulkJobs[do], "filter": filter})
}

// clientsFilter returns the action and the filter in the query, for the clients with which
// something is done: only those that a value selects.
func (q *request) clientsFilter() (do string, filter map[string]string, err error) {
	if do = q.query.Get("action"); do != "enable" && do != "disable" {
		do = "delete"
	}
	if q.query.Get("filterValue") == "" {
		return do, nil, q.noneSelected(do)
	}
	filter = map[string]string{}
	for name := range q.filtered() {
		if name != "offset" && name != "count" {
			filter[name] = q.query.Get(name)
		}
	}
	return do, filter, nil
}

func viewClientsMatching(q *request) (view, error) {
	do, _, err := q.clientsFilter()
	if err != nil {
		return &formView{Intro: []string{err.Error()}, Back: link{Text: q.t("title.clients"), To: q.inBroker("clients")}}, nil
	}
	query := q.filtered()
	query.Set("offset", "0")
	query.Set("count", strconv.Itoa(maxListed))
	var first []accessClient
	total, err := q.list("listClients", query, &first)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range first {
		names = append(names, c.Username)
	}
	return q.bulkForm(do, total, names), nil
}

func changeClientsMatching(q *request) (string, error) {
	do, filter, err := q.clientsFilter()
	if err != nil {
		return "", err
	}
	return q.createJob(map[string]any{"action": bulkJobs[do], "filter": filter})
}
