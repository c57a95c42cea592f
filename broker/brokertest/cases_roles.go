package brokertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

func roleCases() []testCase {
	return []testCase{
		{name: "a role is read back with its ACLs by type and then by priority", run: createRole},
		{name: "a role that is modified keeps what is not named", run: modifyRoleMerges},
		{name: "ACLs that are given replace all, and an empty list clears", run: modifyRoleReplaces},
		{name: "a role that refuses wildcards says so", needs: []Feature{AllowWildcardSubs}, run: wildcardFlag},
		{name: "a deleted role is gone", run: deleteRole},
		{name: "a deleted role is gone from clients and groups", needs: []Feature{DeletableRoles}, run: deleteRoleCleans},
		{name: "an unknown role is not found", run: unknownRole},
		{name: "a role that is there exists", run: roleExists},
		{name: "a role with an unsound name is invalid", needs: []Feature{UTF8Names}, run: unsoundRole},
		{name: "a role without a name is invalid", needs: []Feature{NonEmptyNames}, run: namelessRole},
	}
}

func (s *fixture) wantRole(t *testing.T, want broker.Role) {
	t.Helper()
	got, ok := s.findRole(t, want.RoleName)
	if !ok {
		t.Fatalf("role %q is not listed", want.RoleName)
	}
	if want.ACLs == nil {
		want.ACLs = []broker.ACL{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("role (-want +got):\n%s", diff)
	}
}

// everyType returns an ACL of each type, in the order of a record.
func everyType() []broker.ACL {
	return []broker.ACL{
		{ACLType: broker.PublishClientSend, Topic: "a/b", Priority: 7},
		{ACLType: broker.PublishClientSend, Topic: "a/#", Priority: 3, Allow: true},
		{ACLType: broker.PublishClientReceive, Topic: "a/+", Allow: true},
		{ACLType: broker.SubscribeLiteral, Topic: "#", Priority: -2},
		{ACLType: broker.SubscribePattern, Topic: "a/#", Allow: true},
		{ACLType: broker.UnsubscribeLiteral, Topic: "a/x"},
		{ACLType: broker.UnsubscribePattern, Topic: "#", Allow: true},
	}
}

func createRole(t *testing.T, s *fixture) {
	want := everyType()
	name := s.name("role")
	shuffled := []broker.ACL{want[4], want[1], want[6], want[3], want[0], want[5], want[2]}
	must(t, s.Broker.CreateRole(t.Context(), broker.RoleSpec{RoleName: name,
		TextName: new("Pumps"), TextDescription: new("What pumps may do"), ACLs: shuffled}))
	s.wantRole(t, broker.Role{RoleName: name, TextName: new("Pumps"),
		TextDescription: new("What pumps may do"), AllowWildcardSubs: true, ACLs: want})
}

func modifyRoleMerges(t *testing.T, s *fixture) {
	name := s.role(t, everyType()...)
	must(t, s.Broker.ModifyRole(t.Context(), broker.RoleSpec{RoleName: name, TextName: new("Fans")}))
	must(t, s.Broker.ModifyRole(t.Context(), broker.RoleSpec{RoleName: name, TextDescription: new("On the roof")}))
	s.wantRole(t, broker.Role{RoleName: name, TextName: new("Fans"), TextDescription: new("On the roof"),
		AllowWildcardSubs: true, ACLs: everyType()})
}

func modifyRoleReplaces(t *testing.T, s *fixture) {
	name := s.role(t, everyType()...)
	acls := []broker.ACL{{ACLType: broker.PublishClientSend, Topic: "z", Priority: 1, Allow: true}}
	must(t, s.Broker.ModifyRole(t.Context(), broker.RoleSpec{RoleName: name, ACLs: acls}))
	s.wantRole(t, broker.Role{RoleName: name, AllowWildcardSubs: true, ACLs: acls})
	must(t, s.Broker.ModifyRole(t.Context(), broker.RoleSpec{RoleName: name, ACLs: []broker.ACL{}}))
	s.wantRole(t, broker.Role{RoleName: name, AllowWildcardSubs: true})
}

func wildcardFlag(t *testing.T, s *fixture) {
	name := s.name("role")
	must(t, s.Broker.CreateRole(t.Context(), broker.RoleSpec{RoleName: name, AllowWildcardSubs: new(false)}))
	s.wantRole(t, broker.Role{RoleName: name})
	must(t, s.Broker.ModifyRole(t.Context(), broker.RoleSpec{RoleName: name, TextName: new("x")}))
	s.wantRole(t, broker.Role{RoleName: name, TextName: new("x")})
	must(t, s.Broker.ModifyRole(t.Context(), broker.RoleSpec{RoleName: name, AllowWildcardSubs: new(true)}))
	s.wantRole(t, broker.Role{RoleName: name, TextName: new("x"), AllowWildcardSubs: true})
}

func deleteRole(t *testing.T, s *fixture) {
	role := s.role(t, everyType()...)
	must(t, s.Broker.DeleteRole(t.Context(), role))
	if _, there := s.findRole(t, role); there {
		t.Error("the deleted role is still listed")
	}
	must(t, s.Broker.CreateRole(t.Context(), broker.RoleSpec{RoleName: role}))
	s.wantRole(t, broker.Role{RoleName: role, AllowWildcardSubs: true}) // nothing of the deleted one remains
}

func deleteRoleCleans(t *testing.T, s *fixture) {
	role, other := s.role(t), s.role(t)
	client, group := s.client(t, role, other), s.group(t, role)
	must(t, s.Broker.DeleteRole(t.Context(), role))
	s.wantClient(t, broker.Client{Username: client, Roles: roleRefs([]string{other})})
	s.wantGroup(t, broker.Group{GroupName: group})
	must(t, s.Broker.CreateRole(t.Context(), broker.RoleSpec{RoleName: role}))
	s.wantClient(t, broker.Client{Username: client, Roles: roleRefs([]string{other})})
}

func unknownRole(t *testing.T, s *fixture) {
	wantKind(t, s.Broker.ModifyRole(t.Context(), broker.RoleSpec{RoleName: "no role", TextName: new("x")}), broker.NotFound)
	wantKind(t, s.Broker.DeleteRole(t.Context(), "no role"), broker.NotFound)
}

func roleExists(t *testing.T, s *fixture) {
	role := s.role(t, everyType()...)
	err := s.Broker.CreateRole(t.Context(), broker.RoleSpec{RoleName: role, TextName: new("second")})
	wantKind(t, err, broker.Exists)
	s.wantRole(t, broker.Role{RoleName: role, AllowWildcardSubs: true, ACLs: everyType()})
}

func unsoundRole(t *testing.T, s *fixture) {
	wantKind(t, s.Broker.CreateRole(t.Context(), broker.RoleSpec{RoleName: notUTF8}), broker.Invalid)
}

func namelessRole(t *testing.T, s *fixture) {
	wantKind(t, s.Broker.CreateRole(t.Context(), broker.RoleSpec{}), broker.Invalid)
}
