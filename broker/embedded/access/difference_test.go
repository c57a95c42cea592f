package access

import (
	"fmt"
	"testing"

	"signalbox/broker"
)

// TestStoresOnlyDifferences changes a group whose members have a role and another group:
// only one row per membership is written.
func TestStoresOnlyDifferences(t *testing.T) {
	t.Parallel()
	const members = 500
	c := fresh(t)
	fill(t, c, members)
	must(t, c.CreateGroup(t.Context(), broker.GroupSpec{GroupName: "large"}))
	all := []broker.MemberRef{}
	for i := range members {
		all = append(all, broker.MemberRef{Username: fmt.Sprintf("client-%06d", i), Priority: broker.NoPriority})
	}
	written := func() (rows int) {
		must(t, c.store.w.QueryRowContext(t.Context(), "SELECT total_changes()").Scan(&rows))
		return rows
	}
	for name, clients := range map[string][]broker.MemberRef{"enter": all, "leave": {}} {
		if name == "leave" {
			must(t, c.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: "large", Clients: all}))
		}
		before := written()
		must(t, c.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: "large", Clients: clients}))
		if n := written() - before; n > members+10 {
			t.Errorf("%s: %d rows were written for %d members", name, n, members)
		}
	}
}
