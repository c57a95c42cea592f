// Package jobs runs changes of many objects in the background: it bounds how many run,
// counts their progress, keeps what failed, and stops them between two objects.
//
// A change of thousands of objects takes longer than a request may, so it needs a place
// where it goes on after the response, and where its progress can be read. That is not a
// function per operation, as package handlers has them; and it knows nothing about
// brokers, roles or HTTP. Both are easier to test apart.
//
// Jobs are kept in memory only. Each change is durable by itself, so a job that a restart
// ends has done what its progress showed, and can be created again with the same selection:
// what was changed already either no longer matches or is changed to what it is. A queue on
// disk would have to continue a job that its creator has forgotten, hours later.
//
// It imports broker/panics and nothing else of this module.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// State is the state of a job.
type State string

// The states of a job. The last three are final; objects that were begun may still be in
// progress when a job becomes failed.
const (
	Running   State = "running"
	Stopping  State = "stopping" // cancelled; objects that were begun are completed
	Completed State = "completed"
	Cancelled State = "cancelled"
	Failed    State = "failed" // ended before its last object; Status.Cause is why
)

// Limits bound what callers can make grow. An ended job is forgotten earlier than after
// Keep if there are more of them than Kept or KeptPerScope, the oldest first.
type Limits struct {
	Running         int // at a time
	RunningPerScope int
	Kept            int // running ones included
	KeptPerScope    int
	Workers         int // objects that one job changes at a time
	Keep            time.Duration
	Failures        int // kept of one job
	FailureBytes    int // of their names and messages
}

// DefaultLimits returns the limits of the product.
func DefaultLimits() Limits {
	return Limits{Running: 8, RunningPerScope: 2, Kept: 100, KeptPerScope: 20, Workers: 4, Keep: time.Hour,
		Failures: 1000, FailureBytes: 256 << 10}
}

// Problem is why an object was not changed, or why a job ended. A fatal one ends the job,
// because it would affect every further object as well.
type Problem struct {
	Code    string
	Message string
	Fatal   bool
}

// Failure is an object that was not changed.
type Failure struct {
	Name string
	Problem
}

// Spec is a job to run. Check is called before each object; Change changes one. Both
// return nil for success, and may be called concurrently. End is called once, after both.
// Label and Sample are returned as they are.
type Spec struct {
	ID     string
	Label  string   // what is done
	By     string   // name of the creator
	Names  []string // of the objects, in the order in which they are begun
	Sample []string
	Check  func(ctx context.Context) *Problem
	Change func(ctx context.Context, name string) *Problem
	End    func()
}

// Status is a job at one moment. Done counts the objects that were tried, Failed those of
// them that were not changed; Failures are the first of these. A zero EndedAt means that it
// has not ended.
type Status struct {
	ID        string
	Label     string
	By        string
	Sample    []string
	State     State
	Total     int
	Done      int
	Failed    int
	Failures  []Failure
	Cause     *Problem
	StartedAt time.Time
	EndedAt   time.Time
}

// The errors of Reserve; Start returns the first.
var (
	ErrClosed = errors.New("the service is stopping")
	ErrBusy   = errors.New("too many jobs are running")
)

// Runner runs jobs. It is safe for concurrent use.
type Runner struct {
	limits Limits
	now    func() time.Time
	log    *slog.Logger
	ctx    context.Context // of all jobs
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex // taken before job.mu
	jobs   []*job     // the oldest first
	places []*Place   // reserved, without a job
	closed bool
}

// New returns a Runner without jobs.
func New(limits Limits, now func() time.Time, log *slog.Logger) *Runner {
	ctx, cancel := context.WithCancel(context.Background())
	return &Runner{limits: limits, now: now, log: log, ctx: ctx, cancel: cancel}
}

// Place is where a job can run. It counts as a running job.
type Place struct {
	runner *Runner
	scope  string
}

// Reserve returns a place for one more job, or ErrBusy or ErrClosed, so that the caller need
// not select objects for a job that cannot run. Scope is what RunningPerScope and
// KeptPerScope count by, such as a broker. The caller must release the place.
func (r *Runner) Reserve(scope string) (*Place, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.admit(scope); err != nil {
		return nil, err
	}
	p := &Place{r, scope}
	r.places = append(r.places, p)
	return p, nil
}

// Release makes the place available to others, unless a job was started in it.
func (p *Place) Release() {
	p.runner.mu.Lock()
	defer p.runner.mu.Unlock()
	p.runner.vacate(p)
}

// vacate ends a reservation, with mu held.
func (r *Runner) vacate(p *Place) {
	r.places = slices.DeleteFunc(r.places, func(other *Place) bool { return other == p })
}

// Start starts a job in the place, or returns ErrClosed. It is called at most once.
func (p *Place) Start(s Spec) (Status, error) {
	r := p.runner
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return Status{}, ErrClosed
	}
	r.vacate(p)
	of := func(j *job) bool { return j.scope == p.scope }
	r.dropOldest(of, r.limits.KeptPerScope-1)
	r.dropOldest(func(*job) bool { return true }, r.limits.Kept-1)
	j := newJob(p.scope, s, r.limits, r.now(), r.log)
	r.jobs = append(r.jobs, j)
	r.wg.Go(func() { r.run(j) })
	return j.status(), nil
}

// admit returns why no job may be started, with mu held.
func (r *Runner) admit(scope string) error {
	all, inScope := r.running(scope)
	switch {
	case r.closed:
		return ErrClosed
	case inScope >= r.limits.RunningPerScope:
		return fmt.Errorf("%w: %d for this broker, the most at a time; wait for one or cancel it", ErrBusy, inScope)
	case all >= r.limits.Running:
		return fmt.Errorf("%w: %d, the most at a time; wait for one or cancel it", ErrBusy, all)
	}
	return nil
}

// running counts the running jobs and the reserved places, with mu held.
func (r *Runner) running(scope string) (all, inScope int) {
	count := func(of string) {
		if all++; of == scope {
			inScope++
		}
	}
	for _, j := range r.jobs {
		if !j.ended() {
			count(j.scope)
		}
	}
	for _, p := range r.places {
		count(p.scope)
	}
	return all, inScope
}

// dropOldest forgets ended jobs of those that are meant, until at most this many of them
// are left. It is called with mu held.
func (r *Runner) dropOldest(meant func(*job) bool, left int) {
	n := 0
	for _, j := range r.jobs {
		if meant(j) {
			n++
		}
	}
	r.jobs = slices.DeleteFunc(r.jobs, func(j *job) bool {
		drop := n > left && meant(j) && j.ended()
		if drop {
			n--
			j.expiry.Stop()
		}
		return drop
	})
}

// run runs a job, and forgets it after its time.
func (r *Runner) run(j *job) {
	j.run(r.ctx)
	j.safely(func() *Problem { j.spec.End(); return nil })
	r.mu.Lock()
	defer r.mu.Unlock()
	j.end(r.now())
	j.expiry = time.AfterFunc(r.limits.Keep, func() { r.forget(j) })
}

func (r *Runner) forget(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = slices.DeleteFunc(r.jobs, func(other *job) bool { return other == j })
}

// Get returns a job of a scope; false if there is none with this id.
func (r *Runner) Get(scope, id string) (Status, bool) {
	if j := r.find(scope, id); j != nil {
		return j.status(), true
	}
	return Status{}, false
}

func (r *Runner) find(scope, id string) *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.jobs, func(j *job) bool { return j.spec.ID == id && j.scope == scope })
	if i < 0 {
		return nil
	}
	return r.jobs[i]
}

// List returns the jobs of a scope, the newest first, without their failures.
func (r *Runner) List(scope string) []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []Status{}
	for _, j := range slices.Backward(r.jobs) {
		if j.scope == scope {
			s := j.status()
			s.Failures = nil
			list = append(list, s)
		}
	}
	return list
}

// Cancel stops a job: no further object is begun. It does not wait, and does nothing to a
// job that has ended. It returns false if there is none with this id.
func (r *Runner) Cancel(scope, id string) bool {
	j := r.find(scope, id)
	if j != nil {
		j.stop(Stopping, nil)
	}
	return j != nil
}

// Close refuses new jobs, stops the others and waits for them, until ctx ends.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	done := make(chan struct{})
	go func() { r.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("jobs were not stopped in time: %w", ctx.Err())
	}
}
