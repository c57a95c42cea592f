package brokertest

import (
	"testing"

	"signalbox/broker"
)

func checkCases() []testCase {
	return []testCase{
		{name: "the access check says of a client what it then can do, and which ACL decides", run: checkClient},
		{name: "the access check knows the defaults, and clients that are not there", run: checkDefaults},
		{name: "the access check knows who is disabled, or bound to a client id", run: checkLogin},
	}
}

func (s *fixture) check(t *testing.T, username, clientID string, action broker.Action, topic string) broker.Verdict {
	t.Helper()
	v, err := s.Broker.CheckAccess(t.Context(), broker.AccessCheck{Username: username, ClientID: clientID, Action: action, Topic: topic})
	must(t, err)
	if v.Reason == "" || v.ACLType == "" {
		t.Errorf("no reason, or no ACL type: %+v", v)
	}
	return v
}

func checkClient(t *testing.T, s *fixture) {
	admin := s.admin(t)
	role := s.role(t, append(markRights(), allow(broker.PublishClientSend, "p/#"), allow(broker.SubscribePattern, "s/#"),
		broker.ACL{ACLType: broker.PublishClientSend, Topic: "p/no", Priority: 5}, deny(broker.SubscribeLiteral, "s/no"))...)
	group := s.group(t, role)
	username := s.clientWith(t, broker.ClientSpec{Groups: groupRefs(group)})
	d := s.login(t, username)
	for topic, acl := range map[string]string{"p/1": "p/#", "p/no": "p/no", "q": ""} {
		v, got := s.check(t, username, d.clientID, broker.ActionPublish, topic), s.getsThrough(t, d, admin, topic)
		if v.Allowed != got {
			t.Errorf("publish to %q: the check says %t, trying says %t", topic, v.Allowed, got)
		}
		s.wantSource(t, v, role, group, acl)
	}
	for filter, acl := range map[string]string{"s/1": "s/#", "s/no": "s/no", "q": ""} {
		v, got := s.check(t, username, d.clientID, broker.ActionSubscribe, filter), d.subscribe(t, filter)
		if v.Allowed != got {
			t.Errorf("subscribe to %q: the check says %t, trying says %t", filter, v.Allowed, got)
		}
		s.wantSource(t, v, role, group, acl)
	}
}

// wantSource checks that the verdict is based on the ACL of a role that is assigned through a
// group or, if the ACL is "", on the defaults.
func (s *fixture) wantSource(t *testing.T, v broker.Verdict, role, group, acl string) {
	t.Helper()
	if acl == "" {
		if v.Source != broker.DecidedByDefault || v.ACL != nil || v.RoleName != "" {
			t.Errorf("decided by a default: %+v", v)
		}
		return
	}
	if v.Source != broker.DecidedByACL || v.ACL == nil || v.ACL.Topic != acl || v.RoleName != role || v.Via != broker.ViaGroup || v.GroupName != group {
		t.Errorf("decided by %q of %s through %s: %+v", acl, role, group, v)
	}
}

func checkDefaults(t *testing.T, s *fixture) {
	username := s.client(t)
	for action, want := range map[broker.Action]bool{
		broker.ActionPublish: false, broker.ActionReceive: true, broker.ActionSubscribe: false, broker.ActionUnsubscribe: true,
	} {
		for _, who := range []string{username, ""} {
			if v := s.check(t, who, "", action, "a"); v.Allowed != want || v.Source != broker.DecidedByDefault {
				t.Errorf("%q may %s: %+v, want %t by default", who, action, v, want)
			}
		}
		if v := s.check(t, s.name("nobody"), "", action, "a"); v.Allowed || v.Source != broker.DecidedByUnknown {
			t.Errorf("nobody may %s: %+v", action, v)
		}
	}
	if v := s.check(t, username, "", broker.ActionPublish, "a/#"); v.Allowed || v.Source != broker.DecidedByTopic {
		t.Errorf("publish to a filter: %+v", v)
	}
}

func checkLogin(t *testing.T, s *fixture) {
	role := s.role(t, allow(broker.PublishClientSend, "a"))
	bound := s.clientWith(t, broker.ClientSpec{ClientID: new("only"), Roles: roleRefs([]string{role})})
	for clientID, want := range map[string]broker.DecidedBy{"only": broker.DecidedByACL, "": broker.DecidedByACL, "other": broker.DecidedByClientID} {
		if v := s.check(t, bound, clientID, broker.ActionPublish, "a"); v.Source != want || v.Allowed != (want == broker.DecidedByACL) {
			t.Errorf("with the client id %q: %+v, want %s", clientID, v, want)
		}
	}
	must(t, s.Broker.DisableClient(t.Context(), bound))
	if v := s.check(t, bound, "only", broker.ActionPublish, "a"); v.Allowed || v.Source != broker.DecidedByDisabled {
		t.Errorf("disabled: %+v", v)
	}
}
