package engine_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/wire"
)

// TestUnsubscribeOnFullDisk takes subscriptions back while nothing can be stored:
// nobody waits for the disk, neither the client nor those whom it has just sent
// something, nor the end of the broker.
func TestUnsubscribeOnFullDisk(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	other := b.Connect(fresh("other"))
	other.Subscribe("to/other", 0)
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 1)
	disk.fail()
	both := wire.AppendPublish(nil, wire.V5, &wire.Outgoing{Topic: "to/other", Payload: []byte("x")})
	c.Send(wire.AppendUnsubscribe(both, wire.V5, &wire.Unsubscribe{PacketID: 2, Filters: []string{"a"}}))
	other.WantMessage()
	c.Want(wire.TypeUnsuback)
	again := b.Connect(keeps("c"))
	if !again.Present {
		t.Error("a session that is stored already cannot be resumed")
	}
	again.Send(wire.AppendUnsubscribe(nil, wire.V5, &wire.Unsubscribe{PacketID: 2, Filters: []string{"a"}}))
	b.Engine.Disconnect("c") //nolint:errcheck // it may be gone
	b.CloseEngine()
	disk.work()
}

// TestOwedKeepsNothingBack shows that a PUBREL that waits for a full disk does
// not keep back what needs no disk, and goes out when there is room.
func TestOwedKeepsNothingBack(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 2)
	publisher := b.Connect(fresh("p"))
	publisher.Publish(wire.Outgoing{Topic: "a", QoS: 2, PacketID: 1})
	publisher.WantAck(wire.TypePubrec)
	m := c.WantMessage()
	disk.fail()
	c.Ack(wire.TypePubrec, m.ID)
	c.Publish(wire.Outgoing{Topic: "nobody", QoS: 1, PacketID: 7})
	if a := c.WantAck(wire.TypePuback); a.PacketID != 7 {
		t.Errorf("got PUBACK for %d", a.PacketID)
	}
	disk.work()
	if a := c.WantAck(wire.TypePubrel); a.PacketID != m.ID {
		t.Errorf("got PUBREL for %d", a.PacketID)
	}
	c.Ack(wire.TypePubcomp, m.ID)
	until(t, "the message is done with", func() bool { return b.queue("c") == 0 })
}

// TestRefusedRetained has two retained messages of one topic come to nothing
// together: the one before them stays.
func TestRefusedRetained(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"third", ""} {
		var disk *faulty
		b := start(t, t.TempDir(), withFaulty(&disk))
		c := b.Connect(fresh("c"))
		c.Publish(wire.Outgoing{Topic: "a", Payload: []byte("first"), Retain: true, QoS: 1, PacketID: 1})
		c.WantAck(wire.TypePuback)
		disk.hang()
		c.Publish(wire.Outgoing{Topic: "a", Payload: []byte("second"), Retain: true, QoS: 1, PacketID: 2})
		c.Publish(wire.Outgoing{Topic: "a", Payload: []byte(last), Retain: true, QoS: 1, PacketID: 3})
		until(t, "both are submitted", func() bool { return disk.held() == 2 })
		disk.fail()
		for range 2 {
			if a := c.WantAck(wire.TypePuback); a.Reason != wire.ReasonQuotaExceeded {
				t.Errorf("PUBACK has reason %#x", a.Reason)
			}
		}
		if m, ok := b.RetainedOf("a"); !ok || string(m.Payload) != "first" {
			t.Errorf("retained is %v", m)
		}
		disk.work()
	}
}

// TestReceiveMaximum shows that PUBRELs for nothing give no credit
// [MQTT-3.3.4-9].
func TestReceiveMaximum(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk), func(c *engine.Config, _ *engine.Parts) { c.ReceiveMaximum = 3 })
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 1)
	for id := range uint16(50) {
		c.Ack(wire.TypePubrel, id+1)
		if a := c.WantAck(wire.TypePubcomp); a.Reason != wire.ReasonPacketIDNotFound {
			t.Fatalf("PUBCOMP has reason %#x", a.Reason)
		}
	}
	disk.hang()
	for id := range uint16(4) {
		c.Publish(wire.Outgoing{Topic: "a", QoS: 1, PacketID: id + 1})
	}
	if p := c.Want(wire.TypeDisconnect); p[2] != wire.ReasonReceiveMaximumExceeded {
		t.Errorf("DISCONNECT % x", p)
	}
	disk.work()
}

// TestSubscriptionsOfOnePacket holds a single SUBSCRIBE to the bound.
func TestSubscriptionsOfOnePacket(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), func(c *engine.Config, _ *engine.Parts) { c.MaxSubscriptions = 3 })
	c := b.Connect(fresh("c"))
	c.Subscribe("a", 0)
	s := &wire.Subscribe{PacketID: 2}
	for _, f := range []string{"a", "b", "b", "c", "d", "a"} {
		s.Filters = append(s.Filters, wire.Filter{Filter: f})
	}
	c.Send(wire.AppendSubscribe(nil, wire.V5, s))
	p := c.Want(wire.TypeSuback)
	if got := p[len(p)-6:]; !bytes.Equal(got, []byte{0, 0, 0, 0, wire.ReasonQuotaExceeded, 0}) {
		t.Errorf("SUBACK % x", got)
	}
}

// TestSlowReaderThatCatchesUp stays connected although it once kept the broker
// waiting.
func TestSlowReaderThatCatchesUp(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	b := start(t, t.TempDir(), func(c *engine.Config, _ *engine.Parts) { c.WriteTimeout = limit })
	slow, publisher := b.Connect(fresh("slow")), b.Connect(fresh("p"))
	slow.Subscribe("a", 0)
	const n = 16
	for range n {
		publisher.Publish(wire.Outgoing{Topic: "a", Payload: make([]byte, 1<<20)})
	}
	publisher.Send(wire.AppendPingreq(nil))
	publisher.Want(wire.TypePingresp)
	for range n {
		slow.WantMessage()
	}
	for began := time.Now(); time.Since(began) < limit*3/2; {
		slow.Send(wire.AppendPingreq(nil))
		slow.Want(wire.TypePingresp)
	}
}

// TestSlowLink shows that a large message may take longer than the patience of
// one write, as long as the peer takes something.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	const size, part = 24 << 20, 64 << 10
	const limit = time.Second
	b := start(t, t.TempDir(), func(c *engine.Config, _ *engine.Parts) {
		c.WriteTimeout, c.MaxPacketSize = limit, size+100
	})
	slow, publisher := b.Connect(fresh("slow")), b.Connect(fresh("p"))
	slow.Subscribe("a", 0)
	publisher.Publish(wire.Outgoing{Topic: "a", Payload: make([]byte, size)})
	pace := time.NewTicker(4 * limit * part / size)
	defer pace.Stop()
	buf := make([]byte, part)
	for got := 0; got < size; {
		<-pace.C
		slow.SetReadDeadline(time.Now().Add(patience))
		n, err := slow.In.Read(buf)
		if err != nil {
			t.Fatalf("after %d bytes: %v", got, err)
		}
		got += n
	}
}

// TestQoS2DoesNotExpire sends a message again that has expired since it was sent
// [MQTT-4.3.3-7].
func TestQoS2DoesNotExpire(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := start(t, t.TempDir(), func(c *engine.Config, _ *engine.Parts) { c.Now = now.get })
	c, publisher := b.Connect(keeps("c")), b.Connect(fresh("p"))
	c.Subscribe("a", 2)
	for qos := byte(1); qos <= 2; qos++ {
		publisher.Publish(wire.Outgoing{Topic: "a", Payload: fmt.Append(nil, qos), QoS: qos, PacketID: uint16(qos), HasExpiry: true, Expiry: 1})
		c.WantMessage()
	}
	now.advance(time.Minute)
	c = b.Connect(keeps("c"))
	if m := c.WantMessage(); m.QoS != 2 || !m.Dup {
		t.Errorf("got %v", m)
	}
}
