package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"signalbox/broker/panics"
)

// job is a running or ended job.
type job struct {
	scope  string
	spec   Spec
	limits Limits
	log    *slog.Logger
	expiry *time.Timer // forgets the job; nil until it has ended; guarded by Runner.mu

	mu     sync.Mutex // guards the fields below
	now    Status     // all but Failures are current
	names  []string   // of the objects that were not begun
	failed []Failure
	bytes  int // of failed
}

func newJob(scope string, s Spec, l Limits, at time.Time, log *slog.Logger) *job {
	return &job{scope: scope, spec: s, limits: l, log: log, names: s.Names, now: Status{ID: s.ID, Label: s.Label, By: s.By, Sample: s.Sample,
		State: Running, Total: len(s.Names), StartedAt: at}}
}

func (j *job) status() Status {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.now
	s.Failures = slices.Clone(j.failed)
	return s
}

func (j *job) ended() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.now.EndedAt.IsZero()
}

// run changes the objects and returns when no more are begun and all that were begun are
// completed.
func (j *job) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range min(j.limits.Workers, len(j.names)) {
		workers.Go(func() { j.work(ctx) })
	}
	workers.Wait()
}

// work changes one object after the other. Each is begun only after a check, so that none
// is changed with rights that had ended before.
func (j *job) work(ctx context.Context) {
	for ctx.Err() == nil && j.runs() {
		if p := j.safely(func() *Problem { return j.spec.Check(ctx) }); p != nil {
			if ctx.Err() == nil { // otherwise the check failed because the service stops
				j.stop(Failed, p)
			}
			return
		}
		name, ok := j.next()
		if !ok {
			return
		}
		j.record(name, j.safely(func() *Problem { return j.spec.Change(ctx, name) }))
	}
}

// safely calls one of the functions of the job, and converts a panic to a problem that ends
// the job.
func (j *job) safely(do func() *Problem) (p *Problem) {
	defer func() {
		if v := recover(); v != nil {
			panics.Log(context.Background(), j.log, "a job was ended by a panic", fmt.Sprint(v), slog.String("job", j.spec.ID))
			p = &Problem{Code: "INTERNAL_ERROR", Message: "the service failed; its operator finds the cause in the log by the id of the job", Fatal: true}
		}
	}()
	return do()
}

func (j *job) runs() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now.State == Running
}

// next takes the next object.
func (j *job) next() (name string, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.names) == 0 || j.now.State != Running {
		return "", false
	}
	name, j.names = j.names[0], j.names[1:]
	return name, true
}

// record counts a changed object, or one that was not changed.
func (j *job) record(name string, p *Problem) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.now.Done++
	if p == nil {
		return
	}
	j.now.Failed++
	size := len(name) + len(p.Code) + len(p.Message)
	if len(j.failed) < j.limits.Failures && j.bytes+size <= j.limits.FailureBytes {
		j.failed, j.bytes = append(j.failed, Failure{Name: name, Problem: *p}), j.bytes+size
	}
	if p.Fatal {
		j.stopLocked(Failed, p)
	}
}

// stop begins no further object. The first reason counts.
func (j *job) stop(s State, cause *Problem) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopLocked(s, cause)
}

func (j *job) stopLocked(s State, cause *Problem) {
	if j.now.State == Running {
		j.now.State, j.now.Cause = s, cause
	}
}

// end sets the final state. The names are not needed any more.
func (j *job) end(at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.now.State == Failed:
	case j.now.Done == j.now.Total:
		j.now.State = Completed
	default:
		j.now.State = Cancelled
	}
	j.now.EndedAt, j.names, j.spec.Names = at, nil, nil
	j.log.Info("job ended", "job", j.spec.ID, "action", j.spec.Label, "broker", j.scope, "by", j.spec.By,
		"state", j.now.State, "total", j.now.Total, "done", j.now.Done, "failed", j.now.Failed)
}
