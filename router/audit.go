package router

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"signalbox/handlers"
	"signalbox/handlers/audit"
)

// auditing is how the requests of a row are audited. The zero value is right for most rows:
// every change, and every refused request.
type auditing int

const (
	auditChanges  auditing = iota
	auditRepeated          // a change that is made very often: rows with a count
	auditNothing           // no change, although its method could make one
	auditRead              // no change, but as important as one
)

// auditedRequest is a request on its way into the audit log.
type auditedRequest struct {
	rt     *router
	row    *route
	params httprouter.Params
	time   time.Time
	opened *audit.Row // from the time at which the operation is called
	begun  bool       // stored before the change, which is not in our database
}

// audited returns the audit row of a request.
func (rt *router) audited(row *route, params httprouter.Params) *auditedRequest {
	return &auditedRequest{rt: rt, row: row, params: params, time: rt.now()}
}

// object returns the name of what the path is about, "" for none.
func (a *auditedRequest) object() (name string) {
	for _, s := range a.row.segments {
		if parameter, ok := strings.CutPrefix(s, ":"); ok && parameter != "projectId" && parameter != "brokerId" {
			name = strings.ReplaceAll(a.params.ByName(parameter), innerSlash, "/")
		}
	}
	return name
}

// event returns what is known of the request by now.
func (a *auditedRequest) event(r *http.Request) audit.Event {
	x := infoOf(r.Context())
	e := audit.Event{
		Time: a.time, Address: a.rt.proxies.address(r).String(), UserAgent: r.UserAgent(), RequestID: x.id,
		Operation: a.row.ID, ProjectID: x.project, BrokerID: x.broker, Object: a.object(), Count: 1, Status: a.row.Status,
	}
	if p := x.principal; p != nil {
		e.ActorKind, e.ActorID, e.ActorName = p.Kind, p.ID, p.Name
	}
	return e
}

// changes reports whether the request may change something, or is audited as if it did.
func (a *auditedRequest) changes() bool {
	return a.row.writes() && a.row.Audit != auditNothing || a.row.Audit == auditRead
}

// begin stores that the operation begins, if it changes what is not in our database, and
// returns the context in which it runs.
func (a *auditedRequest) begin(ctx context.Context, r *http.Request, body []byte) (context.Context, error) {
	if !a.changes() {
		return ctx, nil
	}
	e := a.event(r)
	a.describe(ctx, &e, r.URL.RawQuery, body)
	infoOf(ctx).object = e.Object
	started, opened := audit.Start(ctx, e)
	a.opened = opened
	if a.row.Audit == auditRepeated {
		return ctx, nil
	}
	if !a.row.inBroker() && a.row.Tag != tagClusters && a.row.Tag != tagBackups {
		return started, nil
	}
	if err := a.rt.api.Audit.Begin(started, opened); err != nil {
		a.opened = nil
		return ctx, notBegun(err)
	}
	a.begun = true
	return started, nil
}

// notBegun returns the error of a change that was not begun, because its row could not be stored.
func notBegun(err error) error {
	if handlers.ErrorFor(err).Status == http.StatusServiceUnavailable {
		return &handlers.Error{Status: http.StatusServiceUnavailable, Code: handlers.CodeBrokerUnavailable, Cause: err,
			Message: "nothing was changed, as this node reaches no majority of the cluster's nodes, which share the audit log; try again when it does, or at another node"}
	}
	return &handlers.Error{Status: http.StatusInternalServerError, Code: handlers.CodeInternalError, Cause: err,
		Message: "nothing was changed, as the audit log cannot be written; the log of the service has the reason"}
}

// end stores the outcome of a request.
func (a *auditedRequest) end(ctx context.Context, r *http.Request, err error) {
	outcome, status, code := audit.Done, a.row.Status, ""
	if err != nil {
		e := handlers.ErrorFor(err)
		outcome, status, code = a.outcomeOf(ctx, e), e.Status, e.Code
	}
	single := a.opened != nil && a.row.Audit != auditRepeated
	if single && err == nil && a.row.isDocument() {
		a.noteAfter(ctx)
	}
	switch {
	case single && (a.begun || a.opened.Stored() || outcome == audit.Done):
		a.rt.api.Audit.End(ctx, a.opened, outcome, status, code)
		return
	case outcome == audit.Refused && !a.withoutCredential(r, code):
	case !a.changes():
		return
	}
	e := a.event(r)
	if a.opened != nil {
		e = a.opened.Event()
	}
	e.Outcome, e.Status, e.Code = outcome, status, code
	e.Duration = a.rt.now().Sub(e.Time)
	a.rt.api.Audit.Repeatable(ctx, e)
}

// withoutCredential reports whether a request that reads was refused because it had no
// credential but perhaps a cookie: so does every page of a browser whose session has ended.
func (a *auditedRequest) withoutCredential(r *http.Request, code string) bool {
	return code == handlers.CodeUnauthorized && !a.row.writes() && r.Header.Get("Authorization") == ""
}

// outcomeOf returns the outcome of an operation that failed.
func (a *auditedRequest) outcomeOf(ctx context.Context, e *handlers.Error) string {
	switch {
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden, e.Status == http.StatusTooManyRequests:
		return audit.Refused
	case e.Code == handlers.CodeBrokerTimeout, a.begun && (ctx.Err() != nil || e.Code == handlers.CodeInternalError):
		return audit.Unknown
	}
	return audit.Failed
}

// describe notes which object is changed, and how.
func (a *auditedRequest) describe(ctx context.Context, e *audit.Event, query string, body []byte) {
	values, _ := url.ParseQuery(query) //nolint:errcheck // what is not valid is refused
	change := audit.Change{Parameters: a.row.plan.maskedQuery(values)}
	if b := a.row.plan.body; b != nil && a.row.Large {
		change.After = map[string]any{"bytes": len(body), "sha256": fmt.Sprintf("%x", sha256.Sum256(body))}
	} else if b != nil {
		change.After, _ = b.shape.masked(body, &b.rules).(map[string]any)
	}
	if e.Object == "" {
		e.Object = audit.ObjectOf(change.Parameters, change.After)
	}
	if a.row.Before != "" {
		change.Before = a.before(ctx, e.Object, change)
	}
	e.Change = change.Encode()
}

// isDocument reports whether the operation stores a document with secrets in places that only
// its reader knows. It is audited as it is read, masked, before and after.
func (row *route) isDocument() bool {
	return row.Before != "" && row.plan.body != nil && row.plan.body.rules.secret
}

// noteAfter adds the stored document to the row.
func (a *auditedRequest) noteAfter(ctx context.Context) {
	var change audit.Change
	e := a.opened.Event()
	if json.Unmarshal(e.Change, &change) != nil {
		change = audit.Change{}
	}
	change.After = a.before(ctx, e.Object, audit.Change{})
	a.opened.Note(func(e *audit.Event) { e.Change = change.Encode() })
}

// checkBefore checks that each row's Before is an operation that reads, with the parameters of
// the row's path.
func (rt *router) checkBefore() error {
	for _, row := range rt.rows {
		if row.Before == "" {
			continue
		}
		name, _, _ := strings.Cut(row.Before, "?")
		read := rt.rowOf(name)
		if read == nil || read.writes() || read.plan == nil {
			return fmt.Errorf("row %s: %q is not an operation that reads", row.ID, name)
		}
		for _, p := range read.plan.path {
			if !slices.ContainsFunc(row.plan.path, func(own parameter) bool { return own.name == p.name }) {
				return fmt.Errorf("row %s: %s needs %s in the path", row.ID, name, p.name)
			}
		}
	}
	return nil
}
