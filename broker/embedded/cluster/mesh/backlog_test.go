package mesh_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// shortGrace sets a short grace period.
func shortGrace(f *network) { f.grace = 100 * time.Millisecond }

// publishes publishes messages of QoS 1 and 2 in turn, which must be acknowledged.
func (c *client) publishes(topic string, from, to int) {
	c.T.Helper()
	for i := from; i < to; i++ {
		if code := c.publish(packet.Outgoing{Topic: topic, Payload: fmt.Append(nil, i), QoS: byte(1 + i%2), PacketID: 1}); code != 0 {
			c.T.Fatalf("message %d is answered with %#x", i, code)
		}
	}
}

// wants receives messages of QoS 1 and 2 in turn.
func (c *client) wants(from, to int) {
	c.T.Helper()
	for i := from; i < to; i++ {
		if m := c.next(); m.payload != fmt.Sprint(i) || m.qos != byte(1+i%2) {
			c.T.Fatalf("got %v, want message %d", m, i)
		}
	}
}

// stop stops a node so that it cannot be reached.
func (f *network) stop(n *node) {
	f.unregister(n.id)
	n.close()
}

// crash leaves a node as it would be left by the end of its process, and starts another one on
// what it has on its disk.
func (f *network) crash(n *node) *node {
	f.t.Helper()
	dir := filepath.Join(f.t.TempDir(), "copy")
	check(f.t, os.CopyFS(dir, os.DirFS(n.dir)))
	f.stop(n)
	return f.restart(n.id, dir)
}

func (f *network) restart(id int, dir string) *node {
	f.t.Helper()
	n := f.start(id, dir)
	n.mesh.SetPeers([]int{1, 2, 3})
	return n
}

// TestAway publishes messages while the node that has a session for them is away for longer than
// the grace period. The publisher's node crashes meanwhile. The session gets all of them once, in
// order, and then what was published while the node came back.
func TestAway(t *testing.T) { inVirtualTime(t, testAway) }

func testAway(t *testing.T) {
	const messages = 200
	f, n := startNodes(t, 3, shortGrace)
	n[2].connect("reader", true).Subscribe("news/#", 2)
	c := n[0].connect("c", false)
	c.publishes("news/1", 0, 1)
	f.stop(n[2])
	c.publishes("news/1", 1, messages)
	first := f.crash(n[0])
	if g := first.figures(3); g.Stored != messages-1 || !g.RoutesKnown {
		t.Errorf("after the start: %+v", g)
	}
	c = first.connect("c", false)
	c.publishes("news/1", messages, 2*messages)
	synctest.Wait()
	if g := first.figures(3); g.Stored != 2*messages-1 {
		t.Errorf("%d messages are stored", g.Stored)
	}
	back := f.restart(3, n[2].dir)
	c.publishes("news/1", 2*messages, 3*messages)
	reader := back.connect("reader", true)
	reader.wants(0, 3*messages)
	reader.expectNoMessages()
	until(t, "nothing is stored any more", func() bool { return first.figures(3).Stored == 0 })
	if lost := first.losses.Total(0); lost != 0 {
		t.Errorf("%d messages are counted as lost", lost)
	}
}

// TestPartitionedForLong cuts a link for longer than the grace period, in the middle of many
// messages. None is lost, out of order or delivered twice.
func TestPartitionedForLong(t *testing.T) { inVirtualTime(t, testPartitionedForLong) }

func testPartitionedForLong(t *testing.T) {
	const messages = 300
	f, n := startNodes(t, 2, shortGrace)
	reader := n[1].connect("reader", true)
	reader.Subscribe("news/#", 2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n[0].connect("c", false).publishes("news/1", 0, messages)
	}()
	for round := range 3 {
		reader.wants(round*messages/4, (round+1)*messages/4)
		f.mute(2, 1) // acknowledgements are lost
		f.disconnect(1, 2, true)
		<-time.After(time.Second)
		f.reconnect(1, 2)
	}
	reader.wants(3*messages/4, messages)
	<-done
	reader.expectNoMessages()
}

// TestBacklogBound refuses what exceeds the bound, and accepts messages again once the node has
// received some.
func TestBacklogBound(t *testing.T) { inVirtualTime(t, testBacklogBound) }

func testBacklogBound(t *testing.T) {
	f, n := startNodes(t, 2, shortGrace, func(f *network) { f.maxBacklog = 10_000 })
	n[1].connect("reader", true).Subscribe("a", 2)
	c := n[0].connect("c", false)
	f.stop(n[1])
	stored := 0
	for ; ; stored++ {
		code := c.publish(packet.Outgoing{Topic: "a", Payload: make([]byte, 900), QoS: byte(1 + stored%2), PacketID: 1})
		if code == packet.ReasonQuotaExceeded {
			break
		}
		if code != 0 || stored > 12 {
			t.Fatalf("message %d is answered with %#x", stored, code)
		}
	}
	if code := c.publish(packet.Outgoing{Topic: "other", QoS: 1, PacketID: 1}); code != packet.ReasonNoMatchingSubscribers {
		t.Errorf("a message for nobody is answered with %#x", code)
	}
	if g := n[0].figures(2); g.Refused != 1 || g.Stored != int64(stored) || g.StoredBytes > 10_000 {
		t.Errorf("%d stored: %+v", stored, g)
	}
	back := f.start(2, n[1].dir)
	back.mesh.SetPeers([]int{1, 2})
	until(t, "it has all", func() bool { return n[0].figures(2).Stored == 0 })
	reader := back.connect("reader", true)
	c.publishes("a", 0, 1)
	for range stored {
		reader.next()
	}
	reader.wants(0, 1)
}

// TestBacklogDiskLow refuses messages while too little disk space is free, and keeps those that it has, also if
// the node cannot store them when it is back.
func TestBacklogDiskLow(t *testing.T) { inVirtualTime(t, testBacklogDiskLow) }

func testBacklogDiskLow(t *testing.T) {
	disks := map[int]*failingStore{}
	f, n := startNodes(t, 2, shortGrace, func(f *network) {
		f.wrap = func(id int, s engine.Store) engine.Store {
			disks[id] = &failingStore{Store: s}
			return disks[id]
		}
	})
	reader, c := n[1].connect("reader", true), n[0].connect("c", false)
	reader.Subscribe("a", 2)
	f.disconnect(1, 2, true)
	c.publishes("a", 0, 4)
	f.diskLow.Store(true)
	for qos := range byte(2) {
		if code := c.publish(packet.Outgoing{Topic: "a", QoS: 1 + qos, PacketID: 1}); code != packet.ReasonQuotaExceeded {
			t.Errorf("QoS %d: got %#x", 1+qos, code)
		}
	}
	disks[2].fail(errFull)
	f.reconnect(1, 2)
	until(t, "some were refused", func() bool { return n[0].figures(2).Refused > 4 })
	disks[2].fail(nil)
	reader.wants(0, 4)
	reader.expectNoMessages()
	c.publishes("a", 4, 8)
	reader.wants(4, 8)
}

// TestAwayAndRemoved acknowledges messages for a node that is removed from the cluster, deletes
// what was stored for it, and knows nothing of it any more after a restart.
func TestAwayAndRemoved(t *testing.T) { inVirtualTime(t, testAwayAndRemoved) }

func testAwayAndRemoved(t *testing.T) {
	f, n := startNodes(t, 3, shortGrace)
	n[2].connect("reader", true).Subscribe("a", 2)
	n[2].connect("worker", true).Subscribe("$share/g/work", 2)
	c := n[0].connect("c", false)
	f.stop(n[2])
	c.publishes("a", 0, 4)
	c.publishes("work", 0, 4)
	worker := n[1].connect("other", true)
	worker.Subscribe("$share/g/work", 2)
	c.publishes("work", 4, 6)
	worker.wants(4, 6)
	n[0].mesh.SetPeers([]int{1, 2})
	worker.wants(0, 4) // they had no other member
	if code := c.publish(packet.Outgoing{Topic: "a", QoS: 1, PacketID: 1}); code != packet.ReasonNoMatchingSubscribers {
		t.Errorf("answered with %#x", code)
	}
	synctest.Wait()
	if got := n[0].losses.Total(0); got != 4 {
		t.Errorf("%d messages are counted as lost", got)
	}
	again := f.crash(n[0])
	if g := again.figures(3); g.Stored != 0 || g.Routes != 0 || g.RoutesKnown {
		t.Errorf("after the start: %+v", g)
	}
}

// TestBacklogDisk refuses messages that cannot be stored for a node that is away, and accepts
// them again when they can. Subscribers that are present do not wait for the disk.
func TestBacklogDisk(t *testing.T) { inVirtualTime(t, testBacklogDisk) }

func testBacklogDisk(t *testing.T) {
	f, n := startNodes(t, 3, shortGrace)
	n[2].connect("away", true).Subscribe("a", 2)
	near, far := n[0].connect("near", true), n[1].connect("far", true)
	near.Subscribe("a", 2)
	far.Subscribe("a", 2)
	f.stop(n[2])
	c := n[0].connect("c", false)
	c.publishes("a", 0, 2)
	for _, reader := range []*client{near, far} {
		reader.wants(0, 2)
	}

	file := n[0].backlog.Conn().File()
	check(t, file.Lock(t.Context())) // as if the disk hung
	c.Publish(packet.Outgoing{Topic: "a", Payload: []byte("1"), QoS: 1, PacketID: 7})
	for _, reader := range []*client{near, far} {
		if m := reader.next(); m.payload != "1" {
			t.Errorf("got %v", m)
		}
	}
	c.expectNothing()
	file.Unlock()
	if ack := c.WantAck(packet.TypePuback); ack.Reason != 0 {
		t.Errorf("answered with %#x", ack.Reason)
	}

	pragma := func(setting string) {
		_, err := n[0].backlog.Conn().SQL().ExecContext(t.Context(), "PRAGMA "+setting)
		check(t, err)
	}
	pragma("max_page_count = 1")
	large := make([]byte, 100<<10)
	for i := range 4 {
		if code := c.publish(packet.Outgoing{Topic: "a", Payload: large, QoS: byte(1 + i%2), PacketID: 1}); code != packet.ReasonQuotaExceeded {
			t.Errorf("a message that cannot be stored is answered with %#x", code)
		}
	}
	pragma("max_page_count = 1000000")
	until(t, "messages are accepted again", func() bool {
		return c.publish(packet.Outgoing{Topic: "a", Payload: []byte("end"), QoS: 1, PacketID: 1}) == 0
	})
	back := f.restart(3, n[2].dir)
	reader := back.connect("away", true)
	reader.wants(0, 2)
	for _, payload := range []string{"1", "end"} {
		if m := reader.next(); m.payload != payload {
			t.Errorf("got %v, want %s", m, payload)
		}
	}
	reader.expectNoMessages()
}

// TestBacklogRefused sends messages again that the node could not store when it came back.
func TestBacklogRefused(t *testing.T) { inVirtualTime(t, testBacklogRefused) }

func testBacklogRefused(t *testing.T) {
	disks := map[int]*failingStore{}
	f, n := startNodes(t, 2, shortGrace, func(f *network) {
		f.wrap = func(id int, s engine.Store) engine.Store {
			disks[id] = &failingStore{Store: s}
			return disks[id]
		}
	})
	reader, c := n[1].connect("reader", true), n[0].connect("c", false)
	reader.Subscribe("a", 2)
	f.disconnect(1, 2, true)
	c.publishes("a", 0, 4)
	disks[2].fail(errFull)
	f.reconnect(1, 2)
	until(t, "some were refused", func() bool { return n[0].figures(2).Refused > 4 })
	disks[2].fail(nil)
	reader.wants(0, 4)
	reader.expectNoMessages()
	until(t, "nothing is stored any more", func() bool { return n[0].figures(2).Stored == 0 })
	c.publishes("a", 0, 4)
	reader.wants(0, 4)
}

// TestBacklogCrash ends the publisher's process while another node receives what was stored for it:
// everything arrives, in order of its first arrival.
func TestBacklogCrash(t *testing.T) { inVirtualTime(t, testBacklogCrash) }

func testBacklogCrash(t *testing.T) {
	const messages = 100
	f, n := startNodes(t, 2, shortGrace)
	n[1].connect("reader", true).Subscribe("a", 2)
	f.stop(n[1])
	n[0].connect("c", false).publishes("a", 0, messages)
	back := f.start(2, n[1].dir)
	back.mesh.SetPeers([]int{1, 2})
	reader := back.connect("reader", true)
	reader.wants(0, messages/2)
	f.crash(n[0])
	next := messages / 2
	for next < messages {
		var i int
		_, err := fmt.Sscan(reader.next().payload, &i)
		check(t, err)
		if i > next {
			t.Fatalf("got message %d, want %d", i, next)
		}
		if i == next {
			next++
		}
	}
}

// TestAwayAndReplaced adds a node again, with an empty directory, for which messages are stored: they
// are deleted and counted, as its sessions were lost.
func TestAwayAndReplaced(t *testing.T) { inVirtualTime(t, testAwayAndReplaced) }

func testAwayAndReplaced(t *testing.T) {
	f, n := startNodes(t, 2, shortGrace)
	n[1].connect("reader", true).Subscribe("a", 2)
	c := n[0].connect("c", false)
	f.stop(n[1])
	c.publishes("a", 0, 4)
	f.generations[2].Store(9)
	n[0].mesh.SetPeers([]int{1, 2})
	if g := n[0].figures(2); g.Stored != 0 || g.Routes != 0 {
		t.Errorf("got %+v", g)
	}
	if got := n[0].losses.Total(0); got != 4 {
		t.Errorf("%d messages are counted as lost", got)
	}
	back := f.start(2, t.TempDir())
	back.mesh.SetPeers([]int{1, 2})
	n[0].waitLinked(1)
	reader := back.connect("reader", true)
	reader.Subscribe("a", 2)
	c.publishes("a", 4, 6)
	reader.wants(4, 6)
}
