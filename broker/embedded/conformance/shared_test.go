package conformance

import (
	"fmt"
	"slices"
	"testing"
)

// share returns a filter of a shared subscription of this scene.
func (s *scene) share(group, rest string) string { return "$share/" + group + "/" + s.topic(rest) }

// TestSharedOnce: each message goes to one member of each group, whatever else
// matches it.
func TestSharedOnce(t *testing.T) {
	const many = 60
	play(t, everyVersion, func(s *scene) {
		publisher, plain := s.join(connect{}), s.join(connect{})
		plain.subscribe(1, s.topic("job"))
		var members []*client
		for i := range 4 {
			c := s.join(connect{})
			c.subscribe(2, s.share([]string{"red", "blue"}[i%2], "job"))
			members = append(members, c)
		}
		count := map[string]int{}
		for i := range many {
			p := publish{topic: s.topic("job"), qos: byte(i % 3), payload: fmt.Sprint(i)}
			publisher.publish(p)
			p.qos = min(p.qos, 1)
			plain.receive(p)
		}
		publisher.expectPong()
		got := make([]int, len(members))
		for i, c := range members {
			got[i] = c.collect(count)
		}
		for i := range many {
			if n := count[fmt.Sprint(i)]; n != 2 {
				s.Errorf("message %d arrived %d times, want once in each of two groups", i, n)
			}
		}
		for i, n := range got {
			if n == 0 {
				s.Errorf("member %d got nothing of %d messages", i, many)
			}
		}
	})
}

// collect receives all that is available for the client, acknowledges it completely, counts
// the payloads, and returns the number of messages.
func (c *client) collect(count map[string]int) (n int) {
	c.Helper()
	owed := 0 // PUBRELs that must arrive
	for quiet := false; !quiet || owed > 0; {
		quiet = true
		c.send(pingreq())
		for got := c.next(); got.kind() != typePingresp; got = c.next() {
			quiet = false
			switch got.kind() {
			case typePubrel:
				owed--
				c.send(ack(c.version, typePubcomp, got.id, success))
			case typePublish:
				if c.acknowledgeFirst(got); got.qos() == 2 {
					owed++
				}
				count[got.payload]++
				n++
			default:
				c.Fatalf("got %v", got)
			}
		}
	}
	return n
}

// TestSharedTakesTurns: members of a group receive its messages in turn, in the order of
// their subscriptions.
func TestSharedTakesTurns(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher := s.join(connect{})
		var members []*client
		for range 3 {
			c := s.join(connect{})
			c.subscribe(1, s.share("g", "x"))
			members = append(members, c)
		}
		for i := range 9 {
			p := publish{topic: s.topic("x"), qos: byte(i % 2), payload: fmt.Sprint(i)}
			publisher.publish(p)
			members[i%3].receive(p)
		}
	})
}

// TestSharedQoS: a member receives the message at the QoS it was granted [MQTT-4.8.2-3].
func TestSharedQoS(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher := s.join(connect{})
		for granted := range byte(3) {
			c := s.join(connect{})
			c.subscribe(granted, s.share("g", "x"))
			for qos := range byte(3) {
				publisher.publish(publish{topic: s.topic("x"), qos: qos})
				c.receive(publish{topic: s.topic("x"), qos: min(qos, granted)})
			}
			c.unsubscribe(s.share("g", "x"), success) // the session may last a moment longer than the connection
			c.leave()
		}
	})
}

// TestSharedBesideOrdinary: a client with both receives a copy for each, with the
// identifier of that subscription alone [MQTT-3.3.4-5].
func TestSharedBesideOrdinary(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(connect{})
		c.subscribeWithID(1, 1, s.topic("x"))
		c.subscribeWithID(2, 1, s.share("g", "x"))
		publisher.publish(publish{topic: s.topic("x"), qos: 1, payload: "twice"})
		var ids []int
		for range 2 {
			got := c.next()
			if got.kind() != typePublish || len(got.subscriptions()) != 1 {
				s.Fatalf("got %v, want a copy with one subscription identifier", got)
			}
			ids = append(ids, got.subscriptions()...)
			c.acknowledgeFirst(got)
		}
		if slices.Sort(ids); !slices.Equal(ids, []int{1, 2}) {
			s.Errorf("subscription identifiers %v, want 1 and 2", ids)
		}
		c.expectPong()
	})
}

// TestSharedUnsubscribe: a client that has left a group receives nothing more, the others
// do; leaving needs the whole filter.
func TestSharedUnsubscribe(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher, a, b := s.join(connect{}), s.join(connect{}), s.join(connect{})
		for _, c := range []*client{a, b} {
			c.subscribe(1, s.share("g", "x"))
		}
		a.unsubscribe(s.topic("x"), noSubscriptionExisted)
		a.unsubscribe(s.share("h", "x"), noSubscriptionExisted)
		a.unsubscribe(s.share("g", "x"), success)
		for i := range 10 {
			publisher.publish(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(i)})
			b.receive(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(i)})
		}
		a.expectPong()
		b.unsubscribe(s.share("g", "x"), success)
		publisher.publish(publish{topic: s.topic("x"), qos: 1})
		b.expectPong()
	})
}

// TestSharedInvalid: the share name has one character at least [MQTT-4.8.2-1], no wildcard,
// and a filter after it [MQTT-4.8.2-2].
func TestSharedInvalid(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		for _, name := range []string{"$share/", "$share//x", "$share/g", "$share/g/", "$share/g+/x", "$share/#/x", "$share/+/x", "$share/g/x#"} {
			c := s.join(connect{})
			c.sendAnyway(subscribe(v5, 1, nil, filter{name, 0}))
			switch got := c.next(); {
			case got.kind() == typeSuback && got.reason() == filterInvalid:
			case got.kind() == typeDisconnect && got.reason() >= unspecifiedError:
			default:
				s.Errorf("%s: got %v", name, got)
			}
		}
	}, notOn(kindMosquitto, "2.0.11 takes them for ordinary filters"))
}

// TestSharedLiveMembersFirst: while a member is connected, nothing is queued for one that
// is not.
func TestSharedLiveMembersFirst(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher, live := s.join(connect{}), s.join(connect{})
		live.subscribe(0, s.topic("gone"))
		for _, name := range []string{"one", "two"} {
			as := persistent(name, s)
			as.will = &will{topic: s.topic("gone"), payload: name}
			away := s.join(as)
			away.subscribe(1, s.share("g", "x"))
			away.quit(disconnectWithWill, nil)
			live.receive(publish{topic: s.topic("gone"), payload: name}) // so its session is known to be disconnected
		}
		live.subscribe(1, s.share("g", "x"))
		for i := range 20 {
			publisher.publish(publish{topic: s.topic("x"), qos: byte(i % 2), payload: fmt.Sprint(i)})
			live.receive(publish{topic: s.topic("x"), qos: byte(i % 2), payload: fmt.Sprint(i)})
		}
		for _, name := range []string{"one", "two"} {
			s.join(persistent(name, s)).expectPong()
		}
	}, notOn(kindMosquitto, "2.0.11 queues for members that are away"))
}

// TestSharedAllAway: if no member is connected, a message is queued, once.
func TestSharedAllAway(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher, names := s.join(connect{}), []string{"one", "two"}
		for _, name := range names {
			away := s.join(persistent(name, s))
			away.subscribe(1, s.share("g", "x"))
			away.leave()
		}
		for i := range 10 {
			publisher.publish(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(i)})
		}
		count := map[string]int{}
		for _, name := range names {
			s.join(persistent(name, s)).collect(count)
		}
		for i := range 10 {
			if n := count[fmt.Sprint(i)]; n != 1 {
				s.Errorf("message %d arrived %d times, want once", i, n)
			}
		}
	})
}

// TestSharedMemberGoes: what a member whose session ends has not acknowledged at QoS 1, or
// not yet received, goes to another; what it has started to receive at QoS 2 does not
// [MQTT-4.8.2-5].
func TestSharedMemberGoes(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher := s.join(connect{})
		for qos := byte(1); qos <= 2; qos++ {
			topic := fmt.Sprint("x", qos)
			mortal := s.join(connect{props: propU16(receiveMaximum, 2)})
			mortal.subscribe(2, s.share("g", topic))
			for i := range 5 {
				publisher.publish(publish{topic: s.topic(topic), qos: qos, payload: fmt.Sprint(i)})
			}
			for i := range 2 {
				mortal.expectPublish(publish{topic: s.topic(topic), qos: qos, payload: fmt.Sprint(i)})
			}
			heir := s.join(connect{})
			heir.subscribe(2, s.share("g", topic))
			mortal.leave()
			if qos == 1 {
				heir.receiveRun(s.topic(topic), qos, 0, 4)
			} else {
				heir.receiveRun(s.topic(topic), qos, 2, 4)
			}
			heir.expectPong()
		}
	}, notOn(kindMosquitto, "2.0.11 drops it, as the standard allows"))
}

// TestSharedMemberComesBack: what a member has started to receive at QoS 2 is completed
// with it when it reconnects, and no other member receives it [MQTT-4.8.2-4, MQTT-4.8.2-5].
func TestSharedMemberComesBack(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("back", s))
		c.subscribe(2, s.share("g", "x"))
		p := publish{topic: s.topic("x"), qos: 2, payload: "begun"}
		publisher.publish(p)
		id := c.expectPublish(p)
		c.leave()
		other := s.join(connect{})
		other.subscribe(2, s.share("g", "x"))
		other.expectPong()
		c = s.join(persistent("back", s))
		p.dup, p.id = true, id
		c.receive(p)
		c.expectPong()
		other.expectPong()
	})
}

// TestSharedRefused: what a member refuses is discarded; no other receives it
// [MQTT-4.8.2-6].
func TestSharedRefused(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher, count := s.join(connect{}), map[string]int{}
		for qos := byte(1); qos <= 2; qos++ {
			c := s.join(connect{})
			c.subscribe(2, s.share("g", "x"))
			p := publish{topic: s.topic("x"), qos: qos, payload: fmt.Sprint("refused", qos)}
			publisher.publish(p)
			id := c.expectPublish(p)
			other := s.join(connect{})
			other.subscribe(2, s.share("g", "x"))
			c.send(ack(v5, []byte{0, typePuback, typePubrec}[qos], id, unspecifiedError))
			c.expectPong()
			c.leave()
			if other.collect(count); len(count) > 0 {
				s.Errorf("another member got %v", count)
			}
			other.leave()
		}
	})
}
