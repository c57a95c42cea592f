package conformance

import (
	"fmt"
	"slices"
	"testing"

	"signalbox/broker"
	"signalbox/broker/embedded"
)

// The users of these tests. They have all rights except those that their role denies.
const (
	alice = "alice" // may not use topics whose second level is "closed"
	bob   = "bob"
	carol = "carol" // may publish to the topic "open/literal" only
)

const password = "a password"

// withUsers creates the users.
func withUsers(t *testing.T, b *embedded.Broker) {
	t.Helper()
	for name, acls := range map[string][]broker.ACL{
		alice: {
			{ACLType: broker.PublishClientSend, Topic: "+/closed/#"},
			{ACLType: broker.PublishClientReceive, Topic: "+/unheard/#"},
			{ACLType: broker.SubscribePattern, Topic: "+/unseen/#"},
			{ACLType: broker.UnsubscribePattern, Topic: "+/kept/#"},
		},
		bob: {},
		carol: {
			{ACLType: broker.PublishClientSend, Topic: "open/literal", Allow: true, Priority: 2},
			{ACLType: broker.PublishClientSend, Topic: "open/#", Priority: 1},
			{ACLType: broker.PublishClientSend, Topic: "#"},
		},
	} {
		secret := broker.Secret(password)
		if err := b.CreateRole(t.Context(), broker.RoleSpec{RoleName: name, ACLs: acls}); err != nil {
			t.Fatalf("create the role of %s: %v", name, err)
		}
		if err := b.CreateClient(t.Context(), broker.ClientSpec{Username: name, Password: &secret,
			Roles: []broker.RoleRef{{RoleName: name, Priority: broker.NoPriority}}}); err != nil {
			t.Fatalf("create %s: %v", name, err)
		}
	}
}

// rights runs a test with those users. Mosquitto has no such users here.
func rights(t *testing.T, versions []byte, test func(s *scene)) {
	t.Helper()
	play(t, versions, test, prepared(withUsers), notOn(kindMosquitto, "it runs without rights"))
}

func as(user string) connect { return connect{username: user, password: password} }

// TestDeniedPublishGoesNowhere: a denied message is neither delivered nor retained, and it
// is acknowledged: in MQTT 5 with 0x87, before that as if it were accepted [MQTT-3.3.5-2].
// The packet identifier of what was refused is free [MQTT-4.3.3-9].
func TestDeniedPublishGoesNowhere(t *testing.T) {
	rights(t, everyVersion, func(s *scene) {
		publisher, watcher := s.join(as(alice)), s.join(connect{})
		watcher.subscribe(2, s.topic("#"))
		for qos := range byte(3) {
			for _, retain := range []bool{false, true} {
				p := publish{topic: s.topic("closed/x"), qos: qos, retain: retain, payload: "denied"}
				publisher.publishDenied(p)
				watcher.expectNothing(publisher)
				s.wantNoneKept(p.topic)
			}
		}
		if s.five() {
			publisher.publish(publish{topic: s.topic("open"), props: propU16(topicAlias, 1)})
			watcher.receive(publish{topic: s.topic("open")})
			publisher.publishDenied(publish{topic: s.topic("closed/y"), qos: 1, props: propU16(topicAlias, 1)})
			publisher.publishDenied(publish{qos: 2, props: propU16(topicAlias, 1)})
			watcher.expectNothing(publisher)
		}
		publisher.publishDenied(publish{topic: s.topic("closed/z"), qos: 2})
		publisher.publish(publish{topic: s.topic("open"), qos: 2, id: publisher.ids}) // whose identifier is free
		watcher.receive(publish{topic: s.topic("open"), qos: 2})
	})
}

// publishDenied publishes a message that must be refused, and completes its flow.
func (c *client) publishDenied(p publish) {
	c.Helper()
	kinds := [][]byte{nil, {typePuback}, {typePubrec, typePubcomp}}[p.qos]
	p.id = c.nextID()
	c.send(p.bytes(c.version))
	for _, kind := range kinds {
		if kind == typePubcomp {
			c.send(ack(c.version, typePubrel, p.id, success))
		}
		if c.five() {
			c.expect(ack(v5, kind, p.id, notAuthorized))
			break // a PUBREC that refuses ends it
		}
		c.expect(ack(c.version, kind, p.id, success))
	}
	c.expectPong()
}

// TestDeniedWillGoesNowhere: a Will is subject to the rights of its client.
func TestDeniedWillGoesNowhere(t *testing.T) {
	rights(t, everyVersion, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("#"))
		for _, retain := range []bool{false, true} {
			c := as(alice)
			c.will = &will{topic: s.topic("closed/will"), payload: "denied", qos: 1, retain: retain}
			if d, got := s.greet(c); got.reason() == success { // it may be refused at once
				d.drop()
			}
			allowed := as(alice)
			allowed.will = &will{topic: s.topic("open"), payload: fmt.Sprint(retain), qos: 1}
			s.join(allowed).drop()
			watcher.receive(publish{topic: s.topic("open"), payload: fmt.Sprint(retain), qos: 1})
		}
		watcher.expectNothing(s.join(connect{}))
		s.wantNoneKept(s.topic("closed/#"))
	})
}

// TestDeniedSubscription is answered by a code and has no effect, while the other filters
// of the SUBSCRIBE are granted [MQTT-3.8.4-5].
func TestDeniedSubscription(t *testing.T) {
	rights(t, everyVersion, func(s *scene) {
		c, publisher := s.join(as(alice)), s.join(connect{})
		publisher.publish(publish{topic: s.topic("unseen/x"), retain: true, payload: "kept"})
		denied := byte(0x80)
		if s.five() {
			denied = notAuthorized
		}
		c.send(subscribe(s.version, 1, nil, filter{s.topic("a"), 1}, filter{s.topic("unseen/x"), 1}, filter{s.topic("b"), 2}))
		c.expect(suback(s.version, 1, 1, denied, 2))
		publisher.publish(publish{topic: s.topic("unseen/x"), qos: 1})
		publisher.publish(publish{topic: s.topic("b"), qos: 2})
		c.receive(publish{topic: s.topic("b"), qos: 2})
		c.expectPong()
	})
}

// TestDeniedReceipt: a message is not delivered to a client without the right, although its
// subscription matches.
func TestDeniedReceipt(t *testing.T) {
	rights(t, everyVersion, func(s *scene) {
		publisher, kept := s.join(connect{}), as(alice)
		kept.clientID, kept.keep = s.id("kept"), true
		if s.five() {
			kept.props = propU32(sessionExpiry, 3600)
		}
		c := s.join(kept)
		c.subscribe(1, s.topic("#"))
		for _, away := range []bool{false, true} {
			if away {
				c.leave()
			}
			publisher.publish(publish{topic: s.topic("unheard/x"), qos: 1, retain: true, payload: "not for alice"})
			publisher.publish(publish{topic: s.topic("x"), qos: 1, payload: "heard"})
			if away {
				c = s.resume(kept)
			}
			c.receive(publish{topic: s.topic("x"), qos: 1, payload: "heard"})
			c.expectPong()
		}
		c.subscribe(1, s.topic("#"))
		c.expectPong()
	})
}

// TestDeniedUnsubscription keeps the subscription; MQTT 5 reports that.
func TestDeniedUnsubscription(t *testing.T) {
	rights(t, everyVersion, func(s *scene) {
		c, publisher := s.join(as(alice)), s.join(connect{})
		c.subscribe(1, s.topic("kept/x"))
		c.unsubscribe(s.topic("kept/x"), notAuthorized)
		publisher.publish(publish{topic: s.topic("kept/x"), qos: 1})
		c.receive(publish{topic: s.topic("kept/x"), qos: 1})
	})
}

// TestLiteralRightCoversNoLongerTopic: the right to one topic does not cover topics that
// begin with it.
func TestLiteralRightCoversNoLongerTopic(t *testing.T) {
	rights(t, everyVersion, func(s *scene) {
		c, watcher := s.join(as(carol)), s.join(connect{})
		watcher.subscribe(1, "open/#")
		payload := s.mark
		for _, topic := range []string{"open/literal/x", "open/literals", "open/literal/", "open", "open/Literal"} {
			c.publishDenied(publish{topic: topic, qos: 1, payload: payload})
		}
		c.publish(publish{topic: "open/literal", qos: 1, payload: payload})
		for got := watcher.next(); got.topic != "open/literal" || got.payload != payload; got = watcher.next() {
			if got.topic != "open/literal" {
				s.Errorf("got %v", got)
			}
			watcher.acknowledgeFirst(got)
		}
	})
}

// TestSessionBelongsToItsUser: another user does not take it over by the same client
// identifier, neither from a connected client nor from one that is not; its owner does.
func TestSessionBelongsToItsUser(t *testing.T) {
	rights(t, everyVersion, func(s *scene) {
		publisher := s.join(connect{})
		hers, his := as(alice), as(bob)
		for _, c := range []*connect{&hers, &his} {
			c.clientID, c.keep = s.id("hers"), true
			if s.five() {
				c.props = propU32(sessionExpiry, 3600)
			}
		}
		nobodys := hers
		nobodys.username, nobodys.password = "", ""
		clean := his
		clean.keep = false
		owner := s.join(hers)
		owner.subscribe(1, s.topic("x"))
		for _, away := range []bool{false, true} {
			if away {
				owner.leave()
			}
			for _, thief := range []connect{his, nobodys, clean} {
				s.wantRefused(thief)
			}
			publisher.publish(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(away)})
			if away {
				owner = s.resume(hers)
			}
			owner.receive(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(away)})
		}
		owner.expectPong()
	})
}

// wantRefused expects that connecting is refused.
func (s *scene) wantRefused(c connect) {
	s.Helper()
	d, got := s.greet(c)
	codes := []byte{2, 5}
	if s.five() {
		codes = []byte{badClientID, notAuthorized}
	}
	if !slices.Contains(codes, got.reason()) || got.present {
		s.Errorf("got %v, want a refusal", got)
	}
	d.expectClosed()
}
