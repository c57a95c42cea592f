package brokertest

import (
	"testing"

	"signalbox/broker"
)

func publishCases() []testCase {
	return []testCase{
		{name: "only what publishClientSend allows gets through, wildcards included", run: publishPatterns},
		{name: "who is refused a publish stays connected", run: publishRefused},
		{name: "a retained message that is refused does not replace the one kept", run: publishRetained},
		{name: "%c and %u stand for client id and username", needs: []Feature{PercentSubstitution}, run: publishSubstituted},
	}
}

func publishPatterns(t *testing.T, s *fixture) {
	admin := s.admin(t)
	d := s.device(t,
		allow(broker.PublishClientSend, "a/#"), allow(broker.PublishClientSend, "p/+/q"),
		broker.ACL{ACLType: broker.PublishClientSend, Topic: "a/no", Priority: 1},
		allow(broker.SubscribePattern, "b/#"), allow(broker.PublishClientReceive, "b/#"))
	for topic, want := range map[string]bool{
		"a": true, "a/1": true, "a/1/2": true, "a/no": false, "a/no/1": true, "A/1": false,
		"b": false, "b/1": false, "p/x/q": true, "p/x/y/q": false, "p/x": false, "p//q": true, "/a": false,
	} {
		if got := s.getsThrough(t, d, admin, topic); got != want {
			t.Errorf("publish to %q gets through: %t, want %t", topic, got, want)
		}
	}
}

func publishRefused(t *testing.T, s *fixture) {
	admin, d := s.admin(t), s.device(t)
	for range 3 {
		d.publish(t, "not/allowed", "x", false)
	}
	s.passMark(t, d, admin)
}

func publishRetained(t *testing.T, s *fixture) {
	admin := s.admin(t)
	topic := s.name("kept")
	admin.publish(t, topic, "first", true)
	d := s.device(t, allow(broker.SubscribeLiteral, topic))
	d.publish(t, topic, "second", true)
	d.publish(t, topic, "", true) // nor does it remove it
	if !d.subscribe(t, topic) {
		t.Fatal("the subscription is refused")
	}
	WaitFor(t, "the first retained message has come", func() bool { return d.has("first") })
	if d.has("second") {
		t.Error("the refused message was kept")
	}
}

func publishSubstituted(t *testing.T, s *fixture) {
	admin := s.admin(t)
	d := s.device(t, allow(broker.PublishClientSend, "by-id/%c/x"), allow(broker.PublishClientSend, "by-name/%u"))
	for topic, want := range map[string]bool{
		"by-id/" + d.clientID + "/x": true, "by-id/" + d.username + "/x": false, "by-id/%c/x": false,
		"by-name/" + d.username: true, "by-name/" + d.clientID: false, "by-name/somebody": false,
	} {
		if got := s.getsThrough(t, d, admin, topic); got != want {
			t.Errorf("publish to %q gets through: %t, want %t", topic, got, want)
		}
	}
}

func subscribeCases() []testCase {
	return []testCase{
		{name: "a pattern allows every filter that it covers", run: subscribePattern},
		{name: "a literal allows this very filter, before any pattern", run: subscribeLiteral},
		{name: "a shared subscription is judged by its filter as sent", run: subscribeShared},
		{name: "a pattern does not reach into topics with a leading $", needs: []Feature{ClosedDollarTopics}, run: subscribeDollar},
		{name: "a role that refuses wildcards refuses them before its ACLs", needs: []Feature{AllowWildcardSubs}, run: subscribeWildcards},
		{name: "a refused filter delivers nothing", run: subscribeRefused},
	}
}

// wantFilters subscribes the device to each filter and compares the results.
func wantFilters(t *testing.T, d *device, want map[string]bool) {
	t.Helper()
	for filter, granted := range want {
		if got := d.subscribe(t, filter); got != granted {
			t.Errorf("subscribe to %q granted: %t, want %t", filter, got, granted)
		}
	}
}

func subscribePattern(t *testing.T, s *fixture) {
	d := s.device(t, allow(broker.SubscribePattern, "a/+/c/#"))
	wantFilters(t, d, map[string]bool{
		"a/b/c": true, "a/+/c": true, "a/b/c/d": true, "a/+/c/#": true, "a/b/c/#": true,
		"a/#": false, "a/+/+/#": false, "#": false, "+/b/c": false, "a/b/+": false, "A/b/c": false,
	})
}

func subscribeLiteral(t *testing.T, s *fixture) {
	d := s.device(t,
		allow(broker.SubscribeLiteral, "a/+"), deny(broker.SubscribeLiteral, "a/x"), allow(broker.SubscribeLiteral, "b/1"),
		broker.ACL{ACLType: broker.SubscribePattern, Topic: "a/#", Priority: 9, Allow: true})
	wantFilters(t, d, map[string]bool{
		"a/+": true, "a/x": false, "a/y": true, "b/1": true, "b/+": false, "b": false,
	})
}

func subscribeShared(t *testing.T, s *fixture) {
	d := s.device(t, allow(broker.SubscribePattern, "a/+/c/#"), allow(broker.SubscribeLiteral, "b/1"))
	wantFilters(t, d, map[string]bool{"$share/g/a/b/c": false, "$share/g/a/x": false, "$share/g/b/1": false})
}

func subscribeDollar(t *testing.T, s *fixture) {
	d := s.device(t, allow(broker.SubscribePattern, "#"))
	wantFilters(t, d, map[string]bool{
		"#": true, "+": true, "x/y": true, "$SYS/#": false, "$SYS/broker/uptime": false,
		controlTopic + "/response": false, "$other/x": false, "$share/g/x": false,
	})
}

func subscribeWildcards(t *testing.T, s *fixture) {
	role := s.name("role")
	must(t, s.Broker.CreateRole(t.Context(), broker.RoleSpec{RoleName: role, AllowWildcardSubs: new(false),
		ACLs: append(markRights(), allow(broker.SubscribePattern, "a/#"), allow(broker.SubscribeLiteral, "b/+"))}))
	d := s.login(t, s.client(t, role))
	wantFilters(t, d, map[string]bool{"a/b": true, "a": true, "a/+": false, "a/#": false, "b/+": false, "c": false})
}

func subscribeRefused(t *testing.T, s *fixture) {
	admin, d := s.admin(t), s.device(t)
	wantFilters(t, d, map[string]bool{mark: true, "closed/topic": false, "closed/#": false})
	if s.getsThrough(t, admin, d, "closed/topic") {
		t.Error("a message came for a refused subscription")
	}
}

func unsubscribeCases() []testCase {
	return []testCase{
		{name: "a refused unsubscribe leaves the subscription", run: unsubscribeRefused},
		{name: "an unsubscribe that no ACL refuses ends the subscription", run: unsubscribeAllowed},
	}
}

func unsubscribeRefused(t *testing.T, s *fixture) {
	admin := s.admin(t)
	d := s.device(t, allow(broker.SubscribePattern, "u/#"),
		deny(broker.UnsubscribeLiteral, "u/keep"), deny(broker.UnsubscribePattern, "u/deep/#"))
	wantFilters(t, d, map[string]bool{mark: true, "u/keep": true, "u/deep/1": true, "u/free": true})
	for _, filter := range []string{"u/keep", "u/deep/1", "u/free", "u/never"} {
		d.unsubscribe(t, filter)
	}
	for topic, want := range map[string]bool{"u/keep": true, "u/deep/1": true, "u/free": false} {
		if got := s.getsThrough(t, admin, d, topic); got != want {
			t.Errorf("%q still arrives: %t, want %t", topic, got, want)
		}
	}
}

func unsubscribeAllowed(t *testing.T, s *fixture) {
	admin := s.admin(t)
	d := s.device(t, allow(broker.SubscribePattern, "u/#"), allow(broker.UnsubscribeLiteral, "u/1"))
	wantFilters(t, d, map[string]bool{mark: true, "u/1": true, "u/2": true})
	s.setDefaults(t, broker.DefaultACL{ACLType: "unsubscribe", Allow: false})
	d.unsubscribe(t, "u/1")
	d.unsubscribe(t, "u/2")
	s.setDefaults(t, broker.DefaultACL{ACLType: "unsubscribe", Allow: true})
	for topic, want := range map[string]bool{"u/1": false, "u/2": true} {
		if got := s.getsThrough(t, admin, d, topic); got != want {
			t.Errorf("%q still arrives: %t, want %t", topic, got, want)
		}
	}
}

func receiveCases() []testCase {
	return []testCase{
		{name: "only what publishClientReceive allows is delivered", run: receiveLive},
		{name: "the same holds for retained messages", run: receiveRetained},
		{name: "a subscription that is granted does not open delivery", run: receiveNotOpened},
	}
}

func receiveLive(t *testing.T, s *fixture) {
	admin := s.admin(t)
	d := s.device(t, allow(broker.SubscribePattern, "x/#"), deny(broker.PublishClientReceive, "x/no/#"),
		broker.ACL{ACLType: broker.PublishClientReceive, Topic: "x/no/but", Priority: 5, Allow: true})
	wantFilters(t, d, map[string]bool{mark: true, "x/#": true})
	for topic, want := range map[string]bool{"x/yes": true, "x/no": false, "x/no/1": false, "x/no/but": true, "x/deep/er": true} {
		if got := s.getsThrough(t, admin, d, topic); got != want {
			t.Errorf("%q is delivered: %t, want %t", topic, got, want)
		}
	}
}

func receiveRetained(t *testing.T, s *fixture) {
	admin, base := s.admin(t), s.name("kept")
	for _, topic := range []string{"yes", "no", "no/1", "also"} {
		admin.publish(t, base+"/"+topic, topic, true)
	}
	d := s.device(t, allow(broker.SubscribePattern, base+"/#"), deny(broker.PublishClientReceive, base+"/no/#"))
	wantFilters(t, d, map[string]bool{base + "/#": true})
	wantFilters(t, d, map[string]bool{mark: true}) // its response comes after the retained messages of the first
	s.passMark(t, admin, d)
	for topic, want := range map[string]bool{"yes": true, "also": true, "no": false, "no/1": false} {
		if got := d.has(topic); got != want {
			t.Errorf("the retained %q is delivered: %t, want %t", topic, got, want)
		}
	}
}

func receiveNotOpened(t *testing.T, s *fixture) {
	admin := s.admin(t)
	s.setDefaults(t, broker.DefaultACL{ACLType: "publishClientReceive", Allow: false})
	d := s.device(t, allow(broker.SubscribePattern, "y/#"), allow(broker.PublishClientReceive, "y/open"))
	wantFilters(t, d, map[string]bool{mark: true, "y/#": true})
	for topic, want := range map[string]bool{"y/open": true, "y/closed": false} {
		if got := s.getsThrough(t, admin, d, topic); got != want {
			t.Errorf("%q is delivered: %t, want %t", topic, got, want)
		}
	}
	s.setDefaults(t, broker.DefaultACL{ACLType: "publishClientReceive", Allow: true})
}

func willCases() []testCase {
	return []testCase{
		{name: "a Will that may be published is sent", run: willAllowed},
		{name: "a Will that may not be published is not, and its client gets in", run: willRefused},
	}
}

// disconnectWithWill connects a client with a Will to this topic, and closes its connection
// without DISCONNECT.
func (s *fixture) disconnectWithWill(t *testing.T, role, will string) {
	t.Helper()
	username := s.client(t, role)
	d, err := s.connect(t, identity{username: username, password: password(username), will: will})
	if err != nil {
		t.Fatalf("a client with a Will to %q does not get in: %v", will, err)
	}
	d.drop()
}

func willAllowed(t *testing.T, s *fixture) {
	admin, role := s.admin(t), s.role(t, allow(broker.PublishClientSend, "ok/#"))
	s.disconnectWithWill(t, role, "ok/will")
	WaitFor(t, "the Will has come", func() bool { return admin.has("ok/will") })
}

func willRefused(t *testing.T, s *fixture) {
	admin, role := s.admin(t), s.role(t, allow(broker.PublishClientSend, "ok/#"))
	s.disconnectWithWill(t, role, "no/will")
	for _, later := range []string{"ok/first", "ok/second"} { // when these have arrived, the other was processed
		s.disconnectWithWill(t, role, later)
		WaitFor(t, "the Will to "+later+" has come", func() bool { return admin.has(later) })
	}
	if admin.has("no/will") {
		t.Error("the refused Will was sent")
	}
}
