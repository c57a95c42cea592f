package clusters

import (
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
)

func TestState(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(p []*fakeBroker)
		state  string
		leader int
		ill    []int
	}{
		"all are well":               {func([]*fakeBroker) {}, "active", 1, nil},
		"a follower is down":         {func(p []*fakeBroker) { p[1].stopped = true }, "degraded", 1, []int{2}},
		"the leader is down":         {func(p []*fakeBroker) { p[0].stopped = true }, "degraded", 2, []int{1}},
		"the leader is out of reach": {func(p []*fakeBroker) { p[0].unreachable = true }, "degraded", 1, []int{1}},
		"most are down":              {func(p []*fakeBroker) { p[0].stopped, p[2].stopped = true, true }, "inactive", 0, []int{1, 2, 3}},
		"no node is reached":         {func(p []*fakeBroker) { p[0].unreachable, p[1].unreachable, p[2].unreachable = true, true, true }, "inactive", 0, []int{1, 2, 3}},
		"a node is in another cluster": {func(p []*fakeBroker) {
			p[1].leave()
			p[1].join(&fakeCluster{name: "x", members: map[int]*fakeBroker{}}, 2)
		}, "degraded", 1, []int{2}},
		"a node is in a namesake": {func(p []*fakeBroker) {
			p[1].leave()
			p[1].join(&fakeCluster{name: "ha", uuid: "z", members: map[int]*fakeBroker{}}, 2)
		}, "degraded", 1, []int{2}},
		"a node is in no cluster": {func(p []*fakeBroker) { p[1].leave() }, "degraded", 1, []int{2}},
		"a node is not counted": {func(p []*fakeBroker) {
			old := *p[0].cluster
			p[1].cluster, p[0].cluster.listed = &old, []int{1, 3}
		}, "degraded", 1, []int{2}},
		"one node still thinks it does": {func(p []*fakeBroker) { old := *p[0].cluster; old.leader, old.term = 2, 0; p[1].cluster = &old }, "degraded", 1, []int{2}},
		"one does not know clusters":    {func(p []*fakeBroker) { p[2].noClusters = true }, "degraded", 1, []int{3}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				id, brokers := r.cluster(3)
				tt.before(brokers)
				r.wantState(id, tt.state, tt.leader, tt.ill...)
			})
		})
	}
}

// TestObserve_is_bounded asks many nodes that never respond.
func TestObserve_is_bounded(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.cluster(3)
		for range 40 {
			if _, err := r.rows.Create(r.t.Context(), r.rows.stored[id]); err != nil {
				r.t.Fatal(err)
			}
		}
		for _, p := range brokers {
			p.silent = true
		}
		begin := time.Now()
		list, err := r.ListClusters(r.t.Context(), project)
		if took := time.Since(begin); err != nil || len(list) != 41 || took > defaultTiming.observe {
			r.t.Fatalf("got %d clusters, %v after %s", len(list), err, took)
		}
		for _, c := range list {
			if c.State != "inactive" || c.Nodes[0].Error == "" {
				r.t.Errorf("got %+v", c)
			}
		}
	})
}

func TestListClusters_is_never_nil(t *testing.T) {
	run(t, func(r *rig) {
		list, err := r.ListClusters(r.t.Context(), project)
		results, err2 := r.GetRaftStatus(r.t.Context(), project)
		if list == nil || results == nil || err != nil || err2 != nil {
			r.t.Errorf("got %v, %v, %v, %v", list, err, results, err2)
		}
		_, err = r.GetCluster(r.t.Context(), project, "none")
		r.wantError(err, broker.NotFound)
	})
}

func TestGetRaftStatus(t *testing.T) {
	run(t, func(r *rig) {
		_, brokers := r.cluster(3)
		status := func() broker.ClusterResult {
			r.t.Helper()
			got, err := r.GetRaftStatus(r.t.Context(), project)
			if err != nil || len(got) != 1 || got[0].ClusterName != "ha" {
				r.t.Fatalf("got %+v, %v", got, err)
			}
			return got[0]
		}
		if s := status(); s.Err != nil || s.Data.State != stateLeader || len(s.Data.Nodes) != 3 {
			r.t.Errorf("got %+v", s)
		}
		brokers[0].stopped, brokers[1].stopped = true, true
		if s := status(); s.Err != nil || s.Data.State != stateCandidate {
			r.t.Errorf("of one without a leader: got %+v", s)
		}
		brokers[2].silent = true
		s := status()
		r.wantError(s.Err, broker.Unavailable, "node 1 (n1): b1 refuses", "node 3")
		for _, p := range brokers {
			p.stopped, p.silent, p.noClusters = false, false, true
		}
		r.wantError(status().Err, broker.Unsupported)
	})
}

// TestObserveNode_of_a_plugin_that_only_has_a_status checks that a plugin without getCluster is
// supported.
func TestObserveNode_of_a_plugin_that_only_has_a_status(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.cluster(3)
		for _, p := range brokers {
			p.fails["getCluster"] = control.Refusal("Unknown command").ClassifyHA("getCluster")
		}
		r.wantState(id, "active", 1)
	})
}

// TestObserveNode_of_a_node_without_consensus checks that a node without running consensus counts as
// a member.
func TestObserveNode_of_a_node_without_consensus(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.cluster(3)
		between := control.Refusal(control.ErrNoLeader).ClassifyHA("getCluster")
		brokers[1].noConsensus = true
		brokers[1].fails["getCluster"] = between
		c := r.wantState(id, "degraded", 1, 2)
		if got := c.Nodes[1].Error; got != "the broker takes no part in the cluster's consensus yet" {
			r.t.Errorf("got %q", got)
		}
		free := r.brokers(5)
		free[4].noConsensus, free[4].fails["getCluster"] = true, between
		_, err := r.CreateCluster(r.t.Context(), project, broker.ClusterSpec{ClusterName: "other", SyncMode: "dynsec", Nodes: []broker.ClusterNodeRef{ref(4), ref(5)}})
		r.wantError(err, broker.Conflict, "node 5", "already part of a cluster")
	})
}

// TestFull_hint_how_nodes_are_reached checks the hint for a node that cannot be reached and does
// not lead.
func TestFull_hint_how_nodes_are_reached(t *testing.T) {
	run(t, func(r *rig) {
		brokers, s := r.brokers(4), spec(3)
		s.SyncMode = "full"
		for _, p := range brokers[1:3] {
			p.after["joinCluster"] = func() { p.unreachable = true }
		}
		made, err := r.CreateCluster(r.t.Context(), project, s)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, words := range []string{"node 2 (n2): b2 refuses", "node 3 (n3)", "admin_only"} {
			if !strings.Contains(made.Warning, words) {
				r.t.Errorf("the warning is %q, want %q in it", made.Warning, words)
			}
		}
		c := r.wantState(made.ID, "degraded", 1, 2, 3)
		if !strings.Contains(c.Nodes[1].Error, "admin_only") {
			r.t.Errorf("got %q", c.Nodes[1].Error)
		}
		brokers[0].unreachable = true
		r.wantError(r.leave(made.ID, broker.ClusterNodeRef{NodeID: 3}), broker.Unavailable, "node 2 (n2): b2 refuses", "admin_only")
		brokers[0].unreachable, brokers[3].stopped = false, true
		err = r.join(made.ID, ref(4))
		r.wantError(err, broker.Unavailable, "node 4")
		if strings.Contains(err.Error(), "admin_only") {
			r.t.Errorf("of a broker that is in no cluster: %v", err)
		}
		brokers[1].unreachable, brokers[2].unreachable = false, false
		r.wantState(made.ID, "active", 1)
	})
}

// TestLeader_that_cannot_be_reached checks that the error names the leader: it would be wrong to
// report that there is none.
func TestLeader_that_cannot_be_reached(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.cluster(3)
		r.brokers(4)
		for i, p := range brokers {
			r.network.brokers[p.name] = brokers[i]
		}
		brokers[0].unreachable = true
		for name, err := range map[string]error{
			"join":   r.join(id, ref(4)),
			"delete": r.DeleteCluster(r.t.Context(), project, id, "", false),
		} {
			r.wantError(err, broker.Unavailable, "node 1 (n1) leads the cluster and cannot be asked", "b1 refuses")
			if strings.Contains(err.Error(), "no leader") {
				r.t.Errorf("%s: %v", name, err)
			}
		}
		brokers[0].stopped, brokers[1].stopped = true, true
		r.wantError(r.DeleteCluster(r.t.Context(), project, id, "", false), broker.Unavailable, "no leader", "b1 refuses", "b2 refuses")
	})
}
