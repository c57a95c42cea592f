package systemtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"signalbox/scripts/bench/packet"
	"signalbox/scripts/suite"
)

// TestCampaignClusterFull has clients publish and read on a cluster of which one node at a
// time serves clients, while that node is killed, cut off and restarted. Nothing
// that was acknowledged is lost, nothing of QoS 2 comes twice, and in the end each
// node goes on alone with everything.
func TestCampaignClusterFull(t *testing.T) {
	t.Parallel()
	s := besiege(t, "full", 3, manage)
	tr := newTraffic(t, s.machines[0], s.machines...)
	everywhere := clientAddresses(s.machines...)
	tr.read(t, "reader-1", "traffic/#", 1, everywhere)
	tr.read(t, "reader-2", "traffic/#", 2, everywhere)
	absent := tr.read(t, "absent", "traffic/#", 2, everywhere)
	absent.leave()
	for _, qos := range []byte{1, 1, 2, 2} {
		tr.publish(qos, false, everywhere)
	}
	keeper := tr.publish(1, true, everywhere)
	tr.more(t, 100)
	s.wantOneServes(t)
	s.endure(t, tr.heard(fullSieges(t, s.random))...)
	s.wantOneServes(t)
	s.judge(t)
	absent.back()
	tr.judge(t)
	leader, _ := s.leading(t)
	wantRetained(t, leader, keeper)
	s.bequeath(t, leader)
	leaver := s.growFull(t)
	s.part(t, keeper, leaver)
}

// heirloom is how many messages wait for the heir.
const heirloom = 20

// bequeath has messages wait for a client that is away.
func (s *siege) bequeath(t *testing.T, leader *machine) {
	t.Helper()
	heir := guest(t, leader, "heir", false)
	heir.wantSubscribed(t, "cross/heir", 1)
	heir.close()
	writer := guest(t, leader, "bequeaths", true)
	for i := range heirloom {
		writer.put(t, "cross/heir", fmt.Sprint(i), 1, false)
	}
	writer.close()
}

// growFull has a node more come, whose own data gives way to what the others have.
func (s *siege) growFull(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t, len(s.machines)+1)
	manage(t, m)
	s.wires.lay(t, m)
	m.start(t)
	m.api.must(t, "POST", m.api.at("/messages"), object{"topic": "cross/own", "payload": "old", "qos": 1, "retain": true}, nil)
	s.connect(t, m)
	s.join(t, m)
	s.machines = append(s.machines, m)
	s.well(t)
	s.wantOneServes(t)
	return m
}

// fullSieges are the faults that TestCampaignClusterFull has happen, after each of which
// messages must be acknowledged again.
func fullSieges(t *testing.T, random *rand.Rand) []fault {
	t.Helper()
	if os.Getenv("SIGNALBOX_TEST_SIEGES") != "" {
		return sieges(t, random)
	}
	return []fault{faults[0], faults[2], faults[8], faults[12]}
}

// heard has more messages be acknowledged after each fault.
func (tr *traffic) heard(all []fault) (heard []fault) {
	for _, f := range all {
		heard = append(heard, fault{f.name, func(t testing.TB, s *siege) time.Duration {
			took := f.happen(t, s)
			tr.more(t, 100)
			return took
		}})
	}
	return heard
}

// wantOneServes makes sure that the leader alone lets clients in, and that
// administrators get in everywhere.
func (s *siege) wantOneServes(t testing.TB) {
	t.Helper()
	var leader *machine
	suite.WaitFor(t, "the leader lets clients in", func() bool { // it may be a new one
		leader, _ = s.leading(t)
		return leader.admits(t, leader.mqtt, worker, passwordOf(worker))
	})
	for _, m := range s.machines {
		if m != leader && m.admits(t, m.mqtt, worker, passwordOf(worker)) {
			t.Errorf("node %d lets clients in; node %d leads", m.id, leader.id)
		}
		if !m.admits(t, m.door, mqttAdmin, mqttPassword) {
			t.Errorf("node %d does not let its administrator in", m.id)
		}
		if m.admits(t, m.door, worker, passwordOf(worker)) {
			t.Errorf("node %d lets everybody in where administrators only may", m.id)
		}
	}
}

// admits tells whether a machine lets somebody in.
func (m *machine) admits(t testing.TB, address, username, password string) bool {
	t.Helper()
	l, err := attachWithin(t.Context(), suite.HangLimit, address, packet.Login{ClientID: "asks-" + username, Clean: true, Username: username, Password: password})
	if err != nil {
		return false
	}
	l.close()
	return true
}

// wantRetained makes sure that a machine retains what a publisher was promised, or
// what it sent later.
func wantRetained(t testing.TB, m *machine, s *sender) {
	t.Helper()
	s.mu.Lock()
	sent, done := s.sent, s.done
	s.mu.Unlock()
	l := visit(t, m, "looks")
	defer l.close()
	if _, err := l.subscribe(string(s.topic()), 1); err != nil {
		t.Fatalf("node %d: %v", m.id, err)
	}
	first, body, err := l.next(time.Now().Add(l.patience))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("node %d retains nothing, want message %d", m.id, done-1)
		return
	}
	p, ok := packet.ReadPublish(first, body)
	got, known := readNote(p.Payload)
	if err != nil || !ok || !known || !p.Retain || got.n < done-1 || got.n >= sent {
		t.Errorf("node %d retains %q, %v; want message %d to %d", m.id, p.Payload, err, done-1, sent-1)
	}
}

// part takes one node out, and dissolves the cluster of the others. Each has what
// there was: what is retained, and the sessions.
func (s *siege) part(t *testing.T, keeper *sender, leaver *machine) {
	t.Helper()
	s.console.must(t, "PUT", s.at("/leave"), object{"nodeid": leaver.id}, nil)
	wantAlone(t, leaver, keeper)
	if got := retainedAt(t, leaver, "cross/own"); got != "" {
		t.Errorf("node %d retains %q of the time before it came", leaver.id, got)
	}
	s.console.must(t, "DELETE", s.at("?clustername=plant"), nil, nil)
	for _, m := range s.machines {
		if m != leaver {
			wantAlone(t, m, keeper)
		}
	}
}

// wantAlone makes sure that a machine serves clients by itself, with what the
// cluster had.
func wantAlone(t *testing.T, m *machine, keeper *sender) {
	t.Helper()
	suite.WaitFor(t, fmt.Sprintf("node %d serves by itself", m.id), func() bool { return m.admits(t, m.mqtt, worker, passwordOf(worker)) })
	wantRetained(t, m, keeper)
	for _, name := range []string{"reader-1", "absent", "sender-0"} {
		l, err := attachWithin(t.Context(), suite.HangLimit, m.mqtt, packet.Login{ClientID: name, Username: worker, Password: passwordOf(worker)})
		if err != nil {
			t.Errorf("node %d: %s: %v", m.id, name, err)
			continue
		}
		if !l.present {
			t.Errorf("node %d does not have the session of %s", m.id, name)
		}
		l.close()
	}
	heir := guest(t, m, "heir", false)
	for i := range heirloom {
		if got := heir.get(t); string(got.Payload) != fmt.Sprint(i) {
			t.Fatalf("node %d: the heir gets %q, want message %d", m.id, got.Payload, i)
		}
	}
	heir.put(t, "cross/lone", "x", 1, false)
}
