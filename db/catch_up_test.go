package db_test

import (
	"fmt"
	"sync"
	"testing"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/scripts/suite"
)

// TestCatchUp reads at one copy what was acknowledged at another one just before.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	var readers sync.WaitGroup
	for i := range 30 {
		id := fmt.Sprint("p", i)
		must(t, f.nodes[i%3].d.CreateProject(t.Context(), project(id, "owner")))
		for _, n := range f.nodes {
			readers.Go(func() {
				if err := n.d.CatchUp(t.Context()); err != nil {
					t.Error(err)
				} else if _, err := n.d.GetProject(t.Context(), id); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			})
		}
		if i%2 == 0 {
			readers.Wait()
		}
	}
	readers.Wait()
}

// TestCatchUpFails asks while the log does not know, and in a database that is not shared.
func TestCatchUpFails(t *testing.T) {
	t.Parallel()
	must(t, dbtest.New(t).CatchUp(t.Context()))
	f := newFleet(t, 1)
	f.set(func() { f.fault = func() fault { return unavailable } })
	for range 3 {
		wantErr(t, f.nodes[0].d.CatchUp(t.Context()), db.ErrUnavailable)
	}
	f.set(func() { f.fault = nil })
	suite.Eventually(t, func() error { return f.nodes[0].d.CatchUp(t.Context()) }) // the pause after a failure ends
	must(t, f.nodes[0].d.Unshare(t.Context()), f.nodes[0].d.CatchUp(t.Context()))
}
