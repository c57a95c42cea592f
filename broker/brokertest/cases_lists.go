package brokertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

func listCases() []testCase {
	return slices.Concat(
		pagingCases("clients", func(s *fixture) lister[broker.Client] {
			return lister[broker.Client]{s.Broker.ListClients, s.makeClients, func(c broker.Client) string { return c.Username }}
		}),
		pagingCases("groups", func(s *fixture) lister[broker.Group] {
			return lister[broker.Group]{s.Broker.ListGroups, s.makeGroups, func(g broker.Group) string { return g.GroupName }}
		}),
		pagingCases("roles", func(s *fixture) lister[broker.Role] {
			return lister[broker.Role]{s.Broker.ListRoles, s.makeRoles, func(r broker.Role) string { return r.RoleName }}
		}),
		[]testCase{
			{name: "filters of clients find what they name", run: filterClients},
			{name: "a long list comes whole and in order", run: longList},
			{name: "a list can be left half-read, and changed while it is read", run: halfRead},
		})
}

// lister is a list of a broker.
type lister[T any] struct {
	list func(context.Context, broker.ListOptions[T]) (broker.Page[T], error)
	fill func(t *testing.T, names []string)
	name func(T) string
}

// listed are the names of the entries of pagingCases, in order.
var listed = []string{"list-00", "list-01", "list-02", "list-03", "list-04", "list-05", "list-06"}

func isListed(name string) bool { return strings.HasPrefix(name, "list-") }

func (s *fixture) makeClients(t *testing.T, names []string) {
	for _, n := range names {
		must(t, s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: n}))
	}
}

func (s *fixture) makeGroups(t *testing.T, names []string) {
	for _, n := range names {
		must(t, s.Broker.CreateGroup(t.Context(), broker.GroupSpec{GroupName: n}))
	}
}

func (s *fixture) makeRoles(t *testing.T, names []string) {
	for _, n := range names {
		must(t, s.Broker.CreateRole(t.Context(), broker.RoleSpec{RoleName: n}))
	}
}

func pagingCases[T any](what string, open func(*fixture) lister[T]) []testCase {
	named := func(rule string, run func(*testing.T, lister[T])) testCase {
		return testCase{name: what + ": " + rule, run: func(t *testing.T, s *fixture) { run(t, open(s)) }}
	}
	return []testCase{
		named("all come in the order of their names", listAll[T]),
		named("every window is cut from the whole", listWindows[T]),
		named("a filter comes before the window, and the total counts what it lets through", listMatches[T]),
		named("a filtered list ends when its caller leaves", listEndsWithCaller[T]),
		named("a list of names has the same names in the same order", listNames[T]),
	}
}

// names reads a page to its end and returns its names.
func (l lister[T]) names(t *testing.T, o broker.ListOptions[T]) (names []string, total int) {
	t.Helper()
	page, err := l.list(t.Context(), o)
	must(t, err)
	names = []string{}
	for item, err := range page.Items {
		must(t, err)
		names = append(names, l.name(item))
	}
	return names, page.Total
}

func listAll[T any](t *testing.T, l lister[T]) {
	shuffled := []string{listed[3], listed[0], listed[6], listed[1], listed[5], listed[2], listed[4]}
	l.fill(t, shuffled)
	names, total := l.names(t, broker.ListOptions[T]{Count: -1})
	if !slices.IsSorted(names) {
		t.Errorf("names are out of order: %q", names)
	}
	if total != len(names) {
		t.Errorf("total %d of %d entries", total, len(names))
	}
	ours := slices.DeleteFunc(names, func(n string) bool { return !isListed(n) })
	if diff := cmp.Diff(listed, ours); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func listWindows[T any](t *testing.T, l lister[T]) {
	all, _ := l.names(t, broker.ListOptions[T]{Count: -1})
	n := len(all)
	for _, w := range []struct{ offset, count int }{
		{0, 0}, {0, 1}, {0, 3}, {2, 3}, {n - 1, 5}, {n, 5}, {n + 10, 5}, {3, -1}, {n + 1, -1}, {0, n + 10}, {2, 0},
	} {
		want := all[min(w.offset, n):]
		if w.count >= 0 {
			want = want[:min(w.count, len(want))]
		}
		for _, namesOnly := range []bool{false, true} {
			got, total := l.names(t, broker.ListOptions[T]{Offset: w.offset, Count: w.count, NamesOnly: namesOnly})
			if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
				t.Errorf("offset %d, count %d, names only %t (-want +got):\n%s", w.offset, w.count, namesOnly, diff)
			}
			if total != n {
				t.Errorf("offset %d, count %d, names only %t: total %d, want %d", w.offset, w.count, namesOnly, total, n)
			}
		}
	}
}

func listMatches[T any](t *testing.T, l lister[T]) {
	odd := func(item T) bool { return isListed(l.name(item)) && strings.HasSuffix(l.name(item), "1") }
	ours := func(item T) bool { return isListed(l.name(item)) }
	none := func(T) bool { return false }
	tests := []struct {
		o     broker.ListOptions[T]
		want  []string
		total int
	}{
		{broker.ListOptions[T]{Count: -1, Match: broker.MatchFunc(ours)}, listed, 7},
		{broker.ListOptions[T]{Count: 2, Offset: 4, Match: broker.MatchFunc(ours)}, listed[4:6], 7},
		{broker.ListOptions[T]{Count: -1, Offset: 6, Match: broker.MatchFunc(ours)}, listed[6:], 7},
		{broker.ListOptions[T]{Count: -1, Offset: 7, Match: broker.MatchFunc(ours)}, []string{}, 7},
		{broker.ListOptions[T]{Count: 0, Match: broker.MatchFunc(ours)}, []string{}, 7},
		{broker.ListOptions[T]{Count: -1, Match: broker.MatchFunc(odd)}, listed[1:2], 1},
		{broker.ListOptions[T]{Count: -1, Match: broker.MatchFunc(none)}, []string{}, 0},
		{broker.ListOptions[T]{Count: 3, Offset: 1, NamesOnly: true, Match: broker.MatchFunc(ours)}, listed[1:4], 7},
	}
	for i, tt := range tests {
		got, total := l.names(t, tt.o)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("case %d (-want +got):\n%s", i, diff)
		}
		if total != tt.total {
			t.Errorf("case %d: total %d, want %d", i, total, tt.total)
		}
	}
}

// listEndsWithCaller cancels in the middle of a filtered list.
func listEndsWithCaller[T any](t *testing.T, l lister[T]) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	_, err := l.list(ctx, broker.ListOptions[T]{Count: -1, Match: func(context.Context, T) (bool, error) {
		seen++
		cancel()
		return true, nil
	}})
	if !errors.Is(err, context.Canceled) || seen != 1 {
		t.Errorf("after the caller left, the filter was asked %d times, want 1; error %v", seen, err)
	}
	if _, err := l.list(t.Context(), broker.ListOptions[T]{Count: -1, Match: func(context.Context, T) (bool, error) {
		return false, errStop
	}}); !errors.Is(err, errStop) {
		t.Errorf("the filter's error is lost: %v", err)
	}
}

var errStop = errors.New("enough")

func listNames[T any](t *testing.T, l lister[T]) {
	want, _ := l.names(t, broker.ListOptions[T]{Count: -1})
	got, _ := l.names(t, broker.ListOptions[T]{Count: -1, NamesOnly: true})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func filterClients(t *testing.T, s *fixture) {
	role, group := s.role(t), s.group(t)
	x := s.clientWith(t, broker.ClientSpec{TextName: new("Blue pump"), Roles: roleRefs([]string{role})})
	y := s.clientWith(t, broker.ClientSpec{TextName: new("red PUMP"), ClientID: new("id-9"), Groups: groupRefs(group)})
	for _, tt := range []struct {
		target, mode, value string
		want                []string
	}{
		{"textname", "contains", "pump", []string{x, y}},
		{"textname", "startsWith", "RED", []string{y}},
		{"rolename", "equals", role, []string{x}},
		{"groupname", "equals", group, []string{y}},
		{"clientid", "regex", `^id-\d$`, []string{y}},
		{"username", "equals", x, []string{x}},
	} {
		match, err := broker.ClientFilter(tt.target, tt.mode, tt.value)
		must(t, err)
		page, err := s.Broker.ListClients(t.Context(), broker.ListOptions[broker.Client]{Count: -1, Match: match})
		must(t, err)
		got := []string{}
		for c, err := range page.Items {
			must(t, err)
			got = append(got, c.Username)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s %s %q (-want +got):\n%s", tt.target, tt.mode, tt.value, diff)
		}
	}
}

// longList is longer than one page of the requests to remote brokers.
func longList(t *testing.T, s *fixture) {
	const n = 1200
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for i := caller; i < n; i += 8 {
				if err := s.Broker.CreateRole(t.Context(), broker.RoleSpec{RoleName: fmt.Sprintf("long-%04d", i)}); err != nil {
					t.Errorf("role %d: %v", i, err)
				}
			}
		})
	}
	callers.Wait()
	page, err := s.Broker.ListRoles(t.Context(), broker.ListOptions[broker.Role]{Count: -1})
	must(t, err)
	count, last := 0, ""
	for r, err := range page.Items {
		must(t, err)
		if r.RoleName <= last {
			t.Fatalf("%q comes after %q", r.RoleName, last)
		}
		last = r.RoleName
		if strings.HasPrefix(last, "long-") {
			count++
		}
	}
	if count != n {
		t.Errorf("%d of %d roles came", count, n)
	}
}

func halfRead(t *testing.T, s *fixture) {
	s.makeClients(t, []string{"half-0", "half-1", "half-2"})
	page, err := s.Broker.ListClients(t.Context(), broker.ListOptions[broker.Client]{Count: -1})
	must(t, err)
	for c, err := range page.Items {
		must(t, err)
		must(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: "half-2", TextName: new(c.Username)}))
		break
	}
	must(t, s.Broker.DeleteClient(t.Context(), "half-1"))
}
