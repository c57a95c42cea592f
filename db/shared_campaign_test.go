package db_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"signalbox/db"
	"signalbox/scripts/suite"
)

// The operations on one broker connection and one user, as a model: the revision of the
// connection, and whether the user exists.
type (
	platformState struct {
		rev    int64
		exists bool
	}
	platformCall struct {
		name string // "update" with the revision rev, "create" or "delete"
		rev  int64
	}
)

// The outcomes of an operation.
const (
	succeeded = "done"
	refused   = "refused"
	unknown   = "unknown"
)

// platform is the model. What is refused is refused because of the state.
var platform = porcupine.Model{
	Init: func() any { return platformState{rev: 1} },
	Step: func(state, input, output any) (bool, any) {
		s, call, outcome := state.(platformState), input.(platformCall), output.(string)
		after, possible := s, false
		switch call.name {
		case "update":
			possible = s.rev == call.rev
			after.rev++
		case "create":
			possible = !s.exists
			after.exists = true
		case "delete":
			possible = s.exists
			after.exists = false
		}
		if !possible {
			after = s
		}
		return outcome == unknown || possible == (outcome == succeeded), after
	},
}

// history is what callers have seen.
type history struct {
	mu      sync.Mutex // guards what follows
	began   time.Time
	all     []porcupine.Operation
	unknown int
	rev     int64 // the newest that was acknowledged
}

// maxUnknown bounds the operations of unknown outcome: the time of the check grows exponentially
// with their number.
const maxUnknown = 6

// add notes an operation.
func (h *history) add(client int, call platformCall, from time.Duration, outcome string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to := time.Since(h.began)
	if outcome == unknown {
		h.unknown++
		to = time.Hour // it may still happen
	}
	if outcome == succeeded && call.name == "update" {
		h.rev = max(h.rev, call.rev+1)
	}
	h.all = append(h.all, porcupine.Operation{ClientId: client, Input: call, Call: int64(from), Output: outcome, Return: int64(to)})
}

func outcomeOf(err error) (string, error) {
	switch {
	case err == nil:
		return succeeded, nil
	case errors.Is(err, db.ErrConflict), errors.Is(err, db.ErrExists), errors.Is(err, db.ErrNotFound):
		return refused, nil
	case errors.Is(err, db.ErrUnconfirmed):
		return unknown, nil
	case errors.Is(err, db.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return "", nil // nothing happened
	}
	return "", err
}

// TestCampaignShared writes at three copies at the same time, with a log that refuses, loses,
// delays and does not confirm entries.
func TestCampaignShared(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	h := &history{began: time.Now(), rev: 1}
	f.set(func() {
		f.fault = func() fault {
			h.mu.Lock()
			defer h.mu.Unlock()
			switch n := rand.IntN(40); {
			case n < 3:
				return unavailable
			case n < 6 && h.unknown < maxUnknown:
				return fault(int(dropped) + n - 3)
			}
			return none
		}
	})
	var callers sync.WaitGroup
	var mu sync.Mutex // guards acknowledged
	var acknowledged []string
	for client := range 9 {
		d := f.nodes[client%3].d
		callers.Go(func() {
			for i := range 30 {
				if err := h.call(t, d, client); err != nil {
					t.Error(err)
					return
				}
				id := fmt.Sprintf("%d-%d", client, i)
				stored, err := writeObject(t.Context(), d, id)
				if err != nil {
					t.Error(err)
					return
				}
				if stored {
					mu.Lock()
					acknowledged = append(acknowledged, id)
					mu.Unlock()
				}
			}
		})
	}
	callers.Wait()
	f.settle()
	for i, n := range f.nodes {
		for _, id := range acknowledged {
			if _, err := n.d.GetProject(t.Context(), id); err != nil {
				t.Errorf("copy %d: project %s, which was acknowledged: %v", i, id, err)
			}
		}
	}
	if result, _ := porcupine.CheckOperationsVerbose(platform, h.all, suite.HangLimit); result != porcupine.Ok {
		t.Errorf("the history of %d operations is %v", len(h.all), result)
	}
	t.Logf("%d operations, %d of unknown outcome; %d objects; %d entries", len(h.all), h.unknown, len(acknowledged), f.proposals())
}

// call calls one of the operations of the model.
func (h *history) call(t *testing.T, d *db.DB, client int) error {
	ctx, cancel := context.WithTimeout(t.Context(), suite.HangLimit)
	defer cancel()
	h.mu.Lock()
	call := platformCall{name: []string{"update", "create", "delete"}[rand.IntN(3)], rev: max(1, h.rev+int64(rand.IntN(3)-1))}
	h.mu.Unlock()
	from := time.Since(h.began)
	var err error
	switch call.name {
	case "update":
		b := connection("b", "p")
		b.Rev = call.rev
		err = d.UpdateBroker(ctx, b)
	case "create":
		err = d.CreateUser(ctx, user("contended"))
	case "delete":
		err = d.DeleteUser(ctx, "contended")
	}
	outcome, err := outcomeOf(err)
	if err == nil && outcome != "" {
		h.add(client, call, from, outcome)
	}
	return err
}

// writeObject writes a project with its row in the audit log, and what else there is, and reports
// whether it was acknowledged.
func writeObject(ctx context.Context, d *db.DB, id string) (stored bool, err error) {
	audited, a := db.WithAudit(ctx, db.AuditEvent{Time: time.Now(), Operation: "createProject", Object: id})
	outcome, err := outcomeOf(d.CreateProject(audited, project(id, "owner")))
	if err != nil || outcome != succeeded {
		return false, err
	}
	if !a.Stored() {
		return false, errors.New("the project was acknowledged, its row was not")
	}
	_, elsewhere := db.WithAudit(ctx, db.AuditEvent{Time: time.Now(), Operation: "elsewhere", Object: id})
	for _, write := range []func() error{
		func() error { return d.BeginAudit(ctx, elsewhere) },
		func() error { return d.CreateToken(ctx, token(id, id)) },
		func() error { return d.CreateSession(ctx, session(id, "owner")) },
		func() error { return d.UpdatePreferences(ctx, "owner", db.PreferencesUpdate{Theme: &id}) },
		func() error { return d.TouchTokens(ctx, map[string]time.Time{id: at(99), "none": at(99)}) },
		func() error { return d.DeleteSession(ctx, id) },
		func() error { return d.EndAudit(ctx, elsewhere, db.AuditDone, 204, "") },
	} {
		if _, err := outcomeOf(write()); err != nil {
			return false, err
		}
	}
	return true, nil
}

// TestSharedAdministrators demotes all administrators at the same time, at different copies: one
// of them stays.
func TestSharedAdministrators(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	ids := []string{"root0", "root1", "root2"}
	for _, id := range ids {
		u := user(id)
		u.Root = true
		must(t, f.nodes[0].d.CreateUser(t.Context(), u))
	}
	for round := range 15 {
		errs := make([]error, len(ids))
		var callers sync.WaitGroup
		for i, id := range ids {
			callers.Go(func() { errs[i] = f.nodes[i].d.SetRoot(t.Context(), id+"@example.org", false, at(100)) })
		}
		callers.Wait()
		last := 0
		for i, err := range errs {
			switch {
			case errors.Is(err, db.ErrLastRoot):
				last++
			case err != nil:
				t.Fatalf("round %d: %s: %v", round, ids[i], err)
			}
		}
		if last != 1 {
			t.Fatalf("round %d: %d administrators stayed: %v", round, last, errs)
		}
		for i, id := range ids {
			must(t, f.nodes[(i+1)%3].d.SetRoot(t.Context(), id+"@example.org", true, at(101)))
		}
	}
	f.settle()
}
