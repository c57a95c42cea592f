package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// try creates a client through a machine, and records the outcome. It reports whether
// the machine acknowledged it.
func (m *machine) try(t testing.TB, l *expectedState, username string) bool {
	t.Helper()
	l.pending(username)
	status, answer, err := m.api.do(t.Context(), "POST", m.api.at("/clients"), object{"username": username, "password": passwordOf(username)})
	var refusal struct{ Code string }
	switch {
	case err != nil: // the process has ended
	case status == 204:
		l.acknowledge(username, created)
		return true
	case json.Unmarshal(answer, &refusal) != nil:
		t.Errorf("node %d: %d %s", m.id, status, answer)
	case refusal.Code == "BROKER_UNAVAILABLE": // nothing was changed
		l.set(username, deleted)
	case refusal.Code != "BROKER_TIMEOUT":
		t.Errorf("node %d: %d %s", m.id, status, answer)
	}
	return false
}

// retryUntilAcknowledged creates clients through a machine until it acknowledges one,
// and returns how long that took.
func (m *machine) retryUntilAcknowledged(t testing.TB, l *expectedState, prefix string) time.Duration {
	t.Helper()
	began, n := time.Now(), 0
	suite.WaitFor(t, fmt.Sprintf("node %d acknowledges a change", m.id), func() bool {
		n++
		return m.try(t, l, fmt.Sprintf("%s-%d", prefix, n))
	})
	return since(began)
}

// writers create clients through machines until end is called.
type writers struct {
	stop context.CancelFunc
	done sync.WaitGroup
}

// startWriting starts one writer for each machine. It also ends with the process that
// runs there now.
func startWriting(t testing.TB, l *expectedState, prefix string, machines ...*machine) *writers {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &writers{stop: stop}
	t.Cleanup(w.end)
	for _, m := range machines {
		run := *m // a copy: the machine may be restarted in the meantime
		w.done.Go(func() {
			for i := 1; ctx.Err() == nil && !run.run.Ended(); i++ {
				run.try(t, l, fmt.Sprintf("%s-%d-%d", prefix, run.id, i))
			}
		})
	}
	return w
}

func (w *writers) end() {
	w.stop()
	w.done.Wait()
}

// wantKept waits until machines have the same access control, and compares it with the
// expected state.
func wantKept(t testing.TB, l *expectedState, machines ...*machine) {
	t.Helper()
	awaitSame(t, machines...)
	present := map[string]bool{}
	for _, name := range machines[0].clients(t) {
		present[name] = true
	}
	delete(present, mqttAdmin)
	if lost, stray := l.differences(present); len(lost)+len(stray) > 0 {
		t.Errorf("lost %v, stray %v", clip(lost), clip(stray))
	}
	t.Logf("%d acknowledged changes are on %d nodes", l.acknowledged(), len(machines))
}

// TestClusterNodeKilled kills the leader, then a follower, while clients are created
// through every node. Changes continue without them, none that was acknowledged is
// lost, and a node that restarts has them all.
func TestClusterNodeKilled(t *testing.T) {
	t.Parallel()
	c := startExternalCluster(t, 3)
	c.create(t)
	all := newExpectedState(0)
	leader, followers := c.leading(t)
	c.killWhileWriting(t, all, "leader", leader, followers)
	leader, followers = c.leading(t)
	c.killWhileWriting(t, all, "follower", followers[0], []*machine{leader, followers[1]})
}

// killWhileWriting kills a machine after some acknowledgements and starts it again. all
// is the expected state of this and all earlier rounds.
func (c *cluster) killWhileWriting(t *testing.T, all *expectedState, role string, killed *machine, left []*machine) {
	t.Helper()
	l := newExpectedState(60)
	w := startWriting(t, l, role, c.machines...)
	l.await(t)
	killed.run.Kill()
	for _, m := range left {
		t.Logf("%s killed: node %d acknowledges after %v more", role, m.id, m.retryUntilAcknowledged(t, l, fmt.Sprintf("%s-killed-%d", role, m.id)))
	}
	c.await(t, "degraded", c.machines...)
	began := time.Now()
	killed.start(t)
	started := since(began)
	t.Logf("%s back: started after %v, acknowledges after %v more", role, started, killed.retryUntilAcknowledged(t, l, role+"-back"))
	w.end()
	c.await(t, "active", c.machines...)
	all.merge(l)
	wantKept(t, all, c.machines...)
}

// TestClusterWithoutMajority kills two of three nodes: nothing is acknowledged, reads
// are served, and one of the two is enough to continue. The other has lost its data and
// joins again.
func TestClusterWithoutMajority(t *testing.T) {
	t.Parallel()
	c := startExternalCluster(t, 3)
	c.create(t)
	l := newExpectedState(1)
	last, back, lost := c.machines[0], c.machines[1], c.machines[2]
	last.retryUntilAcknowledged(t, l, "before")
	back.run.Kill()
	lost.run.Kill()
	c.await(t, "inactive", c.machines...)
	refused := make(chan bool, 1)
	began := time.Now()
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { refused <- !last.try(t, l, "alone") })
	c.wantStatus(t, 200, 0, 1, 2)
	if !last.knows(t, "before-1") || !mqtttest.Accepts(t, last.mqtt, "before-1", passwordOf("before-1")) {
		t.Error("a node without a leader does not serve its clients any more")
	}
	lost.forget(t)
	lost.add(t, "only-on-3")
	if !<-refused {
		t.Error("one of three nodes acknowledged a change")
	}
	t.Logf("refused after %v", since(began))
	back.start(t)
	t.Logf("the second of three is back: changes after %v", last.retryUntilAcknowledged(t, l, "again"))
	suite.WaitFor(t, "the console has reached the second of three again", func() bool { return c.console.connected(t, c.brokers[back.id]) })
	suite.WaitFor(t, "the leader reports the status", func() bool { // and it need not be the same during the whole time
		got := c.status(t)
		return got.Status == 200 && got.Data != nil && got.Data.State == 3
	})
	c.rejoin(t, lost)
	lost.retryUntilAcknowledged(t, l, "third")
	wantKept(t, l, c.machines...)
	c.wantForgotten(t)
}

// forget deletes the data of a machine and starts it again.
func (m *machine) forget(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
	m.start(t)
}

// result is an element of the response of operations on several clusters.
type result struct {
	ClusterID string
	Status    int
	Deleted   bool
	Data      *raftState
	Error     *struct{ Code string }
}

// raftState is the state of a cluster's consensus. A node with another role than roleVoter does not count for the majority.
type raftState struct {
	State int
	Nodes []struct{ ID, Role int }
}

const roleVoter = 1

// wantStatus waits until the response for the cluster's Raft state has a status, and
// compares the states.
func (c *cluster) wantStatus(t testing.TB, status int, states ...int) {
	t.Helper()
	var got result
	suite.WaitFor(t, fmt.Sprintf("the status of the cluster is %d", status), func() bool { // a node may respond too late
		got = c.status(t)
		return got.Status == status
	})
	if got.Data != nil && !slices.Contains(states, got.Data.State) || got.Data == nil && len(states) > 0 {
		t.Errorf("status: got %+v, want one of the states %v", got.Data, states)
	}
}

// status returns the response for the cluster's Raft state.
func (c *cluster) status(t testing.TB) result {
	t.Helper()
	code, answer, err := c.console.do(t.Context(), "GET", c.console.inProject("/clusters/status"), nil)
	var got []result
	if err == nil {
		err = json.Unmarshal(answer, &got)
	}
	if err != nil || code != 207 || len(got) != 1 || got[0].ClusterID != c.id {
		t.Fatalf("status: got %d %s %v, want that of the cluster", code, answer, err)
	}
	return got[0]
}

// wantForgotten deletes a cluster none of whose nodes can be reached. Only with purge
// its record is deleted; its nodes stay together.
func (c *cluster) wantForgotten(t *testing.T) {
	t.Helper()
	for _, m := range c.machines {
		m.run.Kill()
	}
	c.await(t, "inactive", c.machines...)
	c.wantStatus(t, 503)
	wantUnavailable(t, c.console, "DELETE", c.at(""), 503)
	code, answer, err := c.console.do(t.Context(), "DELETE", c.console.inProject("/clusters"), nil)
	var got []result
	if err != nil || code != 207 || json.Unmarshal(answer, &got) != nil || len(got) != 1 ||
		got[0].Status != 503 || got[0].Deleted || got[0].Error == nil || got[0].Error.Code != "BROKER_UNAVAILABLE" {
		t.Errorf("delete all: got %d %s %v", code, answer, err)
	}
	if got := c.info(t); len(got.Nodes) != len(c.machines) {
		t.Errorf("after a deletion that did not succeed: %+v", got)
	}
	c.console.must(t, "DELETE", c.at("?purge=true"), nil, nil)
	if got := c.console.text(t, c.console.inProject("/clusters")); got != "[]" {
		t.Errorf("clusters: got %s, want none", got)
	}
	for _, m := range c.machines {
		m.start(t)
	}
	c.machines[2].retryUntilAcknowledged(t, newExpectedState(1), "purged")
	awaitSame(t, c.machines...)
}

// wantUnavailable checks that an operation fails because a broker cannot be reached.
func wantUnavailable(t testing.TB, c *caller, method, path string, status int) {
	t.Helper()
	wantCode(t, c, method, path, nil, status, "BROKER_UNAVAILABLE")
}

// wantCode calls, and compares status and code of the refusal.
func wantCode(t testing.TB, c *caller, method, path string, body any, status int, code string) {
	t.Helper()
	got, answer, err := c.do(t.Context(), method, path, body)
	var refusal struct{ Code string }
	if err != nil || got != status || json.Unmarshal(answer, &refusal) != nil || refusal.Code != code {
		t.Errorf("%s %s: got %d %s %v, want %d %s", method, path, got, answer, err, status, code)
	}
}
