package embedded

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
)

var allModes = []string{"dynsec", "full", "hp"}

// own stores, at the node, an access control, a retained message and a session with two queued messages of its own.
func (n *node) own() {
	n.t.Helper()
	allow(n.t, n.Broker, "own", everything()...)
	sleeper := join(n.t, n.Broker, 5, as("own", "pw"), withID("sleeper"), persistent)
	sleeper.Subscribe(2, "queued/#")
	sleeper.Conn.Close()
	sleeper.wantForgotten(n.Broker)
	publisher := join(n.t, n.Broker, 5, as("own", "pw"))
	publisher.Send(publisher.Message("kept", "own", 1, true))
	publisher.Want(packet.Puback)
	publisher.publishAll("queued/1", 1)
	publisher.publishAll("queued/2", 2)
}

// shared stores, at the node, what its cluster shares.
func (n *node) shared() {
	n.t.Helper()
	allow(n.t, n.Broker, "dev", everything()...)
	publisher := join(n.t, n.Broker, 5, as("dev", "pw"))
	for _, topic := range []string{"kept", "cluster"} {
		publisher.Send(publisher.Message(topic, "cluster", 1, true))
		publisher.Want(packet.Puback)
	}
}

// wantOwn expects what own stored, and nothing of a cluster.
func (n *node) wantOwn() {
	n.t.Helper()
	if m, ok := n.engine.RetainedOf("kept"); !ok || string(m.Payload) != "own" {
		n.t.Errorf("retained message %+v, want the node's own", m)
	}
	if m, ok := n.engine.RetainedOf("cluster"); ok {
		n.t.Errorf("there is a retained message of the cluster: %+v", m)
	}
	if d := dial(n.t, n.Broker, 5); d.SendConnect(as("dev", "pw")).Reason == 0 {
		n.t.Error("a client of the cluster is let in")
	}
	sleeper := dial(n.t, n.Broker, 5)
	ack := sleeper.SendConnect(as("own", "pw"), withID("sleeper"), persistent)
	if ack.Reason != 0 || !ack.Present {
		n.t.Fatalf("CONNACK %#x, session present %t", ack.Reason, ack.Present)
	}
	var got []string
	for range 2 {
		got = append(got, sleeper.take().Topic)
	}
	if want := []string{"queued/1", "queued/2"}; !slices.Equal(got, want) {
		n.t.Errorf("got %v, want %v", got, want)
	}
	if left := n.keptFiles(); len(left) > 0 {
		n.t.Errorf("the files %v are left", left)
	}
}

// keptFiles returns the names of the files that keep what was before a join.
func (n *node) keptFiles() (names []string) {
	n.t.Helper()
	entries, err := os.ReadDir(n.kept.dir)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), keptUnused) {
			names = append(names, e.Name())
		}
	}
	return names
}

// joinCluster has the second node join a new cluster of the first one, which both have left then.
func (all nodes) joinCluster(t *testing.T, mode string, meanwhile func()) {
	t.Helper()
	var created control.HACreated
	all[0].ask(control.CreateCluster(all.spec(mode, 1, nil)), &created)
	all[1].ask(control.JoinCluster(all.spec(mode, 2, &created.Invitations[0])), nil)
	eventually(t, "both nodes have a vote", func() bool { return all.voters() == 2 })
	meanwhile()
	all[0].ask(control.DeleteCluster("plant"), nil)
	for _, n := range all {
		eventually(t, "the node has left", func() bool {
			var c control.HACluster
			return errors.Is(n.AskHA(t.Context(), control.GetCluster(), &c), control.ErrNoCluster)
		})
	}
}

// TestUndoJoin: a node whose join is undone has what it had before.
func TestUndoJoin(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			all := nodes{startNode(t, 1), startNode(t, 2)}
			all[0].shared()
			all[1].own()
			all.joinCluster(t, mode, func() {
				if mode == "hp" {
					publisher := join(t, all[1].Broker, 5, as("dev", "pw"))
					publisher.Send(publisher.Message("since", "acknowledged", 1, true))
					publisher.Want(packet.Puback)
				}
			})
			all[1].ask(control.UndoJoin("plant"), nil)
			all[1].wantOwn()
			if m, ok := all[1].engine.RetainedOf("since"); mode == "hp" && (!ok || string(m.Payload) != "acknowledged") {
				t.Errorf("what was retained at the node meanwhile is %+v", m)
			}
			if err := all[1].AskHA(t.Context(), control.UndoJoin("plant"), nil); !errors.Is(err, control.ErrNothingKept) {
				t.Errorf("a second undo: %v", err)
			}
			all[1].stop()
			all[1].start()
			if m, ok := all[1].engine.RetainedOf("kept"); !ok || string(m.Payload) != "own" {
				t.Errorf("after a restart the retained message is %+v", m)
			}
		})
	}
}

// TestUndoRefusedJoin: a node that was not let in keeps what it stores afterwards, and has nothing to undo.
func TestUndoRefusedJoin(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			all := nodes{startNode(t, 1), startNode(t, 2)}
			all[0].shared()
			all[1].own()
			var created control.HACreated
			all[0].ask(control.CreateCluster(all.spec(mode, 1, nil)), &created)
			all[0].stop()
			all[1].ask(control.JoinCluster(all.spec(mode, 2, &created.Invitations[0])), nil) // it waits
			if files := all[1].keptFiles(); !slices.Equal(files, []string{keptUnused}) {
				t.Errorf("a node that waits has the files %v", files)
			}
			all[1].ask(control.LeaveCluster("plant", all[1].at), nil)
			eventually(t, "the node serves", func() bool { return all[1].open(0) })
			publisher := join(t, all[1].Broker, 5, as("own", "pw"))
			publisher.Send(publisher.Message("since", "acknowledged", 1, true))
			publisher.Want(packet.Puback)
			if err := all[1].AskHA(t.Context(), control.UndoJoin("plant"), nil); !errors.Is(err, control.ErrNothingKept) {
				t.Errorf("the undo: %v", err)
			}
			if _, ok := all[1].engine.RetainedOf("since"); !ok {
				t.Error("what was acknowledged after the join was refused is lost")
			}
			all[1].wantOwn()
		})
	}
}

// TestKeptWithoutCluster: what is kept for an undo is deleted when no cluster is configured any more.
func TestKeptWithoutCluster(t *testing.T) {
	t.Parallel()
	all := nodes{startNode(t, 1), startNode(t, 2)}
	all.joinCluster(t, "full", func() {})
	n := all[1]
	if files := n.keptFiles(); !slices.Equal(files, []string{keptReplaced}) {
		t.Fatalf("a node that has left has the files %v", files)
	}
	n.stop()
	n.config.Cluster.Listen = ""
	n.start()
	if files := n.keptFiles(); len(files) > 0 {
		t.Errorf("the files %v are left", files)
	}
}
