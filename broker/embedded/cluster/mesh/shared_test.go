package mesh_test

import (
	"fmt"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// TestSharedReassigned delivers messages to other members that were in flight to those of an
// unreachable node.
func TestSharedReassigned(t *testing.T) {
	t.Parallel()
	for name, removed := range map[string]bool{"unreachable": false, "removed": true} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, func(t *testing.T) { testSharedReassigned(t, removed) }) })
	}
}

func testSharedReassigned(t *testing.T, removed bool) {
	f, n := startNodes(t, 2, func(f *network) { f.grace, f.unlimitedInflight = 500*time.Millisecond, true })
	near, far := n[0].connect("near", false), n[1].connect("far", false)
	near.Subscribe("$share/g/work", 1)
	far.Subscribe("$share/g/work", 1)
	f.mute(1, 2)
	f.disconnect(1, 2, true)
	c := n[0].connect("c", false)
	const messages = 10
	for i := range messages {
		o := packet.Outgoing{Topic: "work", Payload: fmt.Append(nil, i), QoS: 1, PacketID: uint16(i + 1)}
		c.Send(packet.AppendPublish(nil, packet.V5, &o))
	}
	until(t, "some are in flight", func() bool { return n[0].figures(2).Waiting > 0 })
	if removed {
		n[0].mesh.SetPeers(nil)
	}
	for range messages {
		if code := c.WantAck(packet.TypePuback).Reason; code != 0 {
			t.Errorf("got code %d", code)
		}
	}
	got := map[string]int{}
	for range messages {
		got[near.next().payload]++
	}
	if len(got) != messages {
		t.Errorf("got %v", got)
	}
	near.expectNoMessages()
}

// TestSharedOnce reassigns a message without a member once, although a link breaks before
// everything is acknowledged.
func TestSharedOnce(t *testing.T) { inVirtualTime(t, testSharedOnce) }

func testSharedOnce(t *testing.T) {
	disks := map[int]*hangingStore{}
	f, n := startNodes(t, 2, func(f *network) {
		f.unlimitedInflight = true
		f.wrap = func(id int, s engine.Store) engine.Store {
			disks[id] = &hangingStore{Store: s}
			return disks[id]
		}
	})
	near, far, keeps := n[0].connect("near", false), n[1].connect("far", false), n[1].connect("keeps", true)
	near.Subscribe("$share/g/work", 2)
	far.Subscribe("$share/g/work", 2)
	keeps.Subscribe("hold", 1)
	f.mute(2, 1)
	f.disconnect(2, 1, true)
	far.unsubscribe("$share/g/work") // the other node is not notified
	disks[2].hang(true)
	c := n[0].connect("c", false)
	const messages = 4
	for i, topic := range []string{"hold", "work", "work", "work", "work"} {
		o := packet.Outgoing{Topic: topic, Payload: fmt.Append(nil, i), QoS: 1, PacketID: uint16(i + 1)}
		c.Send(packet.AppendPublish(nil, packet.V5, &o))
	}
	got := map[string]int{}
	for range messages {
		got[near.next().payload]++
	}
	if len(got) != messages {
		t.Errorf("got %v", got)
	}
	f.disconnect(1, 2, false)
	until(t, "there is another connection", func() bool { return f.connections(1, 2) > 0 })
	n[0].waitLinked(1)
	disks[2].hang(false)
	for range messages + 1 {
		c.Want(packet.TypePuback)
	}
	near.expectNoMessages()
}
