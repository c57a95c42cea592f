package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// TestUnsubscribeOnFullDisk removes subscriptions while nothing can be stored. Neither the
// client waits for the disk, nor the recipients of its messages, nor the end of the broker.
func TestUnsubscribeOnFullDisk(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	other := b.Connect(fresh("other"))
	other.Subscribe("to/other", 0)
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 1)
	disk.fail()
	both := packet.AppendPublish(nil, packet.V5, &packet.Outgoing{Topic: "to/other", Payload: []byte("x")})
	c.Send(packet.AppendUnsubscribe(both, packet.V5, &packet.Unsubscribe{PacketID: 2, Filters: []string{"a"}}))
	other.WantMessage()
	c.Want(packet.TypeUnsuback)
	again := b.Connect(keeps("c"))
	if !again.Present {
		t.Error("a session that is stored already cannot be resumed")
	}
	again.Send(packet.AppendUnsubscribe(nil, packet.V5, &packet.Unsubscribe{PacketID: 2, Filters: []string{"a"}}))
	b.Engine.Disconnect("c") //nolint:errcheck // it may have ended
	b.CloseEngine()
	disk.work()
}

// TestOwedKeepsNothingBack shows that a PUBREL that waits for a full disk does not delay
// acknowledgements that need no disk, and is sent when there is space.
func TestOwedKeepsNothingBack(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 2)
	publisher := b.Connect(fresh("p"))
	publisher.Publish(packet.Outgoing{Topic: "a", QoS: 2, PacketID: 1})
	publisher.WantAck(packet.TypePubrec)
	m := c.WantMessage()
	disk.fail()
	c.Ack(packet.TypePubrec, m.ID)
	c.Publish(packet.Outgoing{Topic: "nobody", QoS: 1, PacketID: 7})
	if a := c.WantAck(packet.TypePuback); a.PacketID != 7 {
		t.Errorf("got PUBACK for %d", a.PacketID)
	}
	disk.work()
	if a := c.WantAck(packet.TypePubrel); a.PacketID != m.ID {
		t.Errorf("got PUBREL for %d", a.PacketID)
	}
	c.Ack(packet.TypePubcomp, m.ID)
	until(t, "the message is done with", func() bool { return b.queue("c") == 0 })
}

// TestRefusedRetained refuses two retained messages of one topic together: the one before
// them stays.
func TestRefusedRetained(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"third", ""} {
		var disk *faulty
		b := start(t, t.TempDir(), withFaulty(&disk))
		c := b.Connect(fresh("c"))
		c.Publish(packet.Outgoing{Topic: "a", Payload: []byte("first"), Retain: true, QoS: 1, PacketID: 1})
		c.WantAck(packet.TypePuback)
		disk.hang()
		c.Publish(packet.Outgoing{Topic: "a", Payload: []byte("second"), Retain: true, QoS: 1, PacketID: 2})
		c.Publish(packet.Outgoing{Topic: "a", Payload: []byte(last), Retain: true, QoS: 1, PacketID: 3})
		until(t, "both are submitted", func() bool { return disk.held() == 2 })
		disk.fail()
		for range 2 {
			if a := c.WantAck(packet.TypePuback); a.Reason != packet.ReasonQuotaExceeded {
				t.Errorf("PUBACK has reason %#x", a.Reason)
			}
		}
		if m, ok := b.RetainedOf("a"); !ok || string(m.Payload) != "first" {
			t.Errorf("retained is %v", m)
		}
		disk.work()
	}
}

// TestRefusedBeforeFive: before MQTT 5 there is no acknowledgement that refuses. A message
// that cannot be stored ends the connection, so that its client sends it again
// [MQTT-4.8.0-2 of 3.1.1]; it is accepted when there is space.
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

// refusedBeforeFive publishes to a disk that fails at once, or while it is storing the
// message.
func refusedBeforeFive(t *testing.T, late bool, qos byte) {
	t.Helper()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	b.Connect(keeps("kept")).Subscribe("a", 2)
	h := packet.Connect{Version: packet.V311, ClientID: "publisher"}
	c := b.Connect(h)
	if late {
		disk.hang()
	} else {
		disk.fail()
	}
	m := packet.Outgoing{Topic: "a", QoS: qos, PacketID: 1}
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
	again.WantAck([]byte{0, packet.TypePuback, packet.TypePubrec}[qos])
}

// TestReceiveMaximum shows that PUBRELs of unknown packet identifiers do not raise the send
// quota [MQTT-3.3.4-9].
func TestReceiveMaximum(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk), func(c *engine.Config, _ *engine.Parts) { c.ReceiveMaximum = 3 })
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 1)
	for id := range uint16(50) {
		c.Ack(packet.TypePubrel, id+1)
		if a := c.WantAck(packet.TypePubcomp); a.Reason != packet.ReasonPacketIDNotFound {
			t.Fatalf("PUBCOMP has reason %#x", a.Reason)
		}
	}
	disk.hang()
	for id := range uint16(4) {
		c.Publish(packet.Outgoing{Topic: "a", QoS: 1, PacketID: id + 1})
	}
	if p := c.Want(packet.TypeDisconnect); p[2] != packet.ReasonReceiveMaximumExceeded {
		t.Errorf("DISCONNECT % x", p)
	}
	disk.work()
}

// TestSubscriptionsOfOnePacket applies the bound within a single SUBSCRIBE.
func TestSubscriptionsOfOnePacket(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), func(c *engine.Config, _ *engine.Parts) { c.MaxSubscriptions = 3 })
	c := b.Connect(fresh("c"))
	c.Subscribe("a", 0)
	s := &packet.Subscribe{PacketID: 2}
	for _, f := range []string{"a", "b", "b", "c", "d", "a"} {
		s.Filters = append(s.Filters, packet.Filter{Filter: f})
	}
	c.Send(packet.AppendSubscribe(nil, packet.V5, s))
	p := c.Want(packet.TypeSuback)
	if got := p[len(p)-6:]; !bytes.Equal(got, []byte{0, 0, 0, 0, packet.ReasonQuotaExceeded, 0}) {
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
		publisher.Publish(packet.Outgoing{Topic: "a", Payload: fmt.Append(nil, qos), QoS: qos, PacketID: uint16(qos), HasExpiry: true, Expiry: 1})
		c.WantMessage()
	}
	now.advance(time.Minute)
	c = b.Connect(keeps("c"))
	if m := c.WantMessage(); m.QoS != 2 || !m.Dup {
		t.Errorf("got %v", m)
	}
}
