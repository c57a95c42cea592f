package brokertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

func defaultACLCases() []testCase {
	return []testCase{
		{name: "a new broker has mosquitto's four defaults in their order", run: newDefaults},
		{name: "a default that is set is read back and the others stay", run: setOneDefault},
		{name: "all four defaults can be set at once", run: setAllDefaults},
		{name: "the default decides where no ACL matches", run: defaultDecides},
		{name: "no default opens the control topics", run: defaultKeepsControlClosed},
	}
}

// defaults returns the four defaults in order.
func defaults(send, receive, subscribe, unsubscribe bool) []broker.DefaultACL {
	return []broker.DefaultACL{
		{ACLType: "publishClientSend", Allow: send},
		{ACLType: "publishClientReceive", Allow: receive},
		{ACLType: "subscribe", Allow: subscribe},
		{ACLType: "unsubscribe", Allow: unsubscribe},
	}
}

func (s *fixture) setDefaults(t *testing.T, acls ...broker.DefaultACL) {
	t.Helper()
	must(t, s.Broker.SetDefaultACLAccess(t.Context(), acls))
}

func (s *fixture) wantDefaults(t *testing.T, want []broker.DefaultACL) {
	t.Helper()
	got, err := s.Broker.GetDefaultACLAccess(t.Context())
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("default access (-want +got):\n%s", diff)
	}
}

func newDefaults(t *testing.T, s *fixture) {
	s.wantDefaults(t, defaults(false, true, false, true))
}

func setOneDefault(t *testing.T, s *fixture) {
	s.setDefaults(t, broker.DefaultACL{ACLType: "subscribe", Allow: true})
	s.wantDefaults(t, defaults(false, true, true, true))
	s.setDefaults(t, broker.DefaultACL{ACLType: "subscribe", Allow: false})
	s.wantDefaults(t, defaults(false, true, false, true))
}

func setAllDefaults(t *testing.T, s *fixture) {
	s.setDefaults(t, defaults(true, false, true, false)...)
	s.wantDefaults(t, defaults(true, false, true, false))
	s.setDefaults(t, defaults(false, true, false, true)...)
	s.wantDefaults(t, defaults(false, true, false, true))
}

func defaultDecides(t *testing.T, s *fixture) {
	admin, d := s.admin(t), s.device(t)
	if s.getsThrough(t, d, admin, "free/topic") {
		t.Error("published where the default denies it")
	}
	if d.subscribe(t, "free/topic") {
		t.Error("subscribed where the default denies it")
	}
	s.setDefaults(t, defaults(true, true, true, true)...)
	if !s.getsThrough(t, d, admin, "free/topic") {
		t.Error("not published where the default allows it")
	}
	if !d.subscribe(t, "free/topic") || !d.subscribe(t, mark) {
		t.Error("not subscribed where the default allows it")
	}
	s.setDefaults(t, broker.DefaultACL{ACLType: "publishClientReceive", Allow: false})
	if s.getsThrough(t, admin, d, "free/topic") {
		t.Error("delivered where the default denies it")
	}
	s.setDefaults(t, defaults(false, true, false, true)...)
}

func defaultKeepsControlClosed(t *testing.T, s *fixture) {
	s.setDefaults(t, defaults(true, true, true, true)...)
	d, name := s.device(t), s.name("role")
	d.publish(t, controlTopic, `{"commands":[{"command":"createRole","rolename":"`+name+`"}]}`, false)
	d.isConnected(t) // so what it sent before was processed
	if _, there := s.findRole(t, name); there {
		t.Error("a command was done for somebody without any right to give it")
	}
	s.setDefaults(t, defaults(false, true, false, true)...)
}
