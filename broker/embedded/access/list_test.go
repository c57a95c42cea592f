package access

import (
	"bytes"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// fill adds clients, each with role r and in group g, without a command for each.
func fill(t testing.TB, c *Control, clients int) {
	t.Helper()
	d := dynsec.Document{
		Defaults: new(dynsec.Defaults),
		Roles:    []broker.Role{{RoleName: "r", AllowWildcardSubs: true, ACLs: role("", "a/#").ACLs}},
		Groups:   []broker.Group{{GroupName: "g", Roles: []broker.RoleRef{}}},
	}
	for i := range clients {
		name := fmt.Sprintf("client-%06d", i)
		d.Clients = append(d.Clients, dynsec.DocumentClient{Username: name, Roles: roleRefs([]string{"r"})})
		d.Groups[0].Clients = append(d.Groups[0].Clients, broker.MemberRef{Username: name, Priority: broker.NoPriority})
	}
	b, err := d.Marshal()
	must(t, err)
	_, err = c.ImportAccess(t.Context(), bytes.NewReader(b), true)
	must(t, err)
}

func collectAll[T any](t testing.TB, items iter.Seq2[T, error], name func(T) string) (names []string) {
	t.Helper()
	for item, err := range items {
		must(t, err)
		names = append(names, name(item))
	}
	return names
}

func TestListClients(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	fill(t, c, 5)
	c.SetConnections(func(username string) []string {
		if username == "client-000001" {
			return []string{"10.0.0.1", "10.0.0.2"}
		}
		return nil
	})
	odd := broker.MatchFunc(func(cl broker.Client) bool { return cl.Username[len(cl.Username)-1]%2 == 1 })
	for name, tc := range map[string]struct {
		options broker.ListOptions[broker.Client]
		total   int
		want    []string
	}{
		"all":             {broker.ListOptions[broker.Client]{Count: -1}, 5, []string{"client-000000", "client-000001", "client-000002", "client-000003", "client-000004"}},
		"a page":          {broker.ListOptions[broker.Client]{Offset: 1, Count: 2}, 5, []string{"client-000001", "client-000002"}},
		"beyond the end":  {broker.ListOptions[broker.Client]{Offset: 9, Count: 2}, 5, nil},
		"none":            {broker.ListOptions[broker.Client]{}, 5, nil},
		"names":           {broker.ListOptions[broker.Client]{Offset: 4, Count: -1, NamesOnly: true}, 5, []string{"client-000004"}},
		"matches":         {broker.ListOptions[broker.Client]{Count: -1, Match: odd}, 2, []string{"client-000001", "client-000003"}},
		"page of matches": {broker.ListOptions[broker.Client]{Offset: 1, Count: 1, Match: odd}, 2, []string{"client-000003"}},
	} {
		page, err := c.ListClients(t.Context(), tc.options)
		must(t, err)
		got := collectAll(t, page.Items, func(cl broker.Client) string { return cl.Username })
		if page.Total != tc.total || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %d, %v, want %d, %v", name, page.Total, got, tc.total, tc.want)
		}
	}
	page, err := c.ListClients(t.Context(), broker.ListOptions[broker.Client]{Offset: 1, Count: 1})
	must(t, err)
	for got := range page.Items {
		want := broker.Client{Username: "client-000001", Roles: roleRefs([]string{"r"}),
			Groups:      []broker.GroupRef{{GroupName: "g", Priority: broker.NoPriority}},
			Connections: []broker.Connection{{Address: "10.0.0.1"}, {Address: "10.0.0.2"}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if got, want := command(t, c, `{"command":"getClient","username":"client-000001"}`), `"connections":[{"address":"10.0.0.1"},{"address":"10.0.0.2"}]`; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
}

// TestListIsOneMoment changes the list while it is read.
func TestListIsOneMoment(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	fill(t, c, 50)
	page, err := c.ListClients(t.Context(), broker.ListOptions[broker.Client]{Count: -1})
	must(t, err)
	seen := 0
	for cl, err := range page.Items {
		must(t, err)
		seen++
		must(t, c.DeleteClient(t.Context(), cl.Username), c.CreateClient(t.Context(), broker.ClientSpec{Username: "new-" + cl.Username}))
	}
	if seen != 50 || page.Total != 50 {
		t.Errorf("saw %d of %d, want the 50 that were there at the beginning", seen, page.Total)
	}
}

func TestListGroupsAndRoles(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	fill(t, c, 2)
	must(t, c.CreateRole(t.Context(), role("a")))
	groups, err := c.ListGroups(t.Context(), broker.ListOptions[broker.Group]{Count: -1})
	must(t, err)
	for g := range groups.Items {
		want := broker.Group{GroupName: "g", Roles: []broker.RoleRef{}, Clients: []broker.MemberRef{
			{Username: "client-000000", Priority: broker.NoPriority}, {Username: "client-000001", Priority: broker.NoPriority}}}
		if diff := cmp.Diff(want, g); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	roles, err := c.ListRoles(t.Context(), broker.ListOptions[broker.Role]{Count: -1, NamesOnly: true})
	must(t, err)
	if got := collectAll(t, roles.Items, func(r broker.Role) string { return r.RoleName }); !slices.Equal(got, []string{"a", "r"}) {
		t.Errorf("got roles %v", got)
	}
}

// TestListingAllTakesNoMemory reads all clients and expects the memory in use meanwhile not
// to grow with their number.
func TestListingAllTakesNoMemory(t *testing.T) {
	// Not parallel: it looks at the heap.
	const clients = 4_000
	c := fresh(t)
	fill(t, c, clients)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := heap(), uint64(0)
	page, err := c.ListClients(t.Context(), broker.ListOptions[broker.Client]{Count: -1})
	must(t, err)
	i := 0
	for range page.Items {
		if i++; i%(clients/4) == 0 {
			most = max(most, heap())
		}
	}
	if grown := int64(most) - int64(before); i != clients || grown > clients*10 {
		t.Errorf("listing %d clients held %d bytes more", i, grown)
	}
}
