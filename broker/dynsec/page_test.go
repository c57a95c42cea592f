package dynsec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// fleet is a state with n clients named c000000 and so on, each with the role
// "device" and in the group "fleet".
func fleet(t testing.TB, n int) *State {
	t.Helper()
	roles := []RoleRecord{{RoleName: "device", AllowWildcardSubs: true, ACLs: []broker.ACL{
		{ACLType: broker.PublishClientSend, Topic: "devices/%c/up", Allow: true},
		{ACLType: broker.SubscribePattern, Topic: "devices/%c/#", Allow: true},
	}}}
	s, err := Load(LoadRecords{
		Roles:  slices.Values(roles),
		Groups: slices.Values([]GroupRecord{{GroupName: "fleet"}}),
		Clients: func(yield func(ClientRecord) bool) {
			for i := range n {
				if !yield(ClientRecord{Username: fmt.Sprintf("c%06d", i), HasPassword: true,
					Roles:  []broker.RoleRef{{RoleName: "device", Priority: broker.NoPriority}},
					Groups: []broker.GroupRef{{GroupName: "fleet", Priority: broker.NoPriority}}}) {
					return
				}
			}
		},
		Defaults: DefaultDefaults(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func usernames(t *testing.T, p broker.Page[broker.Client]) []string {
	t.Helper()
	l := []string{}
	for c, err := range p.Items {
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, c.Username)
	}
	return l
}

func TestListClientsPages(t *testing.T) {
	t.Parallel()
	s := fleet(t, 1000)
	even := broker.MatchFunc(func(c broker.Client) bool {
		return strings.ContainsAny(c.Username[6:], "02468") && len(c.Roles) == 1
	})
	for _, tc := range []struct {
		name          string
		offset, count int
		match         broker.Match[broker.Client]
		total, n      int
		first         string
	}{
		{"all", 0, -1, nil, 1000, 1000, "c000000"},
		{"the first", 0, 2, nil, 1000, 2, "c000000"},
		{"in between", 500, 100, nil, 1000, 100, "c000500"},
		{"the last", 990, 100, nil, 1000, 10, "c000990"},
		{"past the end", 1000, 100, nil, 1000, 0, ""},
		{"none", 0, 0, nil, 1000, 0, ""},
		{"matching", 0, -1, even, 500, 500, "c000000"},
		{"matching, in between", 250, 3, even, 500, 3, "c000500"},
		{"matching, past the end", 501, -1, even, 500, 0, ""},
		{"matching, none", 0, 0, even, 500, 0, ""},
	} {
		for _, namesOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, names only %t", tc.name, namesOnly), func(t *testing.T) {
				t.Parallel()
				p := part(t, s.ListClients, broker.ListOptions[broker.Client]{Offset: tc.offset, Count: tc.count, Match: tc.match, NamesOnly: namesOnly})
				got := usernames(t, p)
				if p.Total != tc.total || len(got) != tc.n || len(got) > 0 && got[0] != tc.first || !slices.IsSorted(got) {
					t.Errorf("total %d, %d entries: %.3q…; want %d, %d from %q", p.Total, len(got), got, tc.total, tc.n, tc.first)
				}
			})
		}
	}
}

// part lists a page, which must not fail.
func part[T any](t testing.TB, list func(context.Context, broker.ListOptions[T]) (broker.Page[T], error), o broker.ListOptions[T]) broker.Page[T] {
	t.Helper()
	page, err := list(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestListsHoldWholeRecordsAndNeverNil(t *testing.T) {
	t.Parallel()
	s := fleet(t, 3)
	for c, err := range part(t, s.ListClients, broker.ListOptions[broker.Client]{Count: -1, NamesOnly: true}).Items {
		if err != nil || c.Roles == nil || c.Groups == nil || c.Connections == nil {
			t.Errorf("%+v, %v: a list is nil", c, err)
		}
	}
	var groups []broker.Group
	for g := range part(t, s.ListGroups, broker.ListOptions[broker.Group]{Count: -1}).Items {
		groups = append(groups, g)
	}
	want := []broker.Group{{GroupName: "fleet", Roles: []broker.RoleRef{}, Clients: []broker.MemberRef{
		{Username: "c000000", Priority: broker.NoPriority}, {Username: "c000001", Priority: broker.NoPriority}, {Username: "c000002", Priority: broker.NoPriority},
	}}}
	if diff := gocmp.Diff(want, groups); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for r := range part(t, s.ListRoles, broker.ListOptions[broker.Role]{Count: 1}).Items {
		if role, ok := s.Role("device"); !ok || !gocmp.Equal(r, role) || len(r.ACLs) != 2 {
			t.Errorf("listed %+v, got %+v", r, role)
		}
	}
	if _, ok := s.Client("none"); ok {
		t.Error("a client that is not there was found")
	}
}

func TestWritingBehindAListDoesNotReachTheState(t *testing.T) {
	t.Parallel()
	s := fleet(t, 1)
	c, _ := s.Client("c000000")
	_ = append(c.Roles, broker.RoleRef{RoleName: "other"})
	r, _ := s.Role("device")
	_ = append(r.ACLs, broker.ACL{Topic: "other"})
	again, err := Load(s.records())
	if err != nil {
		t.Fatal(err)
	}
	sameState(t, "after appending", fleet(t, 1), again)
}

// TestNameSearch compares the search in joined names with the filter of each.
func TestNameSearch(t *testing.T) {
	t.Parallel()
	var records []ClientRecord
	for _, stem := range []string{"client", "Pump", "METER", "Größe", "\u212Aelvin", "@[`{Z", "z"} {
		for i := range 1500 { // several times what is searched at once
			records = append(records, ClientRecord{Username: fmt.Sprintf("%s-%d", stem, i*7)})
		}
	}
	s, err := Load(LoadRecords{Clients: slices.Values(records)})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"client-70", "pump", "MeTeR-1", "ö", "GRÖSSE", "größe-10", "kelvin", "z", "@", "[`", "-", "99", "3-", "7\nclient", "\n", "no such", "client-10493", "a", "elvin-7"} {
		match, err := broker.ClientFilter("username", "contains", part)
		if err != nil {
			t.Fatal(err)
		}
		o := broker.ListOptions[broker.Client]{Offset: 1, Count: -1, Match: match}
		want := listedNames(t, s, o)
		o.NameContains = strings.ToLower(part)
		if got := listedNames(t, s, o); !slices.Equal(got, want) {
			t.Errorf("%q: got %d names, want %d", part, len(got), len(want))
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := s.ListClients(ended, broker.ListOptions[broker.Client]{NameContains: "a", Match: broker.MatchFunc(func(broker.Client) bool { return true })}); err == nil {
		t.Error("an ended context did not end the search")
	}
}

func listedNames(t *testing.T, s *State, o broker.ListOptions[broker.Client]) (list []string) {
	t.Helper()
	page, err := s.ListClients(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range page.Items {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c.Username)
	}
	if page.Total != len(list) && page.Total != len(list)+1 {
		t.Errorf("total %d with %d after the first", page.Total, len(list))
	}
	return list
}

// BenchmarkContains filters by a part of the name, with the search in joined names and without.
func BenchmarkContains(b *testing.B) {
	s := fleet(b, 1_000_000)
	match, err := broker.ClientFilter("username", "contains", "99999")
	if err != nil {
		b.Fatal(err)
	}
	for name, part := range map[string]string{"each": "", "joined": "99999"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				page, err := s.ListClients(b.Context(), broker.ListOptions[broker.Client]{Count: -1, Match: match, NameContains: part})
				if err != nil || page.Total != 19 {
					b.Fatal(page.Total, err)
				}
			}
		})
	}
}
