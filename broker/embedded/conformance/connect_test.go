package conformance

import "testing"

func TestConnectAccepted(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		a := s.join(connect{})
		b := s.join(connect{})
		a.subscribe(2, s.topic("#"))
		b.publish(publish{topic: s.topic("x"), payload: "hello", qos: 2})
		a.receive(publish{topic: s.topic("x"), payload: "hello", qos: 2})
		a.expectNothing(b)
		a.expectPong()
		a.leave()
		b.send([]byte{0xf1, 0})
		b.expectEnd(malformedPacket, protocolError)
	})
}
