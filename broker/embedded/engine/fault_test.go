package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
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

// TestRefusedBeforeFive: MQTT before 5 has no acknowledgement that refuses. A message
// that cannot be stored ends the connection, so that its client sends it again
// [MQTT-4.8.0-2 of 3.1.1]; it is taken when there is room.
func TestRefusedBeforeFive(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		for qos := byte(1); qos <= 2; qos++ {
			t.Run(fmt.Sprintf("late %t, QoS %d", late, qos), func(t *testing.T) {
				t.Parallel()
				refusedBeforeFive(t, late, qos)
			})
		}
	}
}

// refusedBeforeFive publishes to a disk that fails at once, or late, while it has
// the message.
func refusedBeforeFive(t *testing.T, late bool, qos byte) {
	t.Helper()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	b.Connect(keeps("kept")).Subscribe("a", 2)
	h := wire.Connect{Version: wire.V311, ClientID: "publisher"}
	c := b.Connect(h)
	if late {
		disk.hang()
	} else {
		disk.fail()
	}
	m := wire.Outgoing{Topic: "a", QoS: qos, PacketID: 1}
	c.Publish(m)
	if late {
		until(t, "the message is submitted", func() bool { return disk.held() > 0 })
		disk.fail()
	}
	if p, err := c.Read(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got % x, %v, want the end of the connection", p, err)
	}
	disk.work()
	again := b.Connect(h)
	again.Publish(m)
	again.WantAck([]byte{0, wire.TypePuback, wire.TypePubrec}[qos])
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
