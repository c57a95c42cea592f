package brokertest

import (
	"testing"

	"signalbox/broker"
)

// controlTopic is the topic for commands of dynamic security.
const controlTopic = "$CONTROL/dynamic-security/v1"

func anonymousCases() []testCase {
	return []testCase{
		{name: "without an anonymous group only the defaults hold", run: anonymousDefaults},
		{name: "the anonymous group's roles are the rights of who gives no username", run: anonymousRights},
		{name: "deleting a role of the anonymous group cuts off who gives no username", needs: []Feature{DeletableRoles}, run: anonymousRoleDeleted},
		{name: "the anonymous group cannot be deleted", needs: []Feature{AnonymousGroupStays}, run: anonymousGroupStays},
		{name: "a client in that group has its rights like any other member", run: anonymousMember},
	}
}

// setAnonymousGroup sets the anonymous group, and reads it.
func (s *fixture) setAnonymousGroup(t *testing.T, group string) {
	t.Helper()
	must(t, s.Broker.SetAnonymousGroup(t.Context(), group))
	got, err := s.Broker.GetAnonymousGroup(t.Context())
	must(t, err)
	if got != group {
		t.Errorf("anonymous group: got %q, want %q", got, group)
	}
}

// connectAnonymous connects without a username.
func (s *fixture) connectAnonymous(t *testing.T) *device {
	t.Helper()
	d, err := s.connect(t, identity{})
	if err != nil {
		t.Fatalf("a client without a username does not get in: %v", err)
	}
	return d
}

func anonymousDefaults(t *testing.T, s *fixture) {
	admin, d := s.admin(t), s.connectAnonymous(t)
	s.setDefaults(t, defaults(true, true, false, true)...)
	if !s.getsThrough(t, d, admin, "free/topic") {
		t.Error("the default that allows has no effect")
	}
	s.setDefaults(t, defaults(false, true, false, true)...)
	d.publish(t, "closed/topic", "closed", false)
	s.setDefaults(t, defaults(true, true, false, true)...)
	s.passMark(t, d, admin)
	if admin.has("closed") {
		t.Error("the default that refuses has no effect")
	}
	s.setDefaults(t, defaults(false, true, false, true)...)
}

func anonymousRights(t *testing.T, s *fixture) {
	admin := s.admin(t)
	before := s.connectAnonymous(t)
	role := s.role(t, append(markRights(), allow(broker.PublishClientSend, "anon/#"), allow(broker.SubscribePattern, "news/#"))...)
	s.setAnonymousGroup(t, s.group(t, role))
	before.isCutOff(t)

	d := s.connectAnonymous(t)
	wantFilters(t, d, map[string]bool{mark: true, "news/#": true, "secret": false})
	for topic, want := range map[string]bool{"anon/1": true, "other": false} {
		if got := s.getsThrough(t, d, admin, topic); got != want {
			t.Errorf("publish to %q gets through: %t, want %t", topic, got, want)
		}
	}
}

func anonymousRoleDeleted(t *testing.T, s *fixture) {
	role := s.role(t, markRights()...)
	s.setAnonymousGroup(t, s.group(t, role))
	d := s.connectAnonymous(t)
	must(t, s.Broker.DeleteRole(t.Context(), role))
	d.isCutOff(t)
}

func anonymousGroupStays(t *testing.T, s *fixture) {
	group := s.group(t)
	s.setAnonymousGroup(t, group)
	wantKind(t, s.Broker.SetAnonymousGroup(t.Context(), s.name("none")), broker.NotFound)
	wantKind(t, s.Broker.DeleteGroup(t.Context(), group), broker.Conflict)
	if _, there := s.findGroup(t, group); !there {
		t.Error("the group is gone all the same")
	}
}

func anonymousMember(t *testing.T, s *fixture) {
	admin := s.admin(t)
	role := s.role(t, append(markRights(), allow(broker.PublishClientSend, "anon/#"))...)
	group := s.group(t, role)
	s.setAnonymousGroup(t, group)
	member := s.login(t, s.clientWith(t, broker.ClientSpec{Groups: groupRefs(group)}))
	if !s.getsThrough(t, member, admin, "anon/1") {
		t.Error("a member has not the group's rights")
	}
	named := s.login(t, s.client(t, s.role(t, markRights()...)))
	if s.getsThrough(t, named, admin, "anon/1") {
		t.Error("a client outside the group has its rights")
	}
}
