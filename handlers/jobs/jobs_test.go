package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"signalbox/handlers/jobs"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// limits are small ones, with one worker, so that the order is known.
func limits() jobs.Limits {
	return jobs.Limits{Running: 3, RunningPerScope: 2, Kept: 5, KeptPerScope: 3, Workers: 1, Keep: time.Hour, Failures: 3, FailureBytes: 100}
}

func newRunner(l jobs.Limits) *jobs.Runner {
	return jobs.New(l, time.Now, slog.New(slog.DiscardHandler))
}

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("n", i)
	}
	return list
}

func succeed(context.Context, string) *jobs.Problem { return nil }

// spec is a job of n objects that succeeds.
func spec(id string, n int) jobs.Spec {
	return jobs.Spec{ID: id, Label: "act", By: "Ada", Names: names(n), Sample: []string{"n0"},
		Check: func(context.Context) *jobs.Problem { return nil }, Change: succeed, End: func() {}}
}

// begin starts a job in a place of its own.
func begin(r *jobs.Runner, scope string, s jobs.Spec) (jobs.Status, error) {
	p, err := r.Reserve(scope)
	if err != nil {
		return jobs.Status{}, err
	}
	defer p.Release()
	return p.Start(s)
}

func start(t *testing.T, r *jobs.Runner, scope string, s jobs.Spec) {
	t.Helper()
	if _, err := begin(r, scope, s); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, r *jobs.Runner, scope, id string) jobs.Status {
	t.Helper()
	s, ok := r.Get(scope, id)
	if !ok {
		t.Fatalf("there is no job %s in %s", id, scope)
	}
	return s
}

func wantStatus(t *testing.T, got jobs.Status, state jobs.State, total, done, failed int) {
	t.Helper()
	if got.State != state || got.Total != total || got.Done != done || got.Failed != failed {
		t.Errorf("got %s, %d of %d, %d failed, want %s, %d of %d, %d failed", got.State, got.Done, got.Total, got.Failed, state, done, total, failed)
	}
}

func TestJobTriesEveryObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, began := newRunner(limits()), time.Now()
		var tried []string
		ends := 0
		s := spec("j", 5)
		s.End = func() { ends++ }
		s.Change = func(_ context.Context, name string) *jobs.Problem {
			if ends > 0 {
				t.Errorf("%s is changed after the end", name)
			}
			<-time.After(time.Second)
			if tried = append(tried, name); name == "n1" || name == "n3" {
				return &jobs.Problem{Code: "NOT_FOUND", Message: name + " is unknown"}
			}
			return nil
		}
		first, err := begin(r, "b", s)
		if err != nil || first.State != jobs.Running || first.ID != "j" || first.Label != "act" || first.By != "Ada" || !first.StartedAt.Equal(began) {
			t.Errorf("started: %+v, %v", first, err)
		}
		<-time.After(2500 * time.Millisecond)
		wantStatus(t, get(t, r, "b", "j"), jobs.Running, 5, 2, 1)
		<-time.After(time.Minute)
		got := get(t, r, "b", "j")
		wantStatus(t, got, jobs.Completed, 5, 5, 2)
		if !got.EndedAt.Equal(began.Add(5*time.Second)) || got.Cause != nil || !slices.Equal(tried, names(5)) || ends != 1 {
			t.Errorf("ended at %v, cause %v, tried %v, %d ends", got.EndedAt, got.Cause, tried, ends)
		}
		want := []jobs.Failure{{Name: "n1", Problem: jobs.Problem{Code: "NOT_FOUND", Message: "n1 is unknown"}},
			{Name: "n3", Problem: jobs.Problem{Code: "NOT_FOUND", Message: "n3 is unknown"}}}
		if diff := cmp.Diff(want, got.Failures); diff != "" {
			t.Errorf("failures (-want +got):\n%s", diff)
		}
		start(t, r, "b", spec("empty", 0))
		synctest.Wait()
		wantStatus(t, get(t, r, "b", "empty"), jobs.Completed, 0, 0, 0)
	})
}

func TestJobChangesSeveralObjectsAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limits()
		l.Workers = 4
		r := newRunner(l)
		var now, most int
		var mu sync.Mutex
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			now += n
			most = max(most, now)
		}
		s := spec("j", 10)
		s.Change = func(context.Context, string) *jobs.Problem {
			count(1)
			<-time.After(time.Second)
			count(-1)
			return nil
		}
		start(t, r, "b", s)
		<-time.After(2500 * time.Millisecond)
		wantStatus(t, get(t, r, "b", "j"), jobs.Running, 10, 8, 0)
		<-time.After(time.Second)
		wantStatus(t, get(t, r, "b", "j"), jobs.Completed, 10, 10, 0)
		if most != 4 {
			t.Errorf("%d at a time, want 4", most)
		}
	})
}

func TestFailuresAreBounded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		message string
		kept    int
	}{"by number": {"x", 3}, "by size": {strings.Repeat("x", 45), 2}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRunner(limits())
			s := spec("j", 10)
			s.Change = func(context.Context, string) *jobs.Problem { return &jobs.Problem{Message: tt.message} }
			start(t, r, "b", s)
			synctest.Wait()
			got := get(t, r, "b", "j")
			wantStatus(t, got, jobs.Completed, 10, 10, 10)
			if len(got.Failures) != tt.kept {
				t.Errorf("%s: %d are kept, want %d", name, len(got.Failures), tt.kept)
			}
		})
	}
}

func TestCancelStopsBetweenObjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(limits())
		s := spec("j", 5)
		s.Change = func(ctx context.Context, _ string) *jobs.Problem {
			<-time.After(time.Second)
			if ctx.Err() != nil {
				t.Error("the object that was begun was aborted")
			}
			return nil
		}
		start(t, r, "b", s)
		<-time.After(1500 * time.Millisecond)
		if r.Cancel("b", "other") || r.Cancel("other", "j") || !r.Cancel("b", "j") {
			t.Error("another job was found, or this one was not")
		}
		wantStatus(t, get(t, r, "b", "j"), jobs.Stopping, 5, 1, 0)
		<-time.After(time.Minute)
		wantStatus(t, get(t, r, "b", "j"), jobs.Cancelled, 5, 2, 0)
		if !r.Cancel("b", "j") {
			t.Error("a job that has ended was not found")
		}
		wantStatus(t, get(t, r, "b", "j"), jobs.Cancelled, 5, 2, 0)
	})
}

func TestCheckEndsAJobBeforeTheNextObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(limits())
		var tried []string
		s := spec("j", 5)
		s.Check = func(context.Context) *jobs.Problem {
			if len(tried) == 2 {
				return &jobs.Problem{Code: "FORBIDDEN", Message: "not any more"}
			}
			return nil
		}
		s.Change = func(_ context.Context, name string) *jobs.Problem { tried = append(tried, name); return nil }
		start(t, r, "b", s)
		synctest.Wait()
		got := get(t, r, "b", "j")
		wantStatus(t, got, jobs.Failed, 5, 2, 0)
		if got.Cause == nil || got.Cause.Code != "FORBIDDEN" || !slices.Equal(tried, names(2)) || got.EndedAt.IsZero() {
			t.Errorf("got %+v, tried %v", got, tried)
		}
	})
}

func TestFatalProblemEndsAJob(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(context.Context, string) *jobs.Problem{
		"reported": func(context.Context, string) *jobs.Problem {
			return &jobs.Problem{Code: "INTERNAL_ERROR", Message: "x", Fatal: true}
		},
		"panic": func(context.Context, string) *jobs.Problem { panic("deliberate") },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRunner(limits())
			s := spec("j", 5)
			s.Change = change
			start(t, r, "b", s)
			synctest.Wait()
			got := get(t, r, "b", "j")
			wantStatus(t, got, jobs.Failed, 5, 1, 1)
			if got.Cause == nil || got.Cause.Code != "INTERNAL_ERROR" || len(got.Failures) != 1 {
				t.Errorf("%s: got %+v", name, got)
			}
		})
	}
}

func TestJobsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(limits())
		slow := func(id string) jobs.Spec {
			s := spec(id, 1)
			s.Change = func(context.Context, string) *jobs.Problem { <-time.After(time.Second); return nil }
			return s
		}
		wantBusy := func(scope string) {
			t.Helper()
			if _, err := r.Reserve(scope); !errors.Is(err, jobs.ErrBusy) {
				t.Errorf("%s: got %v, want %v", scope, err, jobs.ErrBusy)
			}
		}
		start(t, r, "a", slow("1"))
		start(t, r, "a", slow("2"))
		wantBusy("a")
		start(t, r, "b", slow("4"))
		wantBusy("c")
		<-time.After(2 * time.Second)
		for i := range 4 {
			start(t, r, "c", spec(fmt.Sprint("c", i), 1))
			synctest.Wait()
		}
		wantIDs(t, r, "a", "2") // of five in all, the oldest had to be forgotten
		wantIDs(t, r, "b", "4")
		wantIDs(t, r, "c", "c3", "c2", "c1")
		<-time.After(time.Hour + time.Second)
		for _, scope := range []string{"a", "b", "c"} {
			wantIDs(t, r, scope)
		}
	})
}

// TestPlacesCountAsJobs bounds reserved places as if jobs ran in them.
func TestPlacesCountAsJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(limits())
		reserve := func() *jobs.Place {
			p, err := r.Reserve("b")
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		one, two := reserve(), reserve()
		wantBusy := func() {
			t.Helper()
			if _, err := r.Reserve("b"); !errors.Is(err, jobs.ErrBusy) {
				t.Errorf("got %v, want %v", err, jobs.ErrBusy)
			}
		}
		wantBusy()
		two.Release()
		two = reserve()
		release, s := make(chan struct{}), spec("j", 1)
		s.Change = func(context.Context, string) *jobs.Problem { <-release; return nil }
		if _, err := one.Start(s); err != nil {
			t.Fatal(err)
		}
		one.Release() // does nothing to the job
		wantBusy()
		close(release)
		synctest.Wait()
		reserve().Release()
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := two.Start(spec("k", 1)); !errors.Is(err, jobs.ErrClosed) {
			t.Errorf("got %v, want %v", err, jobs.ErrClosed)
		}
	})
}

// TestForgottenJobsAreFreed keeps nothing of a job that was forgotten before its time.
func TestForgottenJobsAreFreed(t *testing.T) {
	t.Parallel()
	r := newRunner(limits())
	first := spec("first", 1)
	sample := weak.Make(&first.Sample[0])
	start(t, r, "a", first)
	first = jobs.Spec{}
	for i := range 5 {
		suite.WaitFor(t, "the jobs have ended", func() bool {
			return !slices.ContainsFunc(r.List("a"), func(s jobs.Status) bool { return s.EndedAt.IsZero() })
		})
		start(t, r, "a", spec(fmt.Sprint(i), 1))
	}
	suite.WaitFor(t, "the first job is freed", func() bool { runtime.GC(); return sample.Value() == nil })
}

func wantIDs(t *testing.T, r *jobs.Runner, scope string, want ...string) {
	t.Helper()
	var got []string
	for _, s := range r.List(scope) {
		if got = append(got, s.ID); s.Failures != nil {
			t.Errorf("%s: the list has failures", s.ID)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("scope %s has %v, want %v", scope, got, want)
	}
}

func TestCloseStopsJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(limits())
		s := spec("j", 5)
		s.Change = func(ctx context.Context, _ string) *jobs.Problem {
			<-ctx.Done() // as an operation that waits for a broker
			return &jobs.Problem{Message: "aborted"}
		}
		start(t, r, "b", s)
		synctest.Wait()
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wantStatus(t, get(t, r, "b", "j"), jobs.Cancelled, 5, 1, 1)
		if _, err := begin(r, "b", spec("k", 1)); !errors.Is(err, jobs.ErrClosed) {
			t.Errorf("got %v, want %v", err, jobs.ErrClosed)
		}
	})
}

func TestCloseDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, release := newRunner(limits()), make(chan struct{})
		s := spec("j", 1)
		s.Change = func(context.Context, string) *jobs.Problem { <-release; return nil }
		start(t, r, "b", s)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(release)
	})
}
