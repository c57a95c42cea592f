package dynsec

import (
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
)

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	roles := []broker.RoleRef{{RoleName: "none"}}
	for _, tc := range []struct {
		name string
		r    LoadRecords
		want string
	}{
		{"a role twice", LoadRecords{Roles: slices.Values([]RoleRecord{{RoleName: "r"}, {RoleName: "r"}})}, `role "r" is there twice`},
		{"a group twice", LoadRecords{Groups: slices.Values([]GroupRecord{{GroupName: "g"}, {GroupName: "g"}})}, `group "g" is there twice`},
		{"a client twice", LoadRecords{Clients: slices.Values([]ClientRecord{{Username: "c"}, {Username: "c"}})}, `client "c" is there twice`},
		{"a group's role that is not there", LoadRecords{Groups: slices.Values([]GroupRecord{{GroupName: "g", Roles: roles}})}, `group "g": role "none" is not there`},
		{"a client's role that is not there", LoadRecords{Clients: slices.Values([]ClientRecord{{Username: "c", Roles: roles}})}, `client "c": role "none" is not there`},
		{"a client's group that is not there", LoadRecords{Clients: slices.Values([]ClientRecord{{Username: "c", Groups: []broker.GroupRef{{GroupName: "g"}}}})}, `client "c": group "g" is not there`},
		{"an anonymous group that is not there", LoadRecords{AnonymousGroup: "g"}, `anonymous group "g" is not there`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Load(tc.r); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestLoadPutsInOrder(t *testing.T) {
	t.Parallel()
	s, err := Load(LoadRecords{
		Roles:   slices.Values([]RoleRecord{{RoleName: "b"}, {RoleName: "a"}, {RoleName: "c"}}),
		Clients: slices.Values([]ClientRecord{{Username: "y"}, {Username: "x", Roles: []broker.RoleRef{{RoleName: "c", Priority: 1}, {RoleName: "b", Priority: 1}, {RoleName: "a", Priority: 5}}}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := usernames(t, part(t, s.ListClients, broker.ListOptions[broker.Client]{Count: -1})); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("clients %q", got)
	}
	c, _ := s.Client("x")
	want := []broker.RoleRef{{RoleName: "a", Priority: 5}, {RoleName: "b", Priority: 1}, {RoleName: "c", Priority: 1}}
	if !slices.Equal(c.Roles, want) {
		t.Errorf("roles %v, want %v", c.Roles, want)
	}
}
