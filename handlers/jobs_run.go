package handlers

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/handlers/audit"
	"signalbox/handlers/auth"
	"signalbox/handlers/jobs"
)

// jobWork changes the objects of one job with the rights of its creator.
type jobWork struct {
	api    *API
	id     string
	action string
	caller *auth.Principal
	path   BrokerPath

	mu       sync.Mutex // guards deleters
	deleters map[broker.Broker]broker.RetainedDeleter
}

// The times of one object: for the change, and for a broker to be reached again.
const (
	jobObjectTime = time.Minute
	jobReadyTime  = 30 * time.Second
)

// check returns why the job must not go on: its creator may not do this any more, or the
// connection leads, or may lead, to another broker.
func (w *jobWork) check(ctx context.Context) *jobs.Problem {
	caller, err := w.api.Auth.Renew(ctx, w.caller)
	if err != nil {
		return w.problem(ctx, err)
	}
	role, err := w.api.Auth.RoleIn(ctx, caller, w.path.ProjectID)
	if err != nil {
		return w.problem(ctx, notFound(err, "the project was deleted"))
	}
	if !role.Allows(auth.Editor) || !caller.BrokerAllowed(w.path.BrokerID) {
		return w.problem(ctx, Forbidden("the creator of the job may not do this any more"))
	}
	row, err := w.api.DB.GetBroker(ctx, w.path.ProjectID, w.path.BrokerID)
	if err != nil {
		return w.problem(ctx, notFound(err, "the broker connection was deleted"))
	}
	if row.Rev != w.path.row.Rev {
		return w.problem(ctx, conflict("the broker connection was changed; create the job again"))
	}
	return nil
}

// change changes one object. If the broker is not reached, which a change of its own may
// have caused, it waits for it once.
func (w *jobWork) change(ctx context.Context, name string) *jobs.Problem {
	err := w.audited(ctx, name, func(ctx context.Context) error {
		err := w.try(ctx, name)
		if err != nil && broker.KindOf(err) == broker.Unavailable && w.ready(ctx) {
			err = w.try(ctx, name)
		}
		return err
	})
	if err == nil {
		return nil
	}
	p := w.problem(ctx, err)
	kind := broker.KindOf(err)
	p.Fatal = kind == broker.Unavailable || kind == broker.Unsupported
	return p
}

// jobOperations are the operations that the actions of jobs stand for, as the audit log names
// them.
var jobOperations = map[string]string{
	jobDisconnect: "disconnectClient", jobForget: "forgetClient", jobEnable: "enableClient", jobDisable: "enableClient",
	jobDelete: "deleteClient", jobDeleteRetained: "deleteRetained",
}

// audited changes one object between the two parts of its row in the audit log. The id of the
// job stands for that of a request.
func (w *jobWork) audited(ctx context.Context, name string, change func(context.Context) error) error {
	e := audit.Event{Time: w.api.Now(), ActorKind: w.caller.Kind, ActorID: w.caller.ID, ActorName: w.caller.Name, RequestID: w.id,
		Operation: jobOperations[w.action], ProjectID: w.path.ProjectID, BrokerID: w.path.BrokerID, Object: name, Change: w.described()}
	ctx, row := audit.Start(ctx, e)
	if err := w.api.Audit.Begin(ctx, row); err != nil {
		return err
	}
	err := change(ctx)
	outcome, code := audit.Done, ""
	if err != nil {
		outcome, code = audit.Failed, ErrorFor(err).Code
	}
	if err != nil && (ctx.Err() != nil || code == CodeBrokerTimeout || code == CodeInternalError) {
		outcome = audit.Unknown
	}
	w.api.Audit.End(ctx, row, outcome, 0, code)
	return err
}

// described returns what the audit log states beside the operation: enableClient has two
// directions.
func (w *jobWork) described() json.RawMessage {
	switch w.action {
	case jobEnable:
		return json.RawMessage(`{"after":{"enable":true}}`)
	case jobDisable:
		return json.RawMessage(`{"after":{"enable":false}}`)
	}
	return nil
}

func (w *jobWork) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, jobReadyTime)
	defer cancel()
	b, err := w.api.live(&w.path)
	return err == nil && b.Ready(ctx) == nil
}

// try calls the operation on one object.
func (w *jobWork) try(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, jobObjectTime)
	defer cancel()
	b, err := w.api.live(&w.path)
	if err != nil {
		return err
	}
	switch w.action {
	case jobDisconnect:
		return b.DisconnectClient(ctx, name)
	case jobForget:
		return b.ForgetClient(ctx, name)
	case jobEnable:
		return b.EnableClient(ctx, name)
	case jobDeleteRetained:
		return w.retainedDeleter(b).DeleteRetained(ctx, name)
	}
	if err := w.path.protectOwn(name); err != nil {
		return err
	}
	if w.action == jobDisable {
		return b.DisableClient(ctx, name)
	}
	return b.DeleteClient(ctx, name)
}

// retainedDeleter returns what deletes the retained messages of a broker, one for all topics.
// There is one broker, or another one after the connection was dialled again.
func (w *jobWork) retainedDeleter(b broker.Broker) broker.RetainedDeleter {
	w.mu.Lock()
	defer w.mu.Unlock()
	d, ok := w.deleters[b]
	if !ok {
		if w.deleters == nil {
			w.deleters = map[broker.Broker]broker.RetainedDeleter{}
		}
		d = b.RetainedDeleter()
		w.deleters[b] = d
	}
	return d
}

// end releases what the job holds.
func (w *jobWork) end() {
	for _, d := range w.deleters {
		d.Close()
	}
}

// problem converts an error to what the record shows. What is internal goes to the log.
func (w *jobWork) problem(ctx context.Context, err error) *jobs.Problem {
	e := ErrorFor(err)
	p := &jobs.Problem{Code: e.Code, Message: e.Message}
	if e.Code == CodeUnauthorized {
		p.Message = "the creator of the job was deleted, may not log in any more, or its token ended"
	}
	if e.Code == CodeInternalError {
		p.Message = "the service failed; its operator finds the cause in the log by the id of the job"
		if ctx.Err() == nil {
			w.api.Log.Error("a job could not change an object", "job", w.id, "action", w.action, "broker", w.path.BrokerID, "error", err)
		}
	}
	return p
}
