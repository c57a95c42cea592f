package clusters

import (
	"context"
	"slices"
	"testing"
	"time"

	"signalbox/broker"
)

const refused = "dial tcp 10.0.0.4:7000: connect: connection refused"

// TestJoinCluster_of_an_unreachable_node checks that it is undone in time.
func TestJoinCluster_of_an_unreachable_node(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.four()
		brokers[3].cutOff = refused
		begin := time.Now()
		r.wantError(r.join(id, ref(4)), broker.Unavailable, "node 4 (n4)", "node 1 (n1)", "10.0.0.4:7000", refused, "undone")
		if d := time.Since(begin); d > 8*time.Second {
			r.t.Errorf("after %s", d)
		}
		r.wantUndone(brokers[3])
		if c := r.wantState(id, "active", 1); len(c.Nodes) != 3 || slices.Contains(brokers[0].cluster.listed, 4) {
			r.t.Errorf("got %+v", c)
		}
	})
}

// TestJoinCluster_with_another_leader checks that it is undone if the leader changes meanwhile, and the next one has not found out yet.
func TestJoinCluster_with_another_leader(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.four()
		brokers[3].cutOff, brokers[1].old = refused, true
		defer time.AfterFunc(2*time.Second, func() {
			r.network.mu.Lock()
			defer r.network.mu.Unlock()
			c := brokers[0].cluster
			c.leader, c.term = 2, c.term+1
		}).Stop()
		r.wantError(r.join(id, ref(4)), broker.Unavailable, "node 4 (n4)", "node 1 (n1)", "10.0.0.4:7000", refused, "undone")
		r.wantUndone(brokers[3])
	})
}

// TestJoinCluster_slow checks that joining is not undone because it takes long, nor if the leader
// does not report errors.
func TestJoinCluster_slow(t *testing.T) {
	for name, prepare := range map[string]func(p []*fakeBroker){
		"reached late": func(p []*fakeBroker) { p[3].cutOff, p[3].cutUntil = refused, time.Now().Add(2*time.Second) },
		"catching up":  func(p []*fakeBroker) { p[3].standby = 1000 },
		"old leader":   func(p []*fakeBroker) { p[3].cutOff, p[0].old = refused, true },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				id, brokers := r.four()
				prepare(brokers)
				if err := r.join(id, ref(4)); err != nil {
					r.t.Fatal(err)
				}
				if len(r.rows.stored[id].Nodes) != 4 || brokers[3].cluster == nil {
					r.t.Errorf("got %+v", r.rows.stored[id])
				}
			})
		})
	}
}

// TestJoinCluster_cut_short checks that a node can be removed if the service ends while it joins, or
// if the cluster cannot be reached to undo it.
func TestJoinCluster_cut_short(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.four()
		inList := 0
		brokers[0].after["addNode"] = func() { inList = len(r.rows.stored[id].Nodes) }
		brokers[3].cutOff = refused
		brokers[3].after["joinCluster"] = func() { brokers[0].fails["removeNode"] = &broker.Error{Kind: broker.Conflict, Msg: "not now"} }
		r.wantError(r.join(id, ref(4)), broker.Unavailable, "cannot be reached by node 1 (n1)", "not now", "remove node 4 (n4)")
		if inList != 4 {
			r.t.Errorf("%d nodes were in the list when the node was invited", inList)
		}
		r.wantState(id, "degraded", 1, 4)
		delete(brokers[0].fails, "removeNode")
		if err := r.leave(id, broker.ClusterNodeRef{NodeID: 4}); err != nil {
			r.t.Fatal(err)
		}
		r.wantFree(brokers[3])
		r.wantState(id, "active", 1)
	})
}

// TestJoinCluster_of_an_unreachable_member checks that a member that lost its data is alone again,
// and stays a member.
func TestJoinCluster_of_an_unreachable_member(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.cluster(3)
		brokers[2].leave()
		brokers[2].cutOff = refused
		r.wantError(r.join(id, ref(3)), broker.Unavailable, "node 3 (n3)", "undone")
		r.wantUndone(brokers[2])
		r.wantState(id, "degraded", 1, 3)
		brokers[2].cutOff = ""
		if err := r.join(id, ref(3)); err != nil {
			r.t.Fatal(err)
		}
		r.wantState(id, "active", 1)
	})
}

// TestCreateCluster_with_an_unreachable_node checks that the whole creation is undone in time.
func TestCreateCluster_with_an_unreachable_node(t *testing.T) {
	run(t, func(r *rig) {
		brokers := r.brokers(3)
		brokers[2].cutOff = refused
		begin := time.Now()
		_, err := r.CreateCluster(context.Background(), project, spec(3))
		r.wantError(err, broker.Unavailable, "node 3 (n3)", "10.0.0.3:7000", "undone")
		if d := time.Since(begin); d > 8*time.Second {
			r.t.Errorf("after %s", d)
		}
		r.wantUndone(brokers...)
		if len(r.rows.stored) != 0 || !slices.Equal(brokers[0].log, []string{"createCluster", "removeNode", "deleteCluster"}) {
			r.t.Errorf("stored %+v, asked %v", r.rows.stored, brokers[0].log)
		}
	})
}
