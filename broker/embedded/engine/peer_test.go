package engine_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// forwardLink is a link to a node that does not exist: it records messages.
type forwardLink struct{ taken chan forwarded }

type forwarded struct {
	message *engine.Message
	engine.Forward
}

func newForwardLink() *forwardLink { return &forwardLink{make(chan forwarded, 100)} }

func (l *forwardLink) Take(m *engine.Message, c engine.Forward) { l.taken <- forwarded{m, c} }
func (l *forwardLink) Backlog() (int, bool)                     { return 0, false }
func (l *forwardLink) WaitForCapacity()                         {}

// outcomes counts the outcomes of a receipt.
type outcomes chan error

func newOutcomes() outcomes            { return make(outcomes, 10) }
func (s outcomes) Committed(err error) { s <- err }
func (s outcomes) wants(t *testing.T) error {
	t.Helper()
	err := <-s
	if n := len(s); n > 0 {
		t.Errorf("settled %d times more", n)
	}
	return err
}

// TestPeer forwards a message once with the greatest QoS, however many of the node's
// subscriptions match, and acknowledges it when the node has it.
func TestPeer(t *testing.T) {
	t.Parallel()
	for _, qos := range []byte{1, 2} {
		b, link := start(t, t.TempDir()), newForwardLink()
		p := b.AddPeer("other", link)
		p.SetLinked(true)
		p.Announce("a/+", engine.Interest{QoS: 1})
		p.Announce("a/#", engine.Interest{QoS: 2})
		p.Announce("$share/g/a/b", engine.Interest{QoS: 1})
		p.Announce("b/#", engine.Interest{})
		p.Announce("no/#/filter", engine.Interest{})
		reader, c := b.Connect(keeps("reader")), b.Connect(keeps("c"))
		reader.Subscribe("a/b", 1)
		c.Publish(packet.Outgoing{Topic: "a/b", QoS: qos, PacketID: 7})
		got := <-link.taken
		if got.message.Stamp == 0 || !got.Direct || got.QoS != qos || !slices.Equal(got.Shares, []string{"$share/g/a/b"}) {
			t.Errorf("got %+v", got)
		}
		if p := c.Ping(); p[0]>>4 != packet.TypePingresp {
			t.Fatalf("% x before the node has it", p)
		}
		got.Receipt.Committed(nil)
		if a := c.WantAck(packet.TypePuback - 1 + qos); a.Reason != 0 { // PUBACK or PUBREC
			t.Errorf("got %+v", a)
		}
		if m := reader.WantMessage(); m.Topic != "a/b" {
			t.Errorf("got %v", m)
		}
		c.Publish(packet.Outgoing{Topic: "a/b", QoS: qos, PacketID: 8})
		(<-link.taken).Receipt.Committed(errors.New("no room"))
		if a := c.WantAck(packet.TypePuback - 1 + qos); a.Reason != packet.ReasonQuotaExceeded {
			t.Errorf("got %+v", a)
		}
		c.Publish(packet.Outgoing{Topic: "b", QoS: qos, PacketID: 9})
		if got := <-link.taken; got.QoS != 0 || got.Receipt != nil {
			t.Errorf("got %+v for a subscriber of QoS 0", got)
		}
		c.WantAck(packet.TypePuback - 1 + qos)
		p.Withdraw("a/+")
		p.Renew()
		p.Announce("b/#", engine.Interest{})
		p.Prune()
		if n := p.Routes(); n != 1 {
			t.Errorf("%d routes are left, want 1", n)
		}
		p.Remove()
		c.Publish(packet.Outgoing{Topic: "b"})
		c.Ping()
		if n := len(link.taken); n != 0 {
			t.Errorf("%d messages for a node that is no more", n)
		}
	}
}

// TestPeerIsNoClient does not list the subscriptions of other nodes as those of clients.
func TestPeerIsNoClient(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	p := b.AddPeer("other", newForwardLink())
	p.Announce("a", engine.Interest{})
	p.Announce("$share/g/a", engine.Interest{Away: true})
	p.Announce("$share/g/a", engine.Interest{})
	if n, list := b.Subscriptions(0, -1, nil); n+len(list) != 0 || b.Counts().Shared != 0 {
		t.Errorf("got %v", list)
	}
}

// TestSharedAcross chooses members in turn, those of another node only while it can be
// reached, and members that are away last.
func TestSharedAcross(t *testing.T) {
	t.Parallel()
	b, link := start(t, t.TempDir()), newForwardLink()
	p := b.AddPeer("other", link)
	p.SetLinked(true)
	p.Announce("$share/g/a", engine.Interest{QoS: 1})
	reader, c := b.Connect(fresh("reader")), b.Connect(fresh("c"))
	reader.Subscribe("$share/g/a", 0)
	publish := func() {
		c.Publish(packet.Outgoing{Topic: "a"})
		c.Ping()
	}
	for range 4 {
		publish()
	}
	if n := len(link.taken); n != 2 {
		t.Errorf("%d of 4 messages for the other node", n)
	}
	p.SetLinked(false)
	publish()
	p.SetLinked(true)
	p.Announce("$share/g/a", engine.Interest{QoS: 1, Away: true})
	publish()
	if n := len(link.taken); n != 2 {
		t.Errorf("%d messages for a node that has no member present", n)
	}
	reader.Disconnect()
	until(t, "its subscription is gone", func() bool { return b.Counts().Subscriptions == 0 })
	publish() // QoS 0 is not delivered to members that are away
	c.Publish(packet.Outgoing{Topic: "a", QoS: 1, PacketID: 1})
	for range 2 {
		<-link.taken
	}
	got, done := <-link.taken, newOutcomes()
	p.Reassign(got.message, got.Shares, done)
	if err := done.wants(t); err != nil {
		t.Errorf("a message without any member: %v", err)
	}
	reader = b.Connect(keeps("reader"))
	reader.Subscribe("$share/g/a", 1)
	p.Reassign(got.message, got.Shares, done)
	if m := reader.WantMessage(); m.QoS != 1 {
		t.Errorf("got %v", m)
	}
	if err := done.wants(t); err != nil {
		t.Error(err)
	}
	got.Receipt.Committed(nil)
	c.WantAck(packet.TypePuback)
}

// TestReceive delivers messages of another node to clients and taps, not to other nodes, and
// returns the shared subscriptions without members.
func TestReceive(t *testing.T) {
	t.Parallel()
	b, link, tap := start(t, t.TempDir()), newForwardLink(), newDrain(true)
	b.Open("a", tap)
	p := b.AddPeer("other", link)
	p.SetLinked(true)
	p.Announce("#", engine.Interest{QoS: 2})
	p.Announce("$share/g/a", engine.Interest{QoS: 2})
	one, two := b.Connect(keeps("one")), b.Connect(fresh("two"))
	one.Subscribe("a", 1)
	two.Subscribe("$share/h/a", 0)
	in, done := b.NewReceiver(), newOutcomes()
	m := &engine.Message{Topic: "a", Payload: []byte("x"), QoS: 2, Publisher: "c", Stamp: 1}
	untaken := in.Receive(m, engine.Forward{
		Direct: true, Shares: []string{"$share/g/a", "$share/h/a", "$share/i/a"}, QoS: 2, Receipt: done,
	}, false)
	in.Flush()
	if diff := cmp.Diff([]string{"$share/g/a", "$share/i/a"}, untaken); diff != "" {
		t.Errorf("untaken (-want +got):\n%s", diff)
	}
	if m := two.WantMessage(); m.Payload != "x" {
		t.Errorf("got %v", m)
	}
	if len(done) > 0 {
		t.Error("settled before the tap has")
	}
	(<-tap.taken).hold.Committed(nil)
	if m := one.WantMessage(); m.Payload != "x" || m.QoS != 1 {
		t.Errorf("got %v", m)
	}
	if err := done.wants(t); err != nil {
		t.Error(err)
	}
	in.Receive(&engine.Message{Topic: "other", QoS: 1}, engine.Forward{Direct: true, QoS: 1, Receipt: done}, false)
	if err := done.wants(t); err != nil {
		t.Error(err)
	}
	if n := len(link.taken); n != 0 {
		t.Errorf("%d messages went on to another node", n)
	}
}

// TestReceiveWithoutCapacity refuses messages that cannot be stored.
func TestReceiveWithoutCapacity(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	b.Connect(keeps("one")).Subscribe("a", 1)
	in, done := b.NewReceiver(), newOutcomes()
	disk.fail()
	in.Receive(&engine.Message{Topic: "a", QoS: 1}, engine.Forward{Direct: true, QoS: 1, Receipt: done}, false)
	if err := done.wants(t); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
	disk.work()
}
