package access

import (
	"bytes"
	"testing"

	"signalbox/broker"
)

// TestDurability checks which writes wait for the disk: none for a change that is in the
// log, all for changes of this broker alone and for a whole state.
func TestDurability(t *testing.T) {
	t.Parallel()
	l, nodes := sharedNodes(t, 2)
	c := nodes[1]
	want := func(what string, want int) {
		t.Helper()
		var got int
		if err := c.store.w.QueryRowContext(t.Context(), `PRAGMA synchronous`).Scan(&got); err != nil || got != want {
			t.Errorf("%s: synchronous is %d, %v, want %d", what, got, err, want)
		}
	}
	const full, normal = 2, 1
	want("at first", full)
	if err := nodes[0].CreateRole(t.Context(), broker.RoleSpec{RoleName: "r"}); err != nil {
		t.Fatal(err)
	}
	want("a change of the log", normal)
	if err := c.PutBan(t.Context(), broker.Ban{Kind: "username", Value: "u"}); err != nil {
		t.Fatal(err)
	}
	want("a ban", full)
	if err := nodes[0].DeleteRole(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	want("another change of the log", normal)
	s, err := nodes[0].Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	var b bytes.Buffer
	if _, err := s.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ImportState(t.Context(), uint64(len(l.entries)), &b); err != nil {
		t.Fatal(err)
	}
	want("a whole state", full)
}
