package brokertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

func groupCases() []testCase {
	return []testCase{
		{name: "a group is read back with its roles in order of evaluation", run: createGroup},
		{name: "a group that is modified keeps what is not named", run: modifyGroupMerges},
		{name: "members and roles that are given replace the whole list", run: modifyGroupReplaces},
		{name: "empty lists clear", run: modifyGroupClears},
		{name: "members are in order of their names, whatever their priority", run: memberOrder},
		{name: "a priority given through the group is the client's", run: memberPriority},
		{name: "a deleted group is gone, also from its clients", run: deleteGroupCleans},
		{name: "an unknown group is not found", run: unknownGroup},
		{name: "a group that is there exists", run: groupExists},
		{name: "a group without a name is invalid", needs: []Feature{NonEmptyNames}, run: namelessGroup},
		{name: "a group with an unsound name is invalid", needs: []Feature{UTF8Names}, run: unsoundGroup},
		{name: "a group with an unknown role is not found, and not made", run: groupWithUnknownRole},
		{name: "a modification that failed changes nothing", needs: []Feature{CheckedModification}, run: failedGroupModification},
	}
}

func (s *fixture) wantGroup(t *testing.T, want broker.Group) {
	t.Helper()
	got, ok := s.findGroup(t, want.GroupName)
	if !ok {
		t.Fatalf("group %q is not listed", want.GroupName)
	}
	if want.Clients == nil {
		want.Clients = []broker.MemberRef{}
	}
	if want.Roles == nil {
		want.Roles = []broker.RoleRef{}
	}
	for i := range got.Clients {
		got.Clients[i].Priority = 0 // responses omit it
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("group (-want +got):\n%s", diff)
	}
}

func (s *fixture) wantMembers(t *testing.T, group string, usernames ...string) {
	t.Helper()
	got, ok := s.findGroup(t, group)
	if !ok {
		t.Fatalf("group %q is not listed", group)
	}
	members := []string{}
	for _, m := range got.Clients {
		members = append(members, m.Username)
	}
	if diff := cmp.Diff(append([]string{}, usernames...), members); diff != "" {
		t.Fatalf("members of %s (-want +got):\n%s", group, diff)
	}
}

// members returns the list of a record, in which priorities are omitted.
func members(usernames ...string) (refs []broker.MemberRef) {
	for _, u := range usernames {
		refs = append(refs, broker.MemberRef{Username: u})
	}
	return refs
}

func createGroup(t *testing.T, s *fixture) {
	a, b, name := s.role(t), s.role(t), s.name("group")
	must(t, s.Broker.CreateGroup(t.Context(), broker.GroupSpec{GroupName: name,
		TextName: new("Cellar"), TextDescription: new("All pumps"),
		Roles: []broker.RoleRef{{RoleName: a, Priority: broker.NoPriority}, {RoleName: b, Priority: 3}},
	}))
	s.wantGroup(t, broker.Group{GroupName: name, TextName: new("Cellar"), TextDescription: new("All pumps"),
		Roles: []broker.RoleRef{{RoleName: b, Priority: 3}, {RoleName: a, Priority: broker.NoPriority}}})
}

func modifyGroupMerges(t *testing.T, s *fixture) {
	role, client := s.role(t), s.client(t)
	group := s.group(t, role)
	must(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: group, Clients: memberRefs(client)}))
	must(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: group, TextName: new("Roof")}))
	must(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: group, TextDescription: new("All fans")}))
	s.wantGroup(t, broker.Group{GroupName: group, TextName: new("Roof"), TextDescription: new("All fans"),
		Roles: roleRefs([]string{role}), Clients: members(client)})
}

func modifyGroupReplaces(t *testing.T, s *fixture) {
	a, b, x, y, z := s.role(t), s.role(t), s.client(t), s.client(t), s.client(t)
	group := s.group(t, a)
	must(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: group, Clients: memberRefs(x, y)}))
	must(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: group,
		Clients: memberRefs(y, z), Roles: []broker.RoleRef{{RoleName: b, Priority: 5}}}))
	s.wantGroup(t, broker.Group{GroupName: group,
		Clients: members(y, z), Roles: []broker.RoleRef{{RoleName: b, Priority: 5}}})
	s.wantClient(t, broker.Client{Username: x})
	s.wantClient(t, broker.Client{Username: z, Groups: groupRefs(group)})
}

func modifyGroupClears(t *testing.T, s *fixture) {
	group, client := s.group(t, s.role(t)), s.client(t)
	must(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: group, Clients: memberRefs(client)}))
	must(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: group,
		Clients: []broker.MemberRef{}, Roles: []broker.RoleRef{}}))
	s.wantGroup(t, broker.Group{GroupName: group})
	s.wantClient(t, broker.Client{Username: client})
}

func memberOrder(t *testing.T, s *fixture) {
	x, y, z := s.client(t), s.client(t), s.client(t)
	group := s.group(t)
	must(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: group, Clients: []broker.MemberRef{
		{Username: z, Priority: 9}, {Username: x, Priority: broker.NoPriority}, {Username: y, Priority: 1}}}))
	s.wantMembers(t, group, x, y, z)
}

func memberPriority(t *testing.T, s *fixture) {
	client, group := s.client(t), s.group(t)
	must(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: group,
		Clients: []broker.MemberRef{{Username: client, Priority: 6}}}))
	s.wantClient(t, broker.Client{Username: client, Groups: []broker.GroupRef{{GroupName: group, Priority: 6}}})
}

func deleteGroupCleans(t *testing.T, s *fixture) {
	group := s.group(t)
	client := s.clientWith(t, broker.ClientSpec{Groups: groupRefs(group)})
	must(t, s.Broker.DeleteGroup(t.Context(), group))
	if _, there := s.findGroup(t, group); there {
		t.Error("the deleted group is still listed")
	}
	s.wantClient(t, broker.Client{Username: client})
	must(t, s.Broker.CreateGroup(t.Context(), broker.GroupSpec{GroupName: group}))
	s.wantMembers(t, group) // nothing of the deleted one remains
}

func unknownGroup(t *testing.T, s *fixture) {
	wantKind(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: "no group", TextName: new("x")}), broker.NotFound)
	wantKind(t, s.Broker.DeleteGroup(t.Context(), "no group"), broker.NotFound)
}

func groupExists(t *testing.T, s *fixture) {
	group := s.group(t)
	err := s.Broker.CreateGroup(t.Context(), broker.GroupSpec{GroupName: group, TextName: new("second")})
	wantKind(t, err, broker.Exists)
	s.wantGroup(t, broker.Group{GroupName: group})
}

func namelessGroup(t *testing.T, s *fixture) {
	wantKind(t, s.Broker.CreateGroup(t.Context(), broker.GroupSpec{}), broker.Invalid)
}

func unsoundGroup(t *testing.T, s *fixture) {
	wantKind(t, s.Broker.CreateGroup(t.Context(), broker.GroupSpec{GroupName: notUTF8}), broker.Invalid)
}

func groupWithUnknownRole(t *testing.T, s *fixture) {
	name := s.name("group")
	err := s.Broker.CreateGroup(t.Context(), broker.GroupSpec{GroupName: name, Roles: roleRefs([]string{"no role"})})
	wantKind(t, err, broker.NotFound)
	if _, there := s.findGroup(t, name); there {
		t.Error("the group was made all the same")
	}
}

func failedGroupModification(t *testing.T, s *fixture) {
	role, client := s.role(t), s.client(t)
	group := s.group(t, role)
	must(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: group, Clients: memberRefs(client)}))
	wantKind(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: group, TextName: new("x"),
		Roles: roleRefs([]string{"no role"})}), broker.NotFound)
	wantKind(t, s.Broker.ModifyGroup(t.Context(), broker.GroupSpec{GroupName: group, TextName: new("x"),
		Clients: memberRefs("nobody")}), broker.NotFound)
	s.wantGroup(t, broker.Group{GroupName: group, Roles: roleRefs([]string{role}), Clients: members(client)})
}
