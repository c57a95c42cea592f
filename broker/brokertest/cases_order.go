package brokertest

import (
	"testing"

	"signalbox/broker"
)

func orderCases() []testCase {
	return []testCase{
		{name: "of a client's roles the one with the highest priority decides", run: rolesByPriority},
		{name: "of roles with one priority the first by name decides", run: rolesByName},
		{name: "a client's own roles come before those of its groups", run: ownRolesFirst},
		{name: "of its groups the one with the highest priority decides, then the first by name", run: groupsByPriority},
		{name: "of a group's roles the one with the highest priority decides", run: groupRolesByPriority},
		{name: "of a role's ACLs the one with the highest priority decides, then the first", run: aclsByPriority},
		{name: "what no role mentions falls through to the next, and to the default", run: fallThrough},
	}
}

// verdicts has roles that allow (ya) and refuse (no) one topic, and checks clients with them. The
// names sort no before ya.
type verdicts struct {
	*fixture
	admin        *device
	topic        string
	mark, no, ya string
}

func (s *fixture) verdicts(t *testing.T) *verdicts {
	t.Helper()
	v := &verdicts{fixture: s, admin: s.admin(t), topic: s.name("order/topic"), mark: s.role(t, markRights()...)}
	v.no = s.role(t, deny(broker.PublishClientSend, v.topic))
	v.ya = s.role(t, allow(broker.PublishClientSend, v.topic))
	return v
}

// groupOf creates a group with these roles.
func (v *verdicts) groupOf(t *testing.T, roles ...broker.RoleRef) string {
	t.Helper()
	name := v.name("group")
	must(t, v.Broker.CreateGroup(t.Context(), broker.GroupSpec{GroupName: name, Roles: roles}))
	return name
}

// want checks a client with these roles and groups, and those for mark.
func (v *verdicts) want(t *testing.T, granted bool, roles []broker.RoleRef, groups []broker.GroupRef) {
	t.Helper()
	roles = append(roles, ref(v.mark, 1000))
	d := v.login(t, v.clientWith(t, broker.ClientSpec{Roles: roles, Groups: groups}))
	if got := v.getsThrough(t, d, v.admin, v.topic); got != granted {
		t.Errorf("roles %v, groups %v: publish gets through: %t, want %t", roles, groups, got, granted)
	}
}

func ref(name string, p broker.Priority) broker.RoleRef {
	return broker.RoleRef{RoleName: name, Priority: p}
}

func in(name string, p broker.Priority) broker.GroupRef {
	return broker.GroupRef{GroupName: name, Priority: p}
}

func rolesByPriority(t *testing.T, s *fixture) {
	v := s.verdicts(t)
	v.want(t, true, []broker.RoleRef{ref(v.ya, 5), ref(v.no, 1)}, nil)
	v.want(t, false, []broker.RoleRef{ref(v.ya, 1), ref(v.no, 5)}, nil)
	v.want(t, true, []broker.RoleRef{ref(v.no, -5), ref(v.ya, broker.NoPriority)}, nil)
}

func rolesByName(t *testing.T, s *fixture) {
	v := s.verdicts(t)
	v.want(t, false, []broker.RoleRef{ref(v.ya, 2), ref(v.no, 2)}, nil)
	v.want(t, false, []broker.RoleRef{ref(v.no, broker.NoPriority), ref(v.ya, broker.NoPriority)}, nil)
}

func ownRolesFirst(t *testing.T, s *fixture) {
	v := s.verdicts(t)
	no, ya := v.groupOf(t, ref(v.no, 99)), v.groupOf(t, ref(v.ya, 99))
	v.want(t, true, []broker.RoleRef{ref(v.ya, -1)}, []broker.GroupRef{in(no, 99)})
	v.want(t, false, []broker.RoleRef{ref(v.no, -1)}, []broker.GroupRef{in(ya, 99)})
}

func groupsByPriority(t *testing.T, s *fixture) {
	v := s.verdicts(t)
	no, ya := v.groupOf(t, ref(v.no, 1)), v.groupOf(t, ref(v.ya, 1))
	v.want(t, true, nil, []broker.GroupRef{in(ya, 5), in(no, 1)})
	v.want(t, false, nil, []broker.GroupRef{in(ya, 1), in(no, 5)})
	v.want(t, false, nil, []broker.GroupRef{in(ya, 1), in(no, 1)})
}

func groupRolesByPriority(t *testing.T, s *fixture) {
	v := s.verdicts(t)
	v.want(t, true, nil, []broker.GroupRef{in(v.groupOf(t, ref(v.ya, 5), ref(v.no, 1)), 1)})
	v.want(t, false, nil, []broker.GroupRef{in(v.groupOf(t, ref(v.ya, 1), ref(v.no, 5)), 1)})
	v.want(t, false, nil, []broker.GroupRef{in(v.groupOf(t, ref(v.ya, 1), ref(v.no, 1)), 1)})
}

func aclsByPriority(t *testing.T, s *fixture) {
	v := s.verdicts(t)
	send := func(topic string, priority int, allow bool) broker.ACL {
		return broker.ACL{ACLType: broker.PublishClientSend, Topic: topic, Priority: priority, Allow: allow}
	}
	check := func(granted bool, acls ...broker.ACL) {
		t.Helper()
		v.want(t, granted, []broker.RoleRef{ref(s.role(t, acls...), 1)}, nil)
	}
	check(true, send("#", 0, false), send(v.topic, 1, true))
	check(false, send("#", 3, false), send(v.topic, 1, true))
	check(false, send("#", 0, false), send(v.topic, 0, true))
	check(true, send(v.topic, 0, true), send("#", 0, false))
	check(true, send("#", -9, true), send(v.topic, -10, false))
}

func fallThrough(t *testing.T, s *fixture) {
	v := s.verdicts(t)
	silent := s.role(t, allow(broker.PublishClientSend, "elsewhere"), allow(broker.SubscribePattern, "#"))
	v.want(t, true, []broker.RoleRef{ref(silent, 9), ref(v.ya, 1)}, nil)
	v.want(t, true, []broker.RoleRef{ref(silent, 9)}, []broker.GroupRef{in(v.groupOf(t, ref(v.ya, 1)), 1)})
	v.want(t, false, []broker.RoleRef{ref(silent, 9)}, nil)
	v.want(t, false, nil, nil)
}
