package embedded

import (
	"testing"

	"signalbox/broker"
	"signalbox/broker/control"
)

// TestSharedJoinIsAnswered has a broker join a cluster that shares the audit log while no other node runs: the
// command is answered, although its outcome is recorded only when the node is admitted.
func TestSharedJoinIsAnswered(t *testing.T) {
	t.Parallel()
	var second *node
	recorded := make(chan struct{})
	audits := func(n *node) {
		if n.at.NodeID != 2 {
			return
		}
		n.config.ControlAudit = func(q broker.ControlRequest) (func([]broker.ControlOutcome), error) {
			return func([]broker.ControlOutcome) {
				if q.Commands[0].Name == "joinCluster" {
					second.change("joined")
					close(recorded)
				}
			}, nil
		}
	}
	all := nodes{startNode(t, 1, withList), startNode(t, 2, withList, audits)}
	first := all[0]
	second = all[1]
	var created control.HACreated
	first.ask(control.CreateCluster(all.spec("dynsec", 1, nil)), &created)
	first.stop()
	join(t, second.Broker, 5, as(adminName, adminPassword)).wantResponse(control.JoinCluster(all.spec("dynsec", 2, &created.Invitations[0])))
	select {
	case <-recorded:
		t.Error("the outcome was recorded before the node was admitted")
	default:
	}
	first.start()
	<-recorded
	all.haveLists(t, "joined")
}
