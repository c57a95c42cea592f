package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/wire"
)

// drain is a tap that keeps what it is given, and holds it if it is told to.
type drain struct {
	holds bool
	taken chan taken
}

type taken struct {
	message *engine.Message
	hold    *engine.Hold
}

func newDrain(holds bool) *drain { return &drain{holds: holds, taken: make(chan taken, 100)} }

func (d *drain) Holds() bool                            { return d.holds }
func (d *drain) Take(m *engine.Message, h *engine.Hold) { d.taken <- taken{m, h} }

// ping sees to it that all that was sent has been dealt with.
func (c *client) ping() []byte {
	c.t.Helper()
	c.send([]byte{wire.TypePingreq << 4, 0})
	p, err := c.read()
	check(c.t, err)
	return p
}

// TestTap takes messages in order, those of other topics and those published
// after its end not.
func TestTap(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	d := newDrain(false)
	end := b.Open("a/+", d)
	c := b.connect(fresh("c"))
	for _, topic := range []string{"a/1", "b/1", "a/2", "$SYS/x", "a/2/3", "a/3"} {
		c.publish(wire.Outgoing{Topic: topic, Payload: []byte(topic), QoS: 1, PacketID: 1})
		c.wantAck(wire.TypePuback)
	}
	end()
	c.publish(wire.Outgoing{Topic: "a/4", QoS: 1, PacketID: 1})
	c.wantAck(wire.TypePuback)
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

// TestTapHolds acknowledges a message when all that hold it have settled, and not
// before; and refuses it if one of them could not keep it.
func TestTapHolds(t *testing.T) {
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
				b.connect(keeps("reader")).subscribe("a", 2) // so that the store has a part, too
				c := b.connect(fresh("c"))
				c.publish(wire.Outgoing{Topic: "a", QoS: qos, PacketID: 7})
				one, two, three := <-first.taken, <-second.taken, <-third.taken
				if p := c.ping(); p[0]>>4 != wire.TypePingresp {
					t.Fatalf("% x before anybody has settled", p)
				}
				if three.hold != nil {
					t.Error("a tap that does not hold has to settle")
				}
				var err error
				kind, want := byte(wire.TypePuback), byte(wire.ReasonSuccess)
				if qos == 2 {
					kind = wire.TypePubrec
				}
				if lost {
					err, want = errors.New("no room"), wire.ReasonQuotaExceeded
				}
				one.hold.Settled(err)
				if p := c.ping(); p[0]>>4 != wire.TypePingresp {
					t.Fatalf("% x before all have settled", p)
				}
				two.hold.Settled(nil)
				if a := c.wantAck(kind); a.PacketID != 7 || a.Reason != want {
					t.Errorf("got %+v, want code %d", a, want)
				}
			})
		}
	}
}

// TestTapSettlesAtOnce acknowledges a message whose tap settles while it takes it.
func TestTapSettlesAtOnce(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	b.Open("a", hasty{})
	c := b.connect(fresh("c"))
	c.publish(wire.Outgoing{Topic: "a", QoS: 1, PacketID: 7})
	if a := c.wantAck(wire.TypePuback); a.PacketID != 7 || a.Reason != wire.ReasonQuotaExceeded {
		t.Errorf("got %+v", a)
	}
	if err := b.Publish(&engine.Message{Topic: "a", QoS: 1}); !errors.Is(err, errDisk) {
		t.Errorf("a message of the broker's own: %v", err)
	}
	check(t, b.Publish(&engine.Message{Topic: "a"}))
}

// hasty is a tap that has no room.
type hasty struct{}

func (hasty) Holds() bool { return true }
func (hasty) Take(_ *engine.Message, h *engine.Hold) {
	if h != nil {
		h.Settled(errDisk)
	}
}

// TestPublisher delivers many messages in order, to subscribers who come later
// too, and tells what cannot be stored.
func TestPublisher(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	p := b.NewPublisher()
	p.Publish(&engine.Message{Topic: "a", Payload: []byte("nobody")})
	c := b.connect(keeps("c"))
	c.subscribe("a", 1)
	for i := range 300 {
		if !p.Publish(&engine.Message{Topic: "a", Payload: fmt.Append(nil, i), QoS: byte(i % 2)}) {
			t.Fatal("a message was refused")
		}
	}
	p.Flush()
	last := map[byte]int{0: -2, 1: -1}
	for range 300 {
		m := c.wantMessage()
		if m.qos == 1 {
			c.ack(wire.TypePuback, m.id)
		}
		if want := fmt.Sprint(last[m.qos] + 2); m.payload != want {
			t.Fatalf("got %s, want %s", m.payload, want)
		}
		last[m.qos] += 2
	}
	disk.fail()
	if p.Publish(&engine.Message{Topic: "a", QoS: 1}) {
		t.Error("a message was taken that cannot be stored")
	}
	if !p.Publish(&engine.Message{Topic: "a", Payload: []byte("passing")}) {
		t.Error("a message was refused that need not be stored")
	}
	p.Flush()
	if m := c.wantMessage(); m.payload != "passing" {
		t.Errorf("got %v", m)
	}
}

// TestRoom waits for a subscriber with much in its queue until that has become
// less, and not for one that is away.
func TestRoom(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), func(c *engine.Config, _ *engine.Parts) { c.MaxQueuedMessages = 10 })
	away := b.connect(keeps("away"))
	away.subscribe("a", 1)
	away.bye()
	c := b.connect(fresh("c"))
	c.subscribe("a", 1)
	p := b.NewPublisher()
	for range 6 {
		p.Publish(&engine.Message{Topic: "a", QoS: 1})
	}
	p.Flush()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	p.Room(stopped, "a")
	waited := make(chan struct{})
	go func() {
		p.Room(t.Context(), "a")
		close(waited)
	}()
	first := c.wantMessage()
	select {
	case <-waited:
		t.Fatal("did not wait")
	default:
	}
	c.ack(wire.TypePuback, first.id)
	<-waited
	p.Room(t.Context(), "b")
}

// TestRepeatedWhileHeld answers a message of QoS 2 that comes again on another
// connection when the first is safe, and not before; it is delivered once.
func TestRepeatedWhileHeld(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost %t", lost), func(t *testing.T) {
			t.Parallel()
			b := start(t, t.TempDir())
			d := newDrain(true)
			b.Open("a", d)
			c := b.connect(keeps("c"))
			c.publish(wire.Outgoing{Topic: "a", QoS: 2, PacketID: 7})
			m := <-d.taken
			c = b.connect(keeps("c"))
			c.publish(wire.Outgoing{Topic: "a", QoS: 2, PacketID: 7, Dup: true})
			if p := c.ping(); p[0]>>4 != wire.TypePingresp {
				t.Fatalf("% x before the message is safe", p)
			}
			var err error
			want := byte(wire.ReasonSuccess)
			if lost {
				err, want = errDisk, wire.ReasonQuotaExceeded
			}
			m.hold.Settled(err)
			if a := c.wantAck(wire.TypePubrec); a.PacketID != 7 || a.Reason != want {
				t.Errorf("got %+v, want code %d", a, want)
			}
			if n := len(d.taken); n != 0 {
				t.Errorf("taken %d times more", n)
			}
			c.publish(wire.Outgoing{Topic: "a", QoS: 2, PacketID: 7, Dup: true})
			if lost { // it is as good as new
				(<-d.taken).hold.Settled(nil)
			}
			c.wantAck(wire.TypePubrec)
		})
	}
}

// TestHeldIsNotStored stores nothing of a message that a tap holds but what is
// retained: after a crash it must be new when it comes again.
func TestHeldIsNotStored(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	d := newDrain(true)
	b.Open("a", d)
	reader := b.connect(keeps("reader"))
	reader.subscribe("a", 2)
	c := b.connect(keeps("c"))
	disk.hang()
	c.publish(wire.Outgoing{Topic: "a", QoS: 2, PacketID: 7})
	c.publish(wire.Outgoing{Topic: "a", QoS: 2, PacketID: 8, Retain: true, Payload: []byte("kept")})
	c.ping()
	if n := disk.held(); n != 1 {
		t.Errorf("%d changes were stored, want what is retained", n)
	}
	for range 2 {
		(<-d.taken).hold.Settled(nil)
	}
	until(t, "the messages are being stored", func() bool { return disk.held() == 2 })
	disk.work()
	c.wantAck(wire.TypePubrec)
	c.wantAck(wire.TypePubrec)
	until(t, "the reader's queue is full", func() bool { return b.queue("reader") == 2 })
	late := b.connect(fresh("late"))
	late.subscribe("a", 0)
	if m := late.wantMessage(); m.payload != "kept" {
		t.Errorf("got %v", m)
	}
}
