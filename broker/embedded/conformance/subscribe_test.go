package conformance

import (
	"fmt"
	"slices"
	"testing"
)

// TestSubscribeAcknowledged: a SUBACK with the identifier of its SUBSCRIBE [MQTT-3.8.4-1,
// MQTT-3.8.4-2] contains for each filter, in their order, what is granted [MQTT-3.8.4-6,
// MQTT-3.8.4-7, MQTT-3.9.3-1]; many filters count as so many packets [MQTT-3.8.4-5].
func TestSubscribeAcknowledged(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.join(connect{})
		for _, id := range []uint16{1, 256, 65535} {
			c.send(subscribe(s.version, id, nil, filter{s.topic("two"), 2}, filter{s.topic("none"), 0},
				filter{s.topic("one"), 1}, filter{s.topic("two"), 2}))
			c.expect(suback(s.version, id, 2, 0, 1, 2))
		}
		var many []filter
		for i := range 300 {
			many = append(many, filter{s.topic(fmt.Sprintf("many/%d", i)), byte(i % 3)})
		}
		codes := make([]byte, len(many))
		for i := range many {
			codes[i] = many[i].options
		}
		c.send(subscribe(s.version, 2, nil, many...))
		c.expect(suback(s.version, 2, codes...))
		for i, f := range many {
			if i%100 == 0 {
				c.publish(publish{topic: f.name})
			}
		}
	})
}

// TestSubscribeManyAtOnce delivers to each filter of one SUBSCRIBE.
func TestSubscribeManyAtOnce(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c, publisher := s.join(connect{}), s.join(connect{})
		c.send(subscribe(s.version, 2, nil, filter{s.topic("a"), 2}, filter{s.topic("b/+"), 1}, filter{s.topic("c/#"), 0}))
		c.expect(suback(s.version, 2, 2, 1, 0))
		for i, topic := range []string{"a", "b/x", "c/x/y"} {
			publisher.publish(publish{topic: s.topic(topic), qos: 2})
			c.receive(publish{topic: s.topic(topic), qos: byte(2 - i)})
		}
	})
}

// TestSubscribeAgainReplaces: the same filter again replaces the subscription and its
// options [MQTT-3.8.4-3]; no message is repeated and none is lost.
func TestSubscribeAgainReplaces(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c, publisher := s.join(connect{}), s.join(connect{})
		topic := s.topic("x")
		for _, qos := range []byte{0, 2, 1, 0, 1} {
			c.subscribe(qos, topic)
			for sent := range byte(3) {
				publisher.publish(publish{topic: topic, qos: sent})
				c.receive(publish{topic: topic, qos: min(sent, qos)})
			}
			c.expectPong()
		}
		c.unsubscribe(topic, success)
		publisher.publish(publish{topic: topic})
		c.expectNothing(publisher)
	})
}

// unsubscribe sends one filter and expects the code, which before MQTT 5 is not sent.
func (c *client) unsubscribe(name string, code byte) {
	c.Helper()
	id := c.nextID()
	c.send(unsubscribe(c.version, id, nil, name))
	c.expect(unsuback(c.version, id, code))
}

// TestSubscribeAgainDoesNotInterrupt the flow of messages [MQTT-3.8.4-4], in
// 3.1.1 [MQTT-3.8.4-3].
func TestSubscribeAgainDoesNotInterrupt(t *testing.T) {
	const many = 100
	play(t, everyVersion, func(s *scene) {
		for qos := range byte(2) {
			c, publisher := s.join(connect{}), s.join(connect{})
			topic := s.topic(fmt.Sprint("flow/", qos))
			c.subscribe(qos, topic)
			for i := range many {
				p := publish{topic: topic, qos: qos, payload: fmt.Sprint(i)}
				if i%10 == 0 {
					c.send(subscribe(s.version, 1000, nil, filter{topic, qos}))
				}
				publisher.publish(p)
			}
			for i := 0; i < many; {
				switch got := c.next(); {
				case got.kind() == typeSuback:
				case got.payload != fmt.Sprint(i) || got.qos() != qos:
					s.Fatalf("got %v, want message %d", got, i)
				default:
					c.acknowledgeFirst(got)
					i++
				}
			}
		}
	})
}

// TestUnsubscribe ends delivery [MQTT-3.10.4-2] by a filter that is equal character by
// character [MQTT-3.10.4-1], and is answered in any case [MQTT-3.10.4-4, MQTT-3.10.4-5],
// with the packet's identifier and, in MQTT 5, a code for each filter in their order
// [MQTT-3.10.4-6, MQTT-3.11.3-1].
func TestUnsubscribe(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c, publisher := s.join(connect{}), s.join(connect{})
		c.subscribe(1, s.topic("a/+"), s.topic("a/b"), s.topic("c"))
		c.send(unsubscribe(s.version, 500, nil, s.topic("a/#"), s.topic("a/+"), s.topic("C"), s.topic("c"), s.topic("c")))
		c.expect(unsuback(s.version, 500, noSubscriptionExisted, success, noSubscriptionExisted, success, noSubscriptionExisted))
		for _, topic := range []string{"a/x", "c"} {
			publisher.publish(publish{topic: s.topic(topic), qos: 1})
		}
		publisher.publish(publish{topic: s.topic("a/b"), qos: 1})
		c.receive(publish{topic: s.topic("a/b"), qos: 1})
		c.expectPong()
	})
}

// TestUnsubscribeFinishesWhatIsUnderWay: a QoS 1 or 2 delivery that has started is
// completed, on another connection if need be [MQTT-3.10.4-3].
func TestUnsubscribeFinishesWhatIsUnderWay(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		for qos := byte(1); qos <= 2; qos++ {
			c, publisher := s.join(connect{}), s.join(connect{})
			topic := s.topic(fmt.Sprint("under-way/", qos))
			c.subscribe(2, topic)
			publisher.publish(publish{topic: topic, qos: qos})
			id := c.expectPublish(publish{topic: topic, qos: qos})
			c.unsubscribe(topic, success)
			c.acknowledge(qos, id)
			c.expectPong()

			as := persistent(fmt.Sprint("underway", qos), s)
			c = s.join(as)
			c.subscribe(2, topic)
			p := publish{topic: topic, qos: qos, payload: "begun"}
			publisher.publish(p)
			id = c.expectPublish(p)
			c.unsubscribe(topic, success)
			c.leave()
			c = s.resume(as)
			p.dup = true
			if again := c.expectPublish(p); again != id {
				s.Errorf("sent again as %d, was %d", again, id)
			}
			c.acknowledge(qos, id)
			c.expectPong()
		}
	})
}

// TestSubscribeOverlapping: a client with several matching subscriptions receives the
// message at the highest QoS among them [MQTT-3.3.4-2], in 3.1.1 [MQTT-3.3.5-1]; perhaps
// once more for the others, with their QoS. The identifiers of all of them arrive, in one
// copy [MQTT-3.3.4-4] or in as many as there are [MQTT-3.3.4-3, MQTT-3.3.4-5].
func TestSubscribeOverlapping(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c, publisher := s.join(connect{}), s.join(connect{})
		for i, name := range []string{"o/#", "o/+", "o/x", "+/x"} {
			c.subscribeWithID(1+i, []byte{0, 2, 1, 0}[i], s.topic(name))
		}
		for qos := range byte(3) {
			publisher.publish(publish{topic: s.topic("o/x"), qos: qos, payload: "overlap"})
			publisher.expectPong()
			best, ids := c.copies(s.topic("o/x"))
			if best != qos && !(s.on(kindMosquitto) && !s.five()) { // 2.0.11 sends one copy, not the best
				s.Errorf("published at QoS %d, granted 0, 2, 1, 0: the best copy has QoS %d", qos, best)
			}
			if want := []int{1, 2, 3, 4}; s.five() && !slices.Equal(ids, want) {
				s.Errorf("subscription identifiers %v, want %v", ids, want)
			}
		}
	})
}

// subscribeWithID subscribes with an identifier if the version has them.
func (c *client) subscribeWithID(subscription int, options byte, names ...string) {
	c.Helper()
	if !c.five() {
		c.subscribe(options&3, names...)
		return
	}
	var filters []filter
	for _, name := range names {
		filters = append(filters, filter{name, options})
	}
	id := c.nextID()
	c.send(subscribe(v5, id, propVarint(subscriptionIdentifier, subscription), filters...))
	c.expect(suback(v5, id, slices.Repeat([]byte{options & 3}, len(names))...))
}

// copies receives everything that is available for the client, which must be copies of one
// message, and returns the best QoS and all subscription identifiers in order.
func (c *client) copies(topic string) (best byte, ids []int) {
	c.Helper()
	c.send(pingreq())
	for pongs := 0; pongs < 2; {
		got := c.next()
		switch got.kind() {
		case typePingresp:
			if pongs++; pongs == 1 {
				c.send(pingreq())
			}
		case typePubrel:
			c.send(ack(c.version, typePubcomp, got.id, success))
		case typePublish:
			if got.topic != topic {
				c.Errorf("got %v", got)
			}
			best = max(best, got.qos())
			ids = append(ids, got.subscriptions()...)
			c.acknowledgeFirst(got)
		default:
			c.Fatalf("got %v", got)
		}
	}
	slices.Sort(ids)
	return best, ids
}

// acknowledgeFirst sends the first acknowledgement of a PUBLISH.
func (c *client) acknowledgeFirst(p packet) {
	c.Helper()
	switch p.qos() {
	case 1:
		c.send(ack(c.version, typePuback, p.id, success))
	case 2:
		c.send(ack(c.version, typePubrec, p.id, success))
	}
}

// subscriptions returns the subscription identifiers of a PUBLISH.
func (p packet) subscriptions() (ids []int) {
	for _, value := range p.prop(subscriptionIdentifier) {
		c := cursor{b: []byte(value)}
		ids = append(ids, c.varint())
	}
	return ids
}

// TestSubscribeIdentifiers: identifiers of all sizes arrive with each message of their
// subscription [MQTT-3.3.4-3], until the subscription is replaced by one with another
// identifier or without.
func TestSubscribeIdentifiers(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		c, publisher := s.join(persistent("ids", s)), s.join(connect{})
		topic := s.topic("id")
		for _, n := range []int{1, 127, 128, 16383, 16384, 2097151, 2097152, 268435455} {
			c.subscribeWithID(n, 2, topic, s.topic("same"))
			for qos := range byte(3) {
				p := publish{topic: topic, qos: qos, props: user("a", "b")}
				publisher.publish(p)
				p.props = cat(p.props, propVarint(subscriptionIdentifier, n))
				c.receive(p)
				p.topic, p.props = s.topic("same"), nil
				publisher.publish(p)
				p.props = propVarint(subscriptionIdentifier, n)
				c.receive(p)
			}
		}
		c.leave()
		publisher.publish(publish{topic: topic, qos: 1})
		c = s.join(persistent("ids", s))
		c.receive(publish{topic: topic, qos: 1, props: propVarint(subscriptionIdentifier, 268435455)})
		c.subscribe(1, topic)
		publisher.publish(publish{topic: topic, qos: 1})
		c.receive(publish{topic: topic, qos: 1})
	})
}

// TestSubscribeNoLocal: with No Local a client does not receive what it published itself,
// others do [MQTT-3.8.3-3]; nor does it when it publishes on another connection of its
// session.
func TestSubscribeNoLocal(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		c, other := s.join(persistent("local", s)), s.join(connect{})
		topic := s.topic("local")
		c.subscribe(2|noLocal, topic)
		other.subscribe(2|noLocal, topic)
		for range 2 {
			for qos := range byte(3) {
				c.publish(publish{topic: topic, qos: qos, payload: "mine"})
				other.receive(publish{topic: topic, qos: qos, payload: "mine"})
				other.publish(publish{topic: topic, qos: qos, payload: "yours"})
				c.receive(publish{topic: topic, qos: qos, payload: "yours"})
			}
			c.leave()
			c = s.join(persistent("local", s))
		}
		c.subscribe(1, s.topic("+"))
		c.publish(publish{topic: topic, qos: 0, payload: "by the other subscription"})
		c.receive(publish{topic: topic, payload: "by the other subscription"})
	})
}

// TestSubscribeNoLocalShared: the two cannot be combined [MQTT-3.8.3-4].
func TestSubscribeNoLocalShared(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		c := s.join(connect{})
		c.sendAnyway(subscribe(v5, 1, nil, filter{"$share/g/" + s.topic("x"), 1 | noLocal}))
		c.expectEnd(protocolError)
	}, notOn(kindMosquitto, "2.0.11 grants it"))
}
