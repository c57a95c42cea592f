package embedded

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestJoinLate: nodes join while no leader can admit them. They serve no clients meanwhile,
// not even after a restart, and share everything once they are admitted.
func TestJoinLate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		meanwhile func(*node)
	}{
		{"waiting", func(*node) {}},
		{"restarted", func(n *node) { n.stop(); n.start() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			all := nodes{startNode(t, 1), startNode(t, 2)}
			first, second := all[0], all[1]
			allow(t, first.Broker, "dev", everything()...)
			var created control.HACreated
			first.ask(control.CreateCluster(all.spec("full", 1, nil)), &created)
			publisher := join(t, first.Broker, 5, as("dev", "pw"))
			publisher.Send(publisher.Message("before", "kept", 1, true))
			publisher.Want(packet.Puback)
			first.stop()

			ctx, cancel := context.WithCancel(t.Context())
			var joining sync.WaitGroup
			joining.Go(func() { _ = second.AskHA(ctx, control.JoinCluster(all.spec("full", 2, &created.Invitations[0])), nil) }) // it waits
			eventually(t, "the node waits to be admitted", func() bool {
				_, err := second.cluster.node.Info()
				return err == nil
			})
			cancel()
			joining.Wait()
			test.meanwhile(second)
			second.cluster.changed()
			eventually(t, "its place was looked at", func() bool { return len(second.cluster.wake) == 0 })
			second.cluster.transition.Lock()
			if r := second.cluster.serving; r != waiting {
				t.Errorf("regime %v, want %v", r, waiting)
			}
			second.cluster.transition.Unlock()
			if second.open(0) {
				t.Error("a node that waits to be admitted serves clients")
			}
			first.start()
			eventually(t, "all nodes have a vote", func() bool { return all.voters() == 2 })
			all.serving(t).ask(control.SetLeader("plant", 2), nil)
			eventually(t, "the second node serves", func() bool { return second.open(0) })
			reader := join(t, second.Broker, 5, as("dev", "pw"))
			reader.Subscribe(0, "before")
			if pk := reader.Want(packet.Publish); string(pk.Payload) != "kept" {
				t.Errorf("retained %q", pk.Payload)
			}
		})
	}
}

// TestWaitingNodeLeaves removes a node that waits for a cluster which it cannot reach, and
// lets it join again.
func TestWaitingNodeLeaves(t *testing.T) {
	t.Parallel()
	all := nodes{startNode(t, 1), startNode(t, 2)}
	first, second := all[0], all[1]
	var created control.HACreated
	first.ask(control.CreateCluster(all.spec("dynsec", 1, nil)), &created)
	first.stop()
	second.ask(control.JoinCluster(all.spec("dynsec", 2, &created.Invitations[0])), nil)
	if info, err := second.cluster.node.Info(); err != nil || info.SyncMode != "" {
		t.Fatalf("the node does not wait: %+v (%v)", info, err)
	}
	second.ask(control.LeaveCluster("plant", second.at), nil)
	var c control.HACluster
	if err := second.AskHA(t.Context(), control.GetCluster(), &c); !errors.Is(err, control.ErrNoCluster) {
		t.Fatalf("the node is in a cluster: %+v (%v)", c, err)
	}
	first.start()
	eventually(t, "the first node leads", func() bool { return first.cluster.node.IsLeader() })
	var added control.HAAdded
	first.ask(control.AddNode("plant", second.at), &added)
	second.ask(control.JoinCluster(all.spec("dynsec", 2, added.Invitation)), nil)
	eventually(t, "both have a vote", func() bool { return all.voters() == 2 })
}

// TestControlWithoutLeader: a node without a leader responds on the control topic that
// nothing was changed, and that the request can be retried.
func TestControlWithoutLeader(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 2, "dynsec", func(*node) {})
	all[0].stop()
	n := all[1]
	eventually(t, "there is no leader", func() bool { return n.cluster.node.Status().ErrMsg != "" })
	eventually(t, "the response asks to try again", func() bool {
		answer, _ := n.control.Handle(t.Context(), []byte(`{"commands":[{"command":"createRole","rolename":"r"}]}`))
		return strings.Contains(string(answer), "Nothing was changed, try again: ")
	})
	if err := n.AskHA(t.Context(), control.DeleteCluster("plant"), nil); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("got %v, want words to try again", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := n.AskHA(ended, control.DeleteCluster("plant"), nil); broker.KindOf(err) != broker.Unavailable {
		t.Errorf("a request that ended before: %v, want that nothing was sent", err)
	}
}
