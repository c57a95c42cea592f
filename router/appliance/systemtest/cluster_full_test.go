package systemtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// TestCampaignClusterFull publishes and subscribes on a cluster of which one node at a
// time serves clients, while that node is killed, isolated and restarted. No
// acknowledged message is lost, none of QoS 2 is delivered twice, and in the end each
// node continues alone with everything.
func TestCampaignClusterFull(t *testing.T) {
	t.Parallel()
	s := startFaultCampaign(t, "full", 3, withAdminListener)
	tr := newTraffic(t, s.machines[0], s.machines...)
	everywhere := clientAddresses(s.machines...)
	tr.subscribe(t, "reader-1", "traffic/#", 1, everywhere)
	tr.subscribe(t, "reader-2", "traffic/#", 2, everywhere)
	absent := tr.subscribe(t, "absent", "traffic/#", 2, everywhere)
	absent.disconnect()
	for _, qos := range []byte{1, 1, 2, 2} {
		tr.publish(qos, false, everywhere)
	}
	retaining := tr.publish(1, true, everywhere)
	tr.awaitAcknowledged(t, 100)
	s.wantOneServes(t)
	s.runFaults(t, tr.checkingTraffic(fullFaults(t, s.random))...)
	s.wantOneServes(t)
	s.check(t)
	absent.reconnect()
	tr.check(t)
	leader, _ := s.leading(t)
	wantRetained(t, leader, retaining)
	s.queueForFailover(t, leader)
	leaver := s.growFull(t)
	s.separate(t, retaining, leaver)
}

// queuedForFailover is how many messages are queued for a client that is offline.
const queuedForFailover = 20

// queueForFailover queues messages for a client that is offline.
func (s *faultCampaign) queueForFailover(t *testing.T, leader *machine) {
	t.Helper()
	offline := connectWorker(t, leader, "offline", false)
	offline.wantSubscribed(t, "cross/offline", 1)
	offline.Close()
	writer := connectWorker(t, leader, "queues", true)
	for i := range queuedForFailover {
		writer.publish(t, "cross/offline", fmt.Sprint(i), 1, false)
	}
	writer.Close()
}

// growFull adds one more node, whose own data is replaced by that of the others.
func (s *faultCampaign) growFull(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t, len(s.machines)+1)
	withAdminListener(t, m)
	s.attach(t, m)
	m.start(t)
	m.api.must(t, "POST", m.api.at("/messages"), object{"topic": "cross/own", "payload": "old", "qos": 1, "retain": true}, nil)
	s.connect(t, m)
	s.join(t, m)
	s.machines = append(s.machines, m)
	s.awaitHealthy(t)
	s.wantOneServes(t)
	return m
}

// fullFaults returns the faults of TestCampaignClusterFull, after each of which
// messages must be acknowledged again.
func fullFaults(t *testing.T, random *rand.Rand) []fault {
	t.Helper()
	if os.Getenv("SIGNALBOX_TEST_FAULT_ROUNDS") != "" {
		return campaignFaults(t, random, faults)
	}
	return []fault{faults[0], faults[2], faults[8], faults[12]}
}

// checkingTraffic waits for more acknowledged messages after each fault.
func (tr *traffic) checkingTraffic(all []fault) (checked []fault) {
	for _, f := range all {
		happen := f.happen
		f.happen = func(t testing.TB, s *faultCampaign) time.Duration {
			took := happen(t, s)
			tr.awaitAcknowledged(t, 100)
			return took
		}
		checked = append(checked, f)
	}
	return checked
}

// wantOneServes checks that only the leader accepts clients, and that all nodes accept
// administrators.
func (s *faultCampaign) wantOneServes(t testing.TB) {
	t.Helper()
	var wrong []string
	suite.WaitFor(t, "the same leader lets clients in before and after the check", func() bool {
		leader, others := s.leading(t)
		if !leader.admitsClients(t) {
			return false
		}
		wrong = wrongAdmissions(t, leader, others)
		again, _ := s.leading(t)
		return again == leader && leader.admitsClients(t)
	})
	for _, w := range wrong {
		t.Error(w)
	}
}

// wrongAdmissions returns what the nodes of a cluster accept or refuse against the rule:
// only the leader accepts clients, all nodes accept administrators at their listener.
func wrongAdmissions(t testing.TB, leader *machine, others []*machine) (wrong []string) {
	t.Helper()
	for _, m := range append([]*machine{leader}, others...) {
		if m != leader && m.admitsClients(t) {
			wrong = append(wrong, fmt.Sprintf("node %d lets clients in; node %d leads", m.id, leader.id))
		}
		if !m.admits(t, m.adminAddress, mqttAdmin, mqttPassword) {
			wrong = append(wrong, fmt.Sprintf("node %d does not let its administrator in", m.id))
		}
		if m.admits(t, m.adminAddress, worker, passwordOf(worker)) {
			wrong = append(wrong, fmt.Sprintf("node %d accepts other clients at the listener for administrators", m.id))
		}
	}
	return wrong
}

// admitsClients reports whether a machine accepts clients at the listener for them.
func (m *machine) admitsClients(t testing.TB) bool {
	t.Helper()
	return m.admits(t, m.mqtt, worker, passwordOf(worker))
}

// admits reports whether a machine accepts a client.
func (m *machine) admits(t testing.TB, address, username, password string) bool {
	t.Helper()
	l, err := connectWithin(t.Context(), suite.HangLimit, address, packet.Login{ClientID: "asks-" + username, Clean: true, Username: username, Password: password})
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// wantRetained checks that a machine retains a message that was acknowledged to a
// publisher, or a later one.
func wantRetained(t testing.TB, m *machine, s *sender) {
	t.Helper()
	s.mu.Lock()
	sent, done := s.sent, s.acknowledged
	s.mu.Unlock()
	l := connectClean(t, m, "looks")
	defer l.Close()
	if _, err := l.subscribe(string(s.topic()), 1); err != nil {
		t.Fatalf("node %d: %v", m.id, err)
	}
	first, body, err := l.Next(time.Now().Add(l.timeout))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("node %d retains nothing, want message %d", m.id, done-1)
		return
	}
	p, ok := packet.ReadPublish(first, body)
	got, known := readMessage(p.Payload)
	if err != nil || !ok || !known || !p.Retain || got.n < done-1 || got.n >= sent {
		t.Errorf("node %d retains %q, %v; want message %d to %d", m.id, p.Payload, err, done-1, sent-1)
	}
}

// separate removes one node, and dissolves the cluster of the others. Each keeps the
// retained messages and the sessions.
func (s *faultCampaign) separate(t *testing.T, retaining *sender, leaver *machine) {
	t.Helper()
	s.console.must(t, "PUT", s.at("/leave"), object{"nodeid": leaver.id}, nil)
	wantAlone(t, leaver, retaining)
	if got := retainedAt(t, leaver, "cross/own"); got != "" {
		t.Errorf("node %d retains %q of the time before it came", leaver.id, got)
	}
	s.console.must(t, "DELETE", s.at("?clustername=plant"), nil, nil)
	for _, m := range s.machines {
		if m != leaver {
			wantAlone(t, m, retaining)
		}
	}
}

// wantAlone checks that a machine serves clients by itself, with the state of the
// cluster.
func wantAlone(t *testing.T, m *machine, retaining *sender) {
	t.Helper()
	suite.WaitFor(t, fmt.Sprintf("node %d serves by itself", m.id), func() bool { return m.admitsClients(t) })
	wantRetained(t, m, retaining)
	for _, name := range []string{"reader-1", "absent", "sender-0"} {
		l, err := connectWithin(t.Context(), suite.HangLimit, m.mqtt, packet.Login{ClientID: name, Username: worker, Password: passwordOf(worker)})
		if err != nil {
			t.Errorf("node %d: %s: %v", m.id, name, err)
			continue
		}
		if !l.present {
			t.Errorf("node %d does not have the session of %s", m.id, name)
		}
		l.Close()
	}
	offline := connectWorker(t, m, "offline", false)
	for i := range queuedForFailover {
		if got := offline.receive(t); string(got.Payload) != fmt.Sprint(i) {
			t.Fatalf("node %d: the offline client received %q, want message %d", m.id, got.Payload, i)
		}
	}
	offline.publish(t, "cross/lone", "x", 1, false)
}
