package conformance

import (
	"fmt"
	"testing"

	"signalbox/broker/embedded"
)

// TestFlowReceiveMaximumOfClient: never more QoS 1 and 2 messages are in flight to a client
// than it accepts [MQTT-3.3.4-9, MQTT-4.9.0-1]; PUBACK and PUBCOMP free capacity, PUBREC
// does not [MQTT-4.9.0-2], and all arrive in order.
func TestFlowReceiveMaximumOfClient(t *testing.T) {
	const many = 20
	play(t, onlyFive, func(s *scene) {
		windows := []int{1, 2, 5}
		if s.on(kindMosquitto) { // 2.0.11 exceeds the others
			windows = windows[:1]
		}
		for _, window := range windows {
			for qos := byte(1); qos <= 2; qos++ {
				publisher := s.join(connect{})
				c := s.join(connect{props: propU16(receiveMaximum, uint16(window))})
				topic := s.topic(fmt.Sprintf("w%d/%d", window, qos))
				c.subscribe(2, topic)
				for i := range many {
					publisher.publish(publish{topic: topic, qos: qos, payload: fmt.Sprint(i)})
				}
				c.drainWindow(topic, qos, window, many)
			}
		}
	})
}

// drainWindow receives messages through a window: none arrives before another is
// acknowledged completely.
func (c *client) drainWindow(topic string, qos byte, window, many int) {
	c.Helper()
	var ids []uint16
	take := func(i int) {
		c.Helper()
		ids = append(ids, c.expectPublish(publish{topic: topic, qos: qos, payload: fmt.Sprint(i)}))
	}
	for i := range window {
		take(i)
	}
	c.expectPong()
	for i := window; i < many; i++ {
		id := ids[0]
		ids = ids[1:]
		if qos == 2 {
			c.send(ack(c.version, typePubrec, id, success))
			c.expect(ack(c.version, typePubrel, id, success))
			c.expectPong()
			c.send(ack(c.version, typePubcomp, id, success))
		} else {
			c.send(ack(c.version, typePuback, id, success))
		}
		take(i)
		c.expectPong()
	}
}

// TestFlowClosedWindowHoldsUpNothingElse: with a full window the broker continues with QoS
// 0 and with all other packets [MQTT-4.9.0-3], in [MQTT-3.3.4-10].
func TestFlowClosedWindowHoldsUpNothingElse(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher, other := s.join(connect{}), s.join(connect{})
		c := s.join(connect{props: propU16(receiveMaximum, 1)})
		c.subscribe(2, s.topic("x"))
		for i := range 3 {
			publisher.publish(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(i)})
		}
		id := c.expectPublish(publish{topic: s.topic("x"), qos: 1, payload: "0"})
		publisher.publish(publish{topic: s.topic("x"), payload: "passes"})
		c.receive(publish{topic: s.topic("x"), payload: "passes"})
		other.subscribe(2, s.topic("y"))
		for qos := range byte(3) {
			c.publish(publish{topic: s.topic("y"), qos: qos})
			other.receive(publish{topic: s.topic("y"), qos: qos})
		}
		c.subscribe(0, s.topic("z"))
		c.unsubscribe(s.topic("z"), success)
		c.expectPong()
		c.send(ack(v5, typePuback, id, success))
		for i := 1; i < 3; i++ {
			c.receive(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(i)})
		}
	})
}

// TestFlowWindowAfterReconnect: the window is that of the new connection [MQTT-4.9.0-1],
// for repeated and for new messages.
func TestFlowWindowAfterReconnect(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher := s.join(connect{})
		c := s.join(persistent("resized", s, propU16(receiveMaximum, 4)))
		c.subscribe(1, s.topic("x"))
		for i := range 8 {
			publisher.publish(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(i)})
		}
		for i := range 4 {
			c.expectPublish(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(i)})
		}
		c.leave()
		c = s.resume(persistent("resized", s, propU16(receiveMaximum, 2)))
		for i := range 8 {
			var id uint16
			if i%2 == 0 {
				first := c.expectPublish(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(i), dup: i < 4})
				id = c.expectPublish(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(i + 1), dup: i < 4})
				c.expectPong()
				c.send(ack(v5, typePuback, first, success), ack(v5, typePuback, id, success))
			}
		}
		c.expectPong()
	}, notOn(kindMosquitto, "2.0.11 sends again beyond the window"))
}

// TestFlowReceiveMaximumOfServer: a client that has more QoS 2 messages in flight than the
// server accepts is disconnected with that reason [MQTT-3.3.4-8]; exactly as many are
// allowed.
func TestFlowReceiveMaximumOfServer(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		c, got := s.greet(connect{})
		most := got.number(receiveMaximum, 65535)
		for id := uint16(1); int(id) <= most; id++ {
			c.send(publish{topic: s.topic("x"), qos: 2, id: id}.bytes(v5))
			c.expectAck(typePubrec, id)
		}
		c.publish(publish{topic: s.topic("x")}) // QoS 0 does not count
		c.send(ack(v5, typePubrel, 1, success))
		c.expectAck(typePubcomp, 1)
		c.send(publish{topic: s.topic("x"), qos: 2, id: 1}.bytes(v5))
		c.expectAck(typePubrec, 1)
		c.sendAnyway(publish{topic: s.topic("x"), qos: 2, id: uint16(most) + 1}.bytes(v5))
		c.expectEnd(receiveMaximumExceeded)
	}, notOn(kindMosquitto, "2.0.11 answers PUBREC 0x97"))
}

// TestFlowManyUnderWay: in MQTT 3 a client that acknowledges late receives everything in
// the end, in order, whatever the broker's own window is.
func TestFlowManyUnderWay(t *testing.T) {
	const many = 100
	play(t, everyVersion, func(s *scene) {
		for qos := byte(1); qos <= 2; qos++ {
			publisher, c := s.join(connect{}), s.join(connect{})
			topic := s.topic(fmt.Sprint("many", qos))
			c.subscribe(2, topic)
			for i := range many {
				publisher.publish(publish{topic: topic, qos: qos, payload: fmt.Sprint(i)})
			}
			c.receiveAll(many, false, func(i int) publish {
				return publish{topic: topic, qos: qos, payload: fmt.Sprint(i)}
			})
		}
	})
}

// TestFlowQueueIsBounded: the queue of a client that is not connected, or that does not
// acknowledge, is bounded. The newest messages are dropped; what is queued arrives in
// order, and once there is capacity again, new messages are queued.
func TestFlowQueueIsBounded(t *testing.T) {
	const many = 100
	play(t, everyVersion, func(s *scene) {
		for _, away := range []bool{false, true} {
			name, publisher := fmt.Sprint("full", away), s.join(connect{})
			c := s.join(persistent(name, s))
			c.subscribe(1, s.topic(name))
			if away {
				c.leave()
			}
			for i := range many {
				publisher.publish(publish{topic: s.topic(name), qos: 1, payload: fmt.Sprint(i)})
			}
			if away {
				c = s.resume(persistent(name, s))
			}
			kept := map[string]int{}
			n := c.collect(kept)
			if n < 10 || n > 60 {
				s.Errorf("away %t: %d of %d messages were kept", away, n, many)
			}
			for i := range n {
				if kept[fmt.Sprint(i)] != 1 {
					s.Errorf("away %t: of %d kept messages, number %d arrived %d times", away, n, i, kept[fmt.Sprint(i)])
				}
			}
			publisher.publish(publish{topic: s.topic(name), qos: 1, payload: "new"})
			c.receive(publish{topic: s.topic(name), qos: 1, payload: "new"})
		}
	}, configured(func(c *embedded.Config) { c.MaxQueuedMessages = 30 }, "max_queued_messages 30"))
}

// quotaExceeded is the reason with which a slow client is disconnected.
const quotaExceeded byte = 0x97

// TestFlowSlowConsumerIsDisconnected if the broker is configured so.
func TestFlowSlowConsumerIsDisconnected(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c, publisher := s.join(connect{}), s.join(connect{})
		c.subscribe(1, s.topic("x"))
		for range 40 {
			publisher.publish(publish{topic: s.topic("x"), qos: 1})
		}
		for got, err := c.read(); err == nil; got, err = c.read() {
			if got.kind() == typeDisconnect && got.reason() != quotaExceeded {
				s.Errorf("got %v, want reason %#x", got, quotaExceeded)
			}
		}
		c.expectGone()
	}, configured(func(c *embedded.Config) { c.MaxQueuedMessages, c.SlowConsumer = 30, "disconnect" }),
		notOn(kindMosquitto, "2.0.11 drops messages only"))
}
