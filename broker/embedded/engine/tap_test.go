package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
	"signalbox/scripts/suite"
)

// drain is a tap that records messages, and keeps their barriers if hold is set.
type drain struct {
	holds bool
	taken chan taken
}

type taken struct {
	message messaging.Message
	hold    messaging.CommitNotifier
}

func newDrain(holds bool) *drain { return &drain{holds: holds, taken: make(chan taken, 100)} }

func (d *drain) Keeps() bool                                          { return d.holds }
func (d *drain) Take(m messaging.Message, h messaging.CommitNotifier) { d.taken <- taken{m, h} }

// TestTap passes messages to a tap in order, except those of other topics and those published
// after close.
func TestTap(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	d := newDrain(false)
	end := b.Open("a/+", d)
	c := b.Connect(fresh("c"))
	for _, topic := range []string{"a/1", "b/1", "a/2", "$SYS/x", "a/2/3", "a/3"} {
		c.Publish(packet.Outgoing{Topic: topic, Payload: []byte(topic), QoS: 1, PacketID: 1})
		c.WantAck(packet.TypePuback)
	}
	end()
	c.Publish(packet.Outgoing{Topic: "a/4", QoS: 1, PacketID: 1})
	c.WantAck(packet.TypePuback)
	var got []string
	for range len(d.taken) {
		m := <-d.taken
		got = append(got, m.message.Topic)
		if m.hold != nil {
			t.Errorf("%s is held", m.message.Topic)
		}
	}
	if want := []string{"a/1", "a/2", "a/3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTapDelaysAcknowledgement acknowledges a message when all taps have committed it, and not
// before, and refuses it if one of them failed.
func TestTapDelaysAcknowledgement(t *testing.T) {
	t.Parallel()
	for _, qos := range []byte{1, 2} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("qos %d lost %t", qos, lost), func(t *testing.T) {
				t.Parallel()
				b := start(t, t.TempDir())
				first, second, third := newDrain(true), newDrain(true), newDrain(false)
				b.Open("a", first)
				b.Open("#", second)
				b.Open("+", third)
				b.Connect(keeps("reader")).Subscribe("a", 2) // so that the store must commit, too
				c := b.Connect(fresh("c"))
				c.Publish(packet.Outgoing{Topic: "a", QoS: qos, PacketID: 7})
				one, two, three := <-first.taken, <-second.taken, <-third.taken
				if p := c.Ping(); p[0]>>4 != packet.TypePingresp {
					t.Fatalf("% x before anybody has settled", p)
				}
				if three.hold != nil {
					t.Error("a tap that does not hold has to settle")
				}
				var err error
				kind, want := byte(packet.TypePuback), byte(packet.ReasonSuccess)
				if qos == 2 {
					kind = packet.TypePubrec
				}
				if lost {
					err, want = errors.New("no room"), packet.ReasonQuotaExceeded
				}
				one.hold.Committed(err)
				if p := c.Ping(); p[0]>>4 != packet.TypePingresp {
					t.Fatalf("% x before all have settled", p)
				}
				two.hold.Committed(nil)
				if a := c.WantAck(kind); a.PacketID != 7 || a.Reason != want {
					t.Errorf("got %+v, want code %d", a, want)
				}
			})
		}
	}
}

// TestTapCommitsAtOnce acknowledges a message whose tap commits it within Take.
func TestTapCommitsAtOnce(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	b.Open("a", hasty{})
	c := b.Connect(fresh("c"))
	c.Publish(packet.Outgoing{Topic: "a", QoS: 1, PacketID: 7})
	if a := c.WantAck(packet.TypePuback); a.PacketID != 7 || a.Reason != packet.ReasonQuotaExceeded {
		t.Errorf("got %+v", a)
	}
	if err := b.Publish(&engine.Message{Topic: "a", QoS: 1}); !errors.Is(err, errDisk) {
		t.Errorf("a message of the broker's own: %v", err)
	}
	check(t, b.Publish(&engine.Message{Topic: "a"}))
}

// hasty is a tap that refuses all messages within Take.
type hasty struct{}

func (hasty) Keeps() bool { return true }
func (hasty) Take(_ messaging.Message, h messaging.CommitNotifier) {
	if h != nil {
		h.Committed(errDisk)
	}
}

// TestPublisher delivers many messages in order, also to later subscribers, and reports those
// that cannot be stored.
func TestPublisher(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	p := b.NewPublisher()
	p.Publish(&engine.Message{Topic: "a", Payload: []byte("nobody")})
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 1)
	for i := range 300 {
		if !p.Publish(&engine.Message{Topic: "a", Payload: fmt.Append(nil, i), QoS: byte(i % 2)}) {
			t.Fatal("a message was refused")
		}
	}
	p.Flush()
	last := map[byte]int{0: -2, 1: -1}
	for range 300 {
		m := c.WantMessage()
		if m.QoS == 1 {
			c.Ack(packet.TypePuback, m.ID)
		}
		if want := fmt.Sprint(last[m.QoS] + 2); m.Payload != want {
			t.Fatalf("got %s, want %s", m.Payload, want)
		}
		last[m.QoS] += 2
	}
	disk.fail()
	if p.Publish(&engine.Message{Topic: "a", QoS: 1}) {
		t.Error("a message was taken that cannot be stored")
	}
	if !p.Publish(&engine.Message{Topic: "a", Payload: []byte("passing")}) {
		t.Error("a message was refused that need not be stored")
	}
	p.Flush()
	if m := c.WantMessage(); m.Payload != "passing" {
		t.Errorf("got %v", m)
	}
}

// TestWaitForCapacity waits until the queue of a subscriber is shorter, but not for a subscriber
// that is away.
func TestWaitForCapacity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testWaitForCapacity)
}

func testWaitForCapacity(t *testing.T) {
	b := enginetest.Unconnected(t, suite.HangLimit, t.TempDir(), func(c *engine.Config, _ *engine.Parts) { c.MaxQueuedMessages = 10 })
	t.Cleanup(func() { b.Close() })
	check(t, b.Resume(t.Context()))
	away := b.Connect(keeps("away"))
	away.Subscribe("a", 1)
	away.Disconnect()
	c := b.Connect(fresh("c"))
	c.Subscribe("a", 1)
	p := b.NewPublisher()
	for range 6 {
		p.Publish(&engine.Message{Topic: "a", QoS: 1})
	}
	p.Flush()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	p.WaitForCapacity(stopped, "a")
	waited := make(chan struct{})
	go func() {
		p.WaitForCapacity(t.Context(), "a")
		close(waited)
	}()
	first := c.WantMessage()
	<-time.After(time.Second)
	select {
	case <-waited:
		t.Fatal("did not wait")
	default:
	}
	c.Ack(packet.TypePuback, first.ID)
	began := time.Now()
	<-waited
	if took := time.Since(began); took >= time.Second {
		t.Errorf("there is room, and it waited for %v", took)
	}
	p.WaitForCapacity(t.Context(), "b")
}

// TestRepeatedWhileHeld acknowledges a duplicate of QoS 2 on another connection when the first
// is committed, and not before; it is delivered once.
func TestRepeatedWhileHeld(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost %t", lost), func(t *testing.T) {
			t.Parallel()
			b := start(t, t.TempDir())
			d := newDrain(true)
			b.Open("a", d)
			c := b.Connect(keeps("c"))
			c.Publish(packet.Outgoing{Topic: "a", QoS: 2, PacketID: 7})
			m := <-d.taken
			c = b.Connect(keeps("c"))
			c.Publish(packet.Outgoing{Topic: "a", QoS: 2, PacketID: 7, Dup: true})
			if p := c.Ping(); p[0]>>4 != packet.TypePingresp {
				t.Fatalf("% x before the message is safe", p)
			}
			var err error
			want := byte(packet.ReasonSuccess)
			if lost {
				err, want = errDisk, packet.ReasonQuotaExceeded
			}
			m.hold.Committed(err)
			if a := c.WantAck(packet.TypePubrec); a.PacketID != 7 || a.Reason != want {
				t.Errorf("got %+v, want code %d", a, want)
			}
			if n := len(d.taken); n != 0 {
				t.Errorf("taken %d times more", n)
			}
			c.Publish(packet.Outgoing{Topic: "a", QoS: 2, PacketID: 7, Dup: true})
			if lost { // the message counts as a new one
				(<-d.taken).hold.Committed(nil)
			}
			c.WantAck(packet.TypePubrec)
		})
	}
}

// TestHeldIsNotStored stores nothing of a message before a tap has committed it, except the
// retained message: after a crash it must not be a duplicate when it is sent again.
func TestHeldIsNotStored(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	d := newDrain(true)
	b.Open("a", d)
	reader := b.Connect(keeps("reader"))
	reader.Subscribe("a", 2)
	c := b.Connect(keeps("c"))
	disk.hang()
	c.Publish(packet.Outgoing{Topic: "a", QoS: 2, PacketID: 7})
	c.Publish(packet.Outgoing{Topic: "a", QoS: 2, PacketID: 8, Retain: true, Payload: []byte("kept")})
	c.Ping()
	if n := disk.held(); n != 1 {
		t.Errorf("%d changes were stored, want what is retained", n)
	}
	for range 2 {
		(<-d.taken).hold.Committed(nil)
	}
	until(t, "the messages are being stored", func() bool { return disk.held() == 2 })
	disk.work()
	c.WantAck(packet.TypePubrec)
	c.WantAck(packet.TypePubrec)
	until(t, "the reader's queue is full", func() bool { return b.queue("reader") == 2 })
	late := b.Connect(fresh("late"))
	late.Subscribe("a", 0)
	if m := late.WantMessage(); m.Payload != "kept" {
		t.Errorf("got %v", m)
	}
}
