package embedded

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestHPMembers adds and removes nodes while messages are published at all of them.
// Publishers are acknowledged in time, and subscribers at the remaining nodes receive
// everything that was acknowledged.
func TestHPMembers(t *testing.T) {
	t.Parallel()
	all := gatherHP(t)
	reader := reading(t, all[0], "load/1/#")
	l := load(t, all[0], all[1])

	fourth := startNode(t, 4)
	var added control.HAAdded
	leader := all.leading(t)
	leader.ask(control.AddNode("plant", fourth.at), &added)
	grown := append(all, fourth)
	fourth.ask(control.JoinCluster(grown.spec("hp", 4, added.Invitation)), nil)
	eventually(t, "the fourth node has a vote", func() bool { return grown.voters() == 4 })
	grown.linked(t)
	late := reading(t, fourth, "late/#")
	joinPatient(t, all[1]).publishAll("late/1", 2)
	late.wantTopic("late/1")
	joinPatient(t, fourth).publishAll("load/1/fourth", 1)

	leader = grown.leading(t)
	leader.ask(control.RemoveNode("plant", fourth.at), nil)
	eventually(t, "the fourth node is by itself", func() bool { return fourth.cluster.peering.Load() == nil })
	all.linked(t)
	p := joinPatient(t, fourth)
	p.publishAll("late/2", 2)
	late.wantTopic("late/2")
	joinPatient(t, all[1]).publishAll("late/3", 1)
	if rest := late.Settled(); len(rest) > 0 {
		t.Errorf("a node that was removed got %v", rest)
	}

	all[2].ask(control.LeaveCluster("plant", all[2].at), nil)
	left := all[:2]
	left.linked(t)
	all[2].stop()
	joinPatient(t, all[2].again()).publishAll("alone", 1)

	sent := l.stop()
	got := map[string]int{}
	for len(got) < sent[1]+1 {
		pk := reader.take()
		if got[pk.Topic]++; got[pk.Topic] > 1 {
			t.Fatalf("%s arrived twice", pk.Topic)
		}
	}
	left.leading(t).ask(control.DeleteCluster("plant"), nil)
	for _, n := range left {
		eventually(t, "every node is alone", func() bool { return n.cluster.peering.Load() == nil })
		joinPatient(t, n).publishAll("alone", 1)
	}
}

// again starts a node that was stopped.
func (n *node) again() *node {
	n.start()
	return n
}

// traffic publishes at nodes without a pause, at QoS 1.
type traffic struct {
	t       *testing.T
	stopped chan struct{}
	tasks   sync.WaitGroup
	sent    []int // acknowledged at each
	slowest []time.Duration
}

// load publishes load/0/0, load/0/1 and so on at the first node, load/1/0 at the second.
func load(t *testing.T, at ...*node) *traffic {
	l := &traffic{t: t, stopped: make(chan struct{}), sent: make([]int, len(at)), slowest: make([]time.Duration, len(at))}
	for k, n := range at {
		p := joinPatient(t, n)
		l.tasks.Go(func() { l.publish(k, p) })
	}
	return l
}

func (l *traffic) publish(k int, p *device) {
	pause := time.NewTicker(2 * time.Millisecond)
	defer pause.Stop()
	for {
		select {
		case <-l.stopped:
			return
		case <-pause.C:
		}
		began := time.Now()
		p.Send(p.Message(fmt.Sprintf("load/%d/%d", k, l.sent[k]), "x", 1, false))
		pk, err := p.Next()
		if err != nil || pk.Type != packet.Puback || pk.Reason >= 0x80 {
			l.t.Errorf("publisher %d got type %d, code %#x, %v", k, pk.Type, pk.Reason, err)
			return
		}
		l.slowest[k] = max(l.slowest[k], time.Since(began))
		l.sent[k]++
	}
}

// stop ends it and returns what was acknowledged.
func (l *traffic) stop() (sent []int) {
	close(l.stopped)
	l.tasks.Wait()
	l.t.Logf("acknowledged %v, in %v at most", l.sent, l.slowest)
	return l.sent
}
