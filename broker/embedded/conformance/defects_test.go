package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/broker/embedded"
)

// Another broker that we examined had defects that no ordinary test would look for. These
// tests show that ours does not have them. The following tests elsewhere show the same for
// its other defects:
//
//	order of what waits              TestSessionQueues
//	small Receive Maximum            TestFlowReceiveMaximumOfClient
//	Will                             TestWillTopic, TestWillProperties, TestWillEmpty
//	expired session's subscriptions  TestSessionExpiresWithAll
//	alias after a reconnect          TestPublishAliasToClient
//	matching, retained and shared    TestTopicMatching, TestTopicsWithDollar
//	PUBLISH of QoS 2 again           TestPublishQoS2Once
//	expiry of what is retained       TestRetainExpires
//	CONNACK codes before MQTT 5      TestConnackBeforeFive

// TestBrokenPacketEndsItsConnectionOnly: whatever it contains, other clients are served
// [MQTT-4.13.1-1].
func TestBrokenPacketEndsItsConnectionOnly(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		witness := s.join(connect{})
		witness.subscribe(1, s.topic("x"))
		for _, raw := range [][]byte{
			{0x82, 0x05, 0x00, 0x01, 0x00, 0x00, 0x00},            // an empty filter without options
			{0x82, 0x06, 0x00, 0x01, 0x00, 0x00, 0x01, 'a'},       // a filter without options
			{0x82, 0x03, 0x00, 0x01, 0xff},                        // properties that never end
			{0xa2, 0x05, 0x00, 0x01, 0x00, 0xff, 0xff},            // a filter that never ends
			{0x30, 0x03, 0xff, 0xff, 'a'},                         // a topic that never ends
			{0x32, 0x04, 0x00, 0x01, 'a', 0x00},                   // half an identifier
			{0x30, 0x07, 0x00, 0x01, 'a', 0xff, 0xff, 0xff, 0xff}, // properties without length
			{0x40, 0x04, 0x00, 0x01, 0x00, 0xff},                  // in an acknowledgement
			{0xe0, 0x02, 0x00, 0xff},                              // in a DISCONNECT
			{0xf0, 0x02, 0x00, 0xff},                              // in an AUTH
			{0x10, 0x04, 0x00, 0x04, 'M', 'Q'},                    // half a second CONNECT
			{0x62, 0x00},                                          // empty
			{0xc0, 0xff, 0xff, 0xff, 0xff, 0x01},                  // a length field of five bytes
			{0x00, 0x00}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff},    // no packets
		} {
			c := s.join(connect{})
			c.sendAnyway(raw, pingreq())
			for err := error(nil); err == nil; { // to the end, or to the response if the version allows it
				var got packet
				if got, err = c.read(); got.kind() == typePingresp {
					break
				}
			}
			c.conn.Close()
		}
		s.join(connect{}).publish(publish{topic: s.topic("x"), qos: 1, payload: "well"})
		witness.receive(publish{topic: s.topic("x"), qos: 1, payload: "well"})
	})
}

// TestStalledSubscriberBlocksNoOther: a client that does not read blocks neither publishers
// nor other subscribers nor its own successor.
func TestStalledSubscriberBlocksNoOther(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		payload := strings.Repeat("x", 1<<18)
		for qos := range byte(3) {
			topic := s.topic(fmt.Sprint("flood/", qos))
			stalled := s.join(persistent(fmt.Sprint("stalled", qos), s))
			stalled.subscribe(qos, topic)
			publisher, other := s.join(connect{}), s.join(connect{})
			other.subscribe(qos, topic)
			for range 64 {
				publisher.publish(publish{topic: topic, qos: qos, payload: payload})
				other.receive(publish{topic: topic, qos: qos, payload: payload})
			}
			publisher.expectPong()
			next := s.resume(persistent(fmt.Sprint("stalled", qos), s))
			next.unsubscribe1(topic)
			next.conn.Close()
		}
	})
}

// unsubscribe1 sends UNSUBSCRIBE and reads what arrives before its UNSUBACK.
func (c *client) unsubscribe1(name string) {
	c.Helper()
	c.send(unsubscribe(c.version, 4242, nil, name))
	for got := c.next(); got.kind() != typeUnsuback; got = c.next() {
		if got.kind() == typePublish {
			c.acknowledgeFirst(got)
		}
	}
}

// TestPublishDoesNotTouchDeliveries: a client that publishes under the identifier of a
// delivery that it has not acknowledged still receives that delivery again.
func TestPublishDoesNotTouchDeliveries(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("both", s))
		c.subscribe(2, s.topic("down"))
		p := publish{topic: s.topic("down"), qos: 1, payload: "kept"}
		publisher.publish(p)
		p.id = c.expectPublish(p)
		for qos := byte(1); qos <= 2; qos++ {
			c.publish(publish{topic: s.topic("up"), qos: qos, id: p.id})
		}
		c.leave()
		c = s.resume(persistent("both", s))
		p.dup = true
		if id := c.expectPublish(p); id != p.id {
			s.Errorf("sent again as %d, was %d", id, p.id)
		}
	})
}

// TestTakeOverLosesNothing: a subscriber whose connection is taken over repeatedly while
// messages arrive receives each of them, in order. At QoS 1 it may receive twice, marked
// so, what it had not acknowledged; at QoS 2 it does not [MQTT-4.3.3-6].
func TestTakeOverLosesNothing(t *testing.T) {
	const many, each = 600, 25
	play(t, everyVersion, func(s *scene) {
		for qos := byte(1); qos <= 2; qos++ {
			topic := s.topic(fmt.Sprint("stream/", qos))
			mover := &mover{client: s.join(persistent(fmt.Sprint("moving", qos), s)), held: map[uint16]bool{}}
			mover.subscribe(qos, topic)
			publisher, done := s.join(connect{}), make(chan error, 1)
			go func() { done <- publisher.stream(topic, qos, many) }()
			for packets := 1; mover.next < many; packets++ {
				if packets%each == 0 {
					old := mover.client
					mover.client = s.resume(persistent(fmt.Sprint("moving", qos), s))
					old.conn.Close()
				}
				mover.take(mover.client.next())
			}
			if err := <-done; err != nil {
				s.Errorf("publish: %v", err)
			}
		}
	})
}

// mover is a subscriber that follows the standard over many connections.
type mover struct {
	*client
	next int             // number of the message that it expects
	held map[uint16]bool // identifiers of QoS 2 messages that it has received, until PUBREL
}

// take handles a packet.
func (m *mover) take(got packet) {
	m.Helper()
	n, err := strconv.Atoi(got.payload)
	switch again := got.first&8 != 0; {
	case got.kind() == typePubrel:
		delete(m.held, got.id)
		m.sendAnyway(ack(m.version, typePubcomp, got.id, success))
		return
	case got.kind() != typePublish || err != nil:
		m.Fatalf("got %v", got)
	case m.held[got.id] && n < m.next && again: // its PUBREC was lost
	case n > m.next || n < m.next && (!again || got.qos() == 2):
		m.Fatalf("got message %d (DUP %t), want %d", n, again, m.next)
	case n == m.next:
		m.next++
	}
	if got.qos() == 2 {
		m.held[got.id] = true
	}
	m.acknowledgeFirst(got)
}

// TestPublisherComesBack: whatever a QoS 2 publisher has lost with its connection (its
// PUBLISH, the PUBREC, the PUBCOMP), when it continues, each message is delivered once, in
// order [MQTT-4.3.3-10, MQTT-4.3.3-12].
func TestPublisherComesBack(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		subscriber, c := s.join(connect{}), s.join(persistent("back", s))
		subscriber.subscribe(2, s.topic("x"))
		back := func() {
			c.drop()
			c = s.resume(persistent("back", s))
		}
		for i := range 20 {
			p := publish{topic: s.topic("x"), qos: 2, id: uint16(i%3 + 1), payload: fmt.Sprint(i)}
			c.send(p.bytes(s.version))
			if i%4 == 0 {
				back()
				p.dup = true
				c.send(p.bytes(s.version))
			}
			c.expectAck(typePubrec, p.id)
			if i%4 == 1 {
				back()
			}
			c.send(ack(s.version, typePubrel, p.id, success))
			if i%4 == 2 {
				back()
				c.send(ack(s.version, typePubrel, p.id, success))
			}
			c.expectPubcomp(p.id)
			subscriber.receive(publish{topic: s.topic("x"), qos: 2, payload: fmt.Sprint(i)})
		}
		subscriber.expectNothing(c)
	})
}

// expectPubcomp expects the end of a message that the broker may not know any more.
func (c *client) expectPubcomp(id uint16) {
	c.Helper()
	got := c.next()
	if got.kind() != typePubcomp || got.id != id || got.reason() != success && got.reason() != idNotFound {
		c.Fatalf("got %v, want PUBCOMP %d", got, id)
	}
}

// stream publishes numbered messages. It runs concurrently with its test.
func (c *client) stream(topic string, qos byte, many int) error {
	for i := range many {
		p := publish{topic: topic, qos: qos, id: uint16(i + 1), payload: fmt.Sprint(i)}
		answers := [][]byte{nil, {typePuback}, {typePubrec, typePubcomp}}[qos]
		request := p.bytes(c.version)
		for _, kind := range answers {
			c.extend()
			if _, err := c.conn.Write(request); err != nil {
				return err
			}
			got, err := c.read()
			if err != nil {
				return err
			}
			if got.kind() != kind || got.id != p.id {
				return fmt.Errorf("message %d is answered by %v", i, got)
			}
			request = ack(c.version, typePubrel, p.id, success)
		}
	}
	return nil
}

// TestReconnectCutShortLosesNothing: a client that disconnects while messages are sent
// again still has all of them queued.
func TestReconnectCutShortLosesNothing(t *testing.T) {
	const many = 300
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("short", s))
		c.subscribe(1, s.topic("q"))
		c.leave()
		for i := range many {
			publisher.publish(publish{topic: s.topic("q"), qos: 1, payload: fmt.Sprint(i)})
		}
		for i := range 5 {
			c = s.resume(persistent("short", s))
			for range i {
				c.next()
			}
			c.drop()
		}
		c = s.resume(persistent("short", s))
		for i := range many {
			got := c.next()
			if got.payload != fmt.Sprint(i) {
				s.Fatalf("got %v, want message %d", got, i)
			}
			c.acknowledgeFirst(got)
		}
		c.expectPong()
	})
}

// TestForeignProtocolsAreEnded: a connection without a CONNECT, or with more than a CONNECT
// can be, is closed.
func TestForeignProtocolsAreEnded(t *testing.T) {
	play(t, []byte{v5}, func(s *scene) {
		for name, raw := range map[string][]byte{
			"nothing":           {},
			"half a CONNECT":    {0x10, 0x20, 0x00},
			"a type":            {0x10},
			"half a length":     {0x10, 0x80},
			"256 MiB":           {0x10, 0xff, 0xff, 0xff, 0x7f},
			"a PUBLISH":         {0x30, 0xff, 0xff, 0xff, 0x7f},
			"an endless length": {0x10, 0xff, 0xff, 0xff, 0xff, 0xff},
		} {
			s.each(name, func(s *scene) {
				s.Parallel()
				s.expectEnded(raw)
			})
		}
	}, configured(func(c *embedded.Config) { c.ConnectTimeout = 300 * time.Millisecond }),
		notOn(kindMosquitto, "2.0.11 waits for ever"))
}

// TestForeignProtocolsDoNotDelayClose, nor do clients that do not read.
func TestForeignProtocolsDoNotDelayClose(t *testing.T) {
	t.Parallel()
	if !slices.Contains(kinds(t), kindEmbedded) {
		t.Log("this is about our broker only")
		return
	}
	broker := &subject{kind: kindEmbedded}
	broker.start(t)
	for _, ws := range []bool{false, true} {
		s := &scene{T: t, subject: broker, version: v5, ws: ws, mark: fmt.Sprint("close", ws)}
		s.dial()
		s.dial().send([]byte{0x10, 0x80})
		stalled, publisher := s.join(connect{}), s.join(connect{})
		stalled.subscribe(1, s.topic("x"))
		for range 32 {
			publisher.publish(publish{topic: s.topic("x"), qos: 1, payload: strings.Repeat("x", 1<<18)})
		}
	}
	if err := closeEmbedded(broker.embedded); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestLongKeepAlive: one and a half times a long keep-alive does not fit into two bytes,
// and must not close the connection [MQTT-3.1.2-22].
func TestLongKeepAlive(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		for _, seconds := range []uint16{43690, 43691, 65535} {
			c := s.join(connect{keepAlive: seconds})
			c.expectPong()
			c.subscribe(0, s.topic("x"))
			c.expectPong()
		}
	})
}

// TestRetainedMessagesStayWhole: a client that subscribes while retained messages are
// replaced receives one or the other, never a mixture.
func TestRetainedMessagesStayWhole(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, done := s.join(connect{}), make(chan error, 1)
		stop := make(chan struct{})
		go func() { done <- publisher.flicker(s, stop) }()
		for range 100 {
			c := s.join(connect{})
			c.send(subscribe(c.version, c.nextID(), nil, filter{s.topic("#"), 0}))
			c.send(pingreq())
			for got := c.next(); got.kind() != typePingresp; got = c.next() {
				if got.kind() == typeSuback { // messages may come before it [MQTT-3.8.4]
					continue
				}
				letter := got.topic[len(got.topic)-1:]
				if got.payload != "" && got.payload != strings.Repeat(letter, 1000) {
					s.Fatalf("got %.80s…", got)
				}
			}
			c.drop()
		}
		close(stop)
		if err := <-done; err != nil {
			s.Errorf("publish: %v", err)
		}
	})
}

// flicker sets and clears retained messages until it is stopped.
func (c *client) flicker(s *scene, stop chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		letter := string(rune('a' + i%7))
		for _, payload := range []string{strings.Repeat(letter, 1000), ""} {
			p := publish{topic: s.topic("flicker/" + letter), retain: true, qos: 1, id: 1, payload: payload}
			c.extend()
			if _, err := c.conn.Write(p.bytes(c.version)); err != nil {
				return err
			}
			if got, err := c.read(); err != nil || got.kind() != typePuback {
				return fmt.Errorf("answered by %v, %w", got, err)
			}
		}
	}
}
