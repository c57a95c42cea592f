package handlers

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"signalbox/db"
	"signalbox/handlers/audit"
)

// AuditQuery selects rows of the audit log.
type AuditQuery struct {
	Actor     string `query:"actor" doc:"Only events of the user or token with this id."`
	ActorType string `query:"actorType" enum:"user|token|client|command|system" doc:"Only events of this kind of actor."`
	Operation string `query:"operation" doc:"Only events of this operation, such as createClient."`
	Object    string `query:"object" doc:"Only events about this object: a name at a broker, or the id of an object of the service."`
	Outcome   string `query:"outcome" enum:"done|failed|refused|unknown" doc:"Only events with this outcome."`
	Code      string `query:"code" doc:"Only events that ended with this error code."`
	Address   string `query:"address" doc:"Only events of callers with this address."`
	RequestID string `query:"requestId" doc:"Only the events of the request with this id."`
	Broker    string `query:"broker" doc:"Only events about the broker connection with this id."`
	Since     string `query:"since" format:"date-time" doc:"Only events at this time or later, RFC 3339."`
	Until     string `query:"until" format:"date-time" doc:"Only events at this time or earlier, RFC 3339."`
	Before    int64  `query:"before" default:"0" min:"0" doc:"Only events before that with this number, for the next page: next of the page before; 0 is the newest."`
	Count     int    `query:"count" default:"100" min:"1" max:"1000" doc:"Maximum number of events to return."`
}

func (q *AuditQuery) filter(projectID string) db.AuditFilter {
	return db.AuditFilter{ActorID: q.Actor, ActorKind: q.ActorType, Operation: q.Operation, Object: q.Object, Outcome: q.Outcome,
		Code: q.Code, Address: q.Address, RequestID: q.RequestID, BrokerID: q.Broker, ProjectID: projectID,
		Since: parsedTime(q.Since), Until: parsedTime(q.Until), Below: q.Before}
}

// parsedTime parses a time that was validated; the zero time for "".
func parsedTime(s string) time.Time {
	t, _ := time.Parse(time.RFC3339, s) //nolint:errcheck // validated
	return t
}

// AuditRecord is a row of the audit log. A member that does not apply is absent.
type AuditRecord struct {
	Seq       int64           `json:"seq" doc:"Number of the row, without gaps; 0 for an operation in progress." example:"4711"`
	Time      time.Time       `json:"time" doc:"Time at which the request came in, RFC 3339." example:"2026-01-31T12:00:00.123Z"`
	ActorType string          `json:"actor_type,omitempty" enum:"user|token|client|command|system" doc:"What acted; absent for a caller who was not authenticated." example:"user"`
	ActorID   string          `json:"actor_id,omitempty" doc:"Id of the user or token, or username of the MQTT client." example:"0190f3c2-1a2b-7c3d-8e4f-5a6b7c8d9e0f"`
	ActorName string          `json:"actor_name,omitempty" doc:"Name of the user or token at that time." example:"Ada Lovelace"`
	Address   string          `json:"address,omitempty" doc:"IP address of the caller, as trusted proxies state it." example:"192.0.2.7"`
	UserAgent string          `json:"user_agent,omitempty" doc:"User-Agent of the caller; of an MQTT client its client id." example:"curl/8.14"`
	RequestID string          `json:"request_id,omitempty" doc:"X-Request-Id of the request, as in the log." example:"7f3a9c1e"`
	Operation string          `json:"operation" doc:"Name of the operation; others for refused requests of many kinds that are counted together." example:"modifyClient"`
	ProjectID string          `json:"project_id,omitempty" doc:"Id of the project." example:"0190f3c2-5b21-7d0f-8c4e-91a2b3c4d5e6"`
	BrokerID  string          `json:"broker_id,omitempty" doc:"Id of the broker connection." example:"0190f3c2-7a1e-7c3b-9a55-3f8e1d2c4b6a"`
	Object    string          `json:"object,omitempty" doc:"Name of the object at the broker, or id of the object of the service." example:"pump-7"`
	Name      string          `json:"object_name,omitempty" doc:"Name of the object, also of one of the service, where the change has it; otherwise as object." example:"pump-7"`
	Outcome   string          `json:"outcome" enum:"begun|done|failed|refused|unknown" doc:"What came of it. failed: nothing was changed, or not all. refused: the caller was not let in or may not do this. unknown: whether it was changed could not be learned, as after a timeout or a crash. begun: in progress." example:"done"`
	Status    int             `json:"status,omitempty" doc:"HTTP status of the response; absent for a command of an MQTT client." example:"204"`
	Code      string          `json:"code,omitempty" doc:"Code of the error; absent if there was none." example:"-"`
	Change    json.RawMessage `json:"change,omitempty" doc:"What was asked for: parameters of the query, and the changed members before and after. Secrets are ***." example:"{\"before\":{\"disabled\":false},\"after\":{\"disabled\":true}}"`
	Duration  float64         `json:"duration_ms" doc:"Time that the operation took, in milliseconds; where the change is stored together with the row, until then." example:"1.25"`
	Count     int             `json:"count" doc:"Number of equal events that the row stands for." example:"1"`
	Hash      string          `json:"hash,omitempty" doc:"SHA-256 of the row and of the hash of the one before it, hexadecimal; absent for an operation in progress." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
}

func auditRecord(e db.AuditEvent) AuditRecord {
	return AuditRecord{Seq: e.Seq, Time: e.Time, ActorType: e.ActorKind, ActorID: e.ActorID, ActorName: e.ActorName,
		Address: e.Address, UserAgent: e.UserAgent, RequestID: e.RequestID, Operation: e.Operation, ProjectID: e.ProjectID,
		BrokerID: e.BrokerID, Object: e.Object, Name: audit.NameOf(e.Object, e.Change), Outcome: e.Outcome, Status: e.Status, Code: e.Code, Change: e.Change,
		Duration: float64(e.Duration.Microseconds()) / 1000, Count: e.Count, Hash: hex.EncodeToString(e.Hash)}
}

// AuditPage is a page of the audit log.
type AuditPage struct {
	Events []AuditRecord `json:"events" doc:"Events of the page, the newest first."`
	Next   int64         `json:"next" doc:"Value of before for the next page; 0 if this is the last one." example:"4611"`
	Open   []AuditRecord `json:"open" doc:"Operations in progress, on the first page without other parameters only; at most 100."`
}

// maxOpenAudits bounds the operations in progress that are listed.
const maxOpenAudits = 100

func (a *API) listAudit(ctx context.Context, q AuditQuery, projectID string) (AuditPage, error) {
	f := q.filter(projectID)
	page := AuditPage{Events: []AuditRecord{}, Open: []AuditRecord{}}
	events, err := a.DB.ListAudit(ctx, f, q.Count)
	if err != nil {
		return page, err
	}
	for _, e := range events {
		page.Events = append(page.Events, auditRecord(e))
	}
	if len(events) == q.Count {
		page.Next = events[len(events)-1].Seq
	}
	if f != (db.AuditFilter{ProjectID: projectID}) {
		return page, nil
	}
	open, err := a.DB.OpenAudits(ctx, projectID, maxOpenAudits)
	for _, e := range open {
		page.Open = append(page.Open, auditRecord(e))
	}
	return page, err
}

// ListAuditRequest selects rows of the audit log.
type ListAuditRequest struct {
	AuditQuery
	Project string `query:"project" doc:"Only events of the project with this id."`
}

// ListAudit lists the audit log of the service, the newest events first.
func (a *API) ListAudit(ctx context.Context, r *ListAuditRequest) (AuditPage, error) {
	return a.listAudit(ctx, r.AuditQuery, r.Project)
}

// ListProjectAuditRequest selects rows of a project's audit log.
type ListProjectAuditRequest struct {
	ProjectPath
	AuditQuery
}

// ListProjectAudit lists the events of a project, the newest first.
func (a *API) ListProjectAudit(ctx context.Context, r *ListProjectAuditRequest) (AuditPage, error) {
	return a.listAudit(ctx, r.AuditQuery, r.ProjectID)
}

// AuditCheckpointRequest is empty.
type AuditCheckpointRequest struct{}

// AuditCheckpointRecord is a signed state of the audit log.
type AuditCheckpointRecord struct {
	Seq  int64     `json:"seq" doc:"Number of the last row." example:"4711"`
	Hash string    `json:"hash" doc:"Hash of that row, which depends on all rows before it; hexadecimal." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
	Time time.Time `json:"time" doc:"Time of the signature, RFC 3339." example:"2026-01-31T12:00:00Z"`
	Note string    `json:"note" doc:"The state with its signature, as a signed note of golang.org/x/mod/sumdb/note; kept elsewhere, it proves later that no row up to it was changed or deleted." example:"signalbox audit\\n4711\\n…"`
	Key  string    `json:"key" doc:"Public key that the signature is checked with." example:"signalbox-1f2e3d4c+9a8b7c6d+AZ1pN3kQ0u7bE5xJ1r8sT4wY6zA9dFh"`
}

// GetAuditCheckpoint signs the present state of the audit log.
func (a *API) GetAuditCheckpoint(ctx context.Context, _ *AuditCheckpointRequest) (AuditCheckpointRecord, error) {
	c, err := a.Audit.Checkpoint(ctx)
	if err != nil {
		return AuditCheckpointRecord{}, err
	}
	keys, err := a.DB.AuditKeys(ctx)
	record := AuditCheckpointRecord{Seq: c.Seq, Hash: hex.EncodeToString(c.Hash), Time: c.Time.UTC(), Note: c.Note}
	if len(keys) > 0 {
		record.Key = keys[0].Public
	}
	return record, err
}

// VerifyAuditRequest is empty.
type VerifyAuditRequest struct{}

// AuditVerificationRecord is what a verification of the audit log found.
type AuditVerificationRecord struct {
	Intact      bool   `json:"intact" doc:"True if no row was found that was changed, inserted or deleted." example:"true"`
	First       int64  `json:"first" doc:"Number of the first row that was read; 0 if the log is not intact, or empty." example:"1"`
	Last        int64  `json:"last" doc:"Number of the last row that was read; 0 if the log is not intact, or empty." example:"4711"`
	Checkpoints int    `json:"checkpoints" doc:"Number of signed states that the rows agree with." example:"12"`
	Problem     string `json:"problem,omitempty" doc:"At which row the log was changed, and how; absent if it is intact." example:"-"`
}

// VerifyAudit reads the whole audit log, and compares it with its hashes and checkpoints.
func (a *API) VerifyAudit(ctx context.Context, _ *VerifyAuditRequest) (AuditVerificationRecord, error) {
	v, err := a.Audit.Verify(ctx)
	if damage, ok := errors.AsType[*db.AuditDamage](err); ok {
		return AuditVerificationRecord{Problem: damage.Error()}, nil
	}
	return AuditVerificationRecord{Intact: true, First: v.First, Last: v.Last, Checkpoints: v.Checkpoints}, err
}

// noteCreated adds the id of a new object to the audit row of its request. The object is the
// broker connection or project itself where one of these is created.
func noteCreated(ctx context.Context, id, projectID, brokerID string) {
	db.NoteAudit(ctx, func(e *db.AuditEvent) {
		e.Object = id
		e.ProjectID, e.BrokerID = cmp.Or(e.ProjectID, projectID), cmp.Or(e.BrokerID, brokerID)
	})
}
