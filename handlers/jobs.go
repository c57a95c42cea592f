package handlers

import (
	"context"
	"errors"
	"slices"
	"time"

	"signalbox/broker"
	"signalbox/handlers/auth"
	"signalbox/handlers/jobs"
)

// The actions of jobs.
const (
	jobDisconnect     = "disconnect"
	jobForget         = "forgetSession"
	jobEnable         = "enableClients"
	jobDisable        = "disableClients"
	jobDelete         = "deleteClients"
	jobDeleteRetained = "deleteRetained"
)

// Bounds of the objects of a job.
const (
	maxJobIDs   = 10_000
	maxJobNames = 100_000 // that a filter selects
	maxJobBytes = 8 << 20 // of their names
)

// What a record shows of the objects of a job.
const (
	jobSample      = 20
	jobSampleBytes = 16 << 10
)

// statePlanned is the state of a dry run.
const statePlanned = "planned"

// JobFilter selects the objects of a job, as the parameters of the list of these objects do.
type JobFilter struct {
	FilterTarget string `json:"filterTarget" doc:"Field that filterValue is compared with, as in the list of the objects. Sessions (disconnect, forgetSession): clientid (default), username or address; clients: username (default), clientid, textname, textdescription, rolename or groupname." example:"username"`
	FilterMode   string `json:"filterMode" enum:"contains|equals|startsWith|endsWith|regex" doc:"How filterValue is compared; default contains. All modes but equals and regex ignore case." example:"startsWith"`
	FilterValue  string `json:"filterValue" doc:"Only objects that match this value; empty or absent for all, which needs a state." example:"meter-"`
	State        string `json:"state" enum:"connected|disconnected|enabled|disabled" doc:"Only objects in this state: connected or disconnected for forgetSession, enabled or disabled for clients. The action disconnect selects connected sessions only." example:"-"`
	TopicFilter  string `json:"topicFilter" doc:"Topic filter of the retained messages; required for deleteRetained, and for nothing else." example:"-"`
}

// CreateJobRequest describes a job.
type CreateJobRequest struct {
	BrokerPath
	Body struct {
		Action string     `json:"action" required:"true" enum:"disconnect|forgetSession|enableClients|disableClients|deleteClients|deleteRetained" doc:"What is done with each object: disconnectClient or forgetClient with sessions, enableClient or deleteClient with clients, deleteRetained with topics." example:"disableClients"`
		IDs    []string   `json:"ids" doc:"The objects: client ids for disconnect and forgetSession, usernames for clients, topics for deleteRetained; at most 10000. Either ids or filter is required." example:"-"`
		Filter *JobFilter `json:"filter" doc:"Selects the objects when the job is created, at most 100000."`
		DryRun bool       `json:"dry_run" doc:"True changes nothing and creates no job: the response has the number of objects and the first 20 names. Default false." example:"false"`
	}
}

// JobRecord is a job and its progress.
type JobRecord struct {
	ID        string       `json:"id" doc:"Id of the job; empty for a dry run." example:"0190f3c2-8b2e-7d4c-9b66-4f9e2d3c5b7a"`
	Action    string       `json:"action" doc:"What is done with each object." example:"disableClients"`
	State     string       `json:"state" enum:"running|stopping|completed|cancelled|failed|planned" doc:"running, stopping (cancelled, but objects that were begun are completed), completed (every object was tried), cancelled, failed (ended early; see error), or planned for a dry run." example:"completed"`
	CreatedBy string       `json:"created_by" doc:"Name of the user or token that created the job." example:"Ada Lovelace"`
	StartedAt time.Time    `json:"started_at" doc:"Time of creation, RFC 3339." example:"2026-01-31T12:00:00Z"`
	EndedAt   time.Time    `json:"ended_at,omitzero" doc:"Time of the end, RFC 3339. Absent while the job runs." example:"2026-01-31T12:00:07Z"`
	Total     int          `json:"total" doc:"Number of objects." example:"3691"`
	Done      int          `json:"done" doc:"Number of objects that were tried." example:"3691"`
	Failed    int          `json:"failed" doc:"Number of those that were not changed." example:"1"`
	Names     []string     `json:"names" doc:"The first objects, at most 20." example:"meter-1|meter-2"`
	Failures  []JobFailure `json:"failures" doc:"The first objects that were not changed, at most 1000 and 256 KiB. Empty in the list of jobs."`
	Error     *JobError    `json:"error,omitempty" doc:"Why the job ended before its last object; absent unless it failed." example:"-"`
}

// JobFailure is an object that a job did not change.
type JobFailure struct {
	Name string `json:"name" doc:"The object: client id, username or topic." example:"meter-7"`
	JobError
}

// JobError is why an object was not changed, or why a job ended.
type JobError struct {
	Code    string `json:"code" doc:"Code, as in the error object of the operation on one object." example:"NOT_FOUND"`
	Message string `json:"message" doc:"What failed, as a sentence." example:"there is no client with this username"`
}

func jobRecord(s jobs.Status) JobRecord {
	r := JobRecord{ID: s.ID, Action: s.Label, State: string(s.State), CreatedBy: s.By, StartedAt: s.StartedAt.UTC(), EndedAt: s.EndedAt.UTC(),
		Total: s.Total, Done: s.Done, Failed: s.Failed, Names: append([]string{}, s.Sample...), Failures: make([]JobFailure, 0, len(s.Failures))}
	for _, f := range s.Failures {
		r.Failures = append(r.Failures, JobFailure{f.Name, JobError{f.Code, f.Message}})
	}
	if s.Cause != nil {
		r.Error = &JobError{s.Cause.Code, s.Cause.Message}
	}
	return r
}

// CreateJob starts a job that changes many objects, or with dry_run returns what it would
// change.
func (a *API) CreateJob(ctx context.Context, r *CreateJobRequest) (JobRecord, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return JobRecord{}, err
	}
	if err := offers(ctx, b, r.Body.Action); err != nil {
		return JobRecord{}, err
	}
	if r.Body.DryRun {
		return a.planJob(ctx, r, b)
	}
	place, err := a.Jobs.Reserve(r.BrokerID)
	if err != nil {
		return JobRecord{}, jobRefusal(err)
	}
	defer place.Release()
	names, err := r.names(ctx, b)
	if err != nil {
		return JobRecord{}, err
	}
	w := &jobWork{api: a, id: newID(), action: r.Body.Action, caller: auth.From(ctx), path: r.BrokerPath}
	noteCreated(ctx, w.id, "", "")
	status, err := place.Start(jobs.Spec{ID: w.id, Label: r.Body.Action, By: w.caller.Name,
		Names: names, Sample: sampleOf(names), Check: w.check, Change: w.change, End: w.end})
	if err != nil {
		return JobRecord{}, jobRefusal(err)
	}
	return jobRecord(status), nil
}

// planJob returns what a job would change.
func (a *API) planJob(ctx context.Context, r *CreateJobRequest, b broker.Broker) (JobRecord, error) {
	names, err := r.names(ctx, b)
	if err != nil {
		return JobRecord{}, err
	}
	return JobRecord{Action: r.Body.Action, State: statePlanned, CreatedBy: auth.From(ctx).Name, StartedAt: a.Now().UTC(),
		Total: len(names), Names: sampleOf(names), Failures: []JobFailure{}}, nil
}

// jobRefusal returns the error for a job that cannot be started.
func jobRefusal(err error) error {
	if errors.Is(err, jobs.ErrBusy) {
		return conflict(err.Error())
	}
	return &Error{Status: 503, Code: CodeBrokerUnavailable, Message: err.Error()}
}

// sampleOf returns the first names, always a list.
func sampleOf(names []string) []string {
	sample, size := []string{}, 0
	for _, name := range names {
		if size += len(name); len(sample) == jobSample || size > jobSampleBytes {
			break
		}
		sample = append(sample, name)
	}
	return sample
}

// offers returns the error of a broker that cannot do what a job is to do, once the broker
// is reached.
func offers(ctx context.Context, b broker.Broker, action string) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	feature := broker.CapClientControl
	switch action {
	case jobForget: // no session has an empty client id, so this changes nothing
		if err := b.ForgetClient(ctx, ""); broker.KindOf(err) == broker.Unsupported {
			return err
		}
	case jobEnable, jobDisable, jobDelete:
		feature = broker.CapDynamicSecurity
	case jobDeleteRetained:
		feature = broker.CapMessages
	}
	if slices.Contains(b.Capabilities(), feature) {
		return nil
	}
	for _, m := range b.Status().Missing {
		if m.Feature == feature {
			return m.Error("createJob")
		}
	}
	return broker.NotSupported("createJob", feature)
}

// JobPath names a job of a broker.
type JobPath struct {
	BrokerPath
	JobID string `path:"jobId" doc:"Id of the job."`
}

// Resolve looks up the broker and the job.
func (p *JobPath) Resolve(ctx context.Context, a *API) error {
	if err := p.BrokerPath.Resolve(ctx, a); err != nil {
		return err
	}
	if _, ok := a.Jobs.Get(p.BrokerID, p.JobID); !ok {
		return noJob()
	}
	return nil
}

func noJob() error {
	return &Error{Status: 404, Code: CodeNotFound,
		Message: "the broker has no job with this id; jobs are kept for an hour after their end, and only as long as the service runs"}
}

// ListJobsRequest names a broker.
type ListJobsRequest struct{ BrokerPath }

// ListJobs lists the jobs of a broker, the newest first.
func (a *API) ListJobs(_ context.Context, r *ListJobsRequest) (List[JobRecord], error) {
	records := []JobRecord{}
	for _, s := range a.Jobs.List(r.BrokerID) {
		records = append(records, jobRecord(s))
	}
	return listOf(records), nil
}

// GetJobRequest names a job.
type GetJobRequest struct{ JobPath }

// GetJob returns a job and its progress.
func (a *API) GetJob(_ context.Context, r *GetJobRequest) (JobRecord, error) {
	s, ok := a.Jobs.Get(r.BrokerID, r.JobID)
	if !ok {
		return JobRecord{}, noJob()
	}
	return jobRecord(s), nil
}

// CancelJobRequest names a job.
type CancelJobRequest struct{ JobPath }

// CancelJob stops a job after the objects that were begun.
func (a *API) CancelJob(_ context.Context, r *CancelJobRequest) error {
	if !a.Jobs.Cancel(r.BrokerID, r.JobID) {
		return noJob()
	}
	return nil
}
