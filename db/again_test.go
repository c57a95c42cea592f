package db_test

import (
	"fmt"
	"testing"

	"signalbox/db"
)

// TestSharedAgain makes changes whose proposals are lost, applied or late without the proposer learning
// of it: each is made once, and confirmed.
func TestSharedAgain(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]fault{"lost": dropped, "applied": unconfirmed, "late": late} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 2)
			before, err := f.nodes[1].d.ListAudit(t.Context(), db.AuditFilter{}, 1000)
			must(t, err)
			proposed := 0
			f.set(func() {
				f.fault = func() fault {
					if proposed++; proposed%4 != 0 {
						return what
					}
					return none
				}
			})
			for i := range 5 {
				id := fmt.Sprint("again", i)
				must(t, f.nodes[0].d.CreateProject(t.Context(), project(id, "owner")),
					f.nodes[0].d.AddAudit(t.Context(), db.AuditEvent{Time: at(int64(i)), Operation: id}))
			}
			f.settle()
			after, err := f.nodes[1].d.ListAudit(t.Context(), db.AuditFilter{}, 1000)
			must(t, err)
			wantEqual(t, len(after)-len(before), 5)
		})
	}
}

// TestSharedAgainLate proposes an entry again that may have been applied before all those whose outcomes are known.
func TestSharedAgainLate(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	asked := 0
	f.set(func() {
		f.fault = func() fault {
			if asked++; asked == 1 {
				return dropped
			}
			return none
		}
	})
	g := newGate(f.nodes[0])
	must(t, f.nodes[0].d.Share(t.Context(), g))
	errs := make(chan error, 1)
	go func() { errs <- f.nodes[0].d.CreateProject(t.Context(), project("late", "owner")) }()
	<-g.arrived
	g.open <- struct{}{}
	<-g.arrived // it is proposed again
	for _, n := range f.nodes {
		must(t, n.d.Age(t.Context()))
	}
	close(g.open)
	wantErr(t, <-errs, db.ErrUnconfirmed)
	must(t, f.nodes[0].d.Share(t.Context(), f.nodes[0]))
	f.settle()
}
