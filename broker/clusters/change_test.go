package clusters

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
)

// four creates a cluster of three and a fourth broker.
func (r *rig) four() (id string, brokers []*fakeBroker) {
	brokers = r.brokers(4)
	made, err := r.CreateCluster(r.t.Context(), project, spec(3))
	if err != nil {
		r.t.Fatal(err)
	}
	return made.ID, brokers
}

func (r *rig) join(id string, n broker.ClusterNodeRef) error {
	return r.JoinCluster(r.t.Context(), project, id, n)
}

func (r *rig) leave(id string, n broker.ClusterNodeRef) error {
	return r.LeaveCluster(r.t.Context(), project, id, n)
}

func TestJoinCluster_in_every_variant(t *testing.T) {
	for name, m := range map[string]variant{"ours": variantOurs, "others": variantOthers, "slow": variantSlow} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				r.network.variant = m
				id, _ := r.four()
				if err := r.join(id, ref(4)); err != nil {
					r.t.Fatal(err)
				}
				if c := r.wantState(id, "active", 1); len(c.Nodes) != 4 {
					r.t.Errorf("got %+v", c)
				}
			})
		})
	}
}

func TestJoinCluster_refused(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(r *rig, p []*fakeBroker, n *broker.ClusterNodeRef)
		kind   broker.Kind
		words  string
		fields []string
	}{
		"a number that is taken": {func(_ *rig, _ []*fakeBroker, n *broker.ClusterNodeRef) { n.NodeID, n.Name = 2, "n3" }, broker.Invalid, "", []string{"nodeid", "name"}},
		"a broker that is taken": {func(_ *rig, _ []*fakeBroker, n *broker.ClusterNodeRef) { *n = ref(2); n.Port = 7001 }, broker.Invalid, "", []string{"nodeid", "name", "broker_id"}},
		"an unknown broker":      {func(_ *rig, _ []*fakeBroker, n *broker.ClusterNodeRef) { n.BrokerID = "x" }, broker.Invalid, "", []string{"broker_id"}},
		"an unreachable broker":  {func(_ *rig, p []*fakeBroker, _ *broker.ClusterNodeRef) { p[3].stopped = true }, broker.Unavailable, "node 4", nil},
		"one without clusters":   {func(_ *rig, p []*fakeBroker, _ *broker.ClusterNodeRef) { p[3].noClusters = true }, broker.Unsupported, "node 4", nil},
		"one in another cluster": {func(_ *rig, p []*fakeBroker, _ *broker.ClusterNodeRef) {
			p[3].join(&fakeCluster{name: "old", members: map[int]*fakeBroker{}}, 4)
		}, broker.Conflict, "old", nil},
		"one in a namesake": {func(_ *rig, p []*fakeBroker, _ *broker.ClusterNodeRef) {
			p[3].join(&fakeCluster{name: "ha", uuid: "z", listed: []int{4}, members: map[int]*fakeBroker{}}, 4)
		}, broker.Conflict, "already", nil},
		"one of another cluster": {func(r *rig, _ []*fakeBroker, _ *broker.ClusterNodeRef) {
			r.rows.stored["o"] = Cluster{Name: "old", Nodes: []Node{{ClusterNodeRef: ref(4)}}}
		}, broker.Conflict, "old", nil},
		"no leader": {func(_ *rig, p []*fakeBroker, _ *broker.ClusterNodeRef) { p[0].stopped, p[1].stopped = true, true }, broker.Unavailable, "no leader", nil},
		"no node": {func(_ *rig, p []*fakeBroker, _ *broker.ClusterNodeRef) {
			p[0].unreachable, p[1].unreachable, p[2].unreachable = true, true, true
		}, broker.Unavailable, "b3 refuses", nil},
		"a leader that refuses": {func(_ *rig, p []*fakeBroker, _ *broker.ClusterNodeRef) {
			p[0].fails["addNode"] = &broker.Error{Kind: broker.Conflict, Msg: "no"}
		}, broker.Conflict, "node 1 (n1): no", nil},
		"a node that refuses": {func(_ *rig, p []*fakeBroker, _ *broker.ClusterNodeRef) {
			p[3].fails["joinCluster"] = &broker.Error{Kind: broker.Conflict, Msg: "no"}
		}, broker.Conflict, "node 4 (n4): no", nil},
		"a node that cannot tell": {func(_ *rig, p []*fakeBroker, _ *broker.ClusterNodeRef) { p[3].lostResponses["joinCluster"] = true }, broker.Unconfirmed, "node 4", nil},
		"a row that is not taken": {func(r *rig, _ []*fakeBroker, _ *broker.ClusterNodeRef) { r.rows.failAdd = errors.New("disk full") }, broker.Internal, "disk full", nil},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				id, brokers := r.four()
				n := ref(4)
				tt.before(r, brokers, &n)
				in := brokers[3].cluster
				err := r.join(id, n)
				r.wantError(err, tt.kind, tt.words)
				e, _ := errors.AsType[*broker.Error](err)
				for i, f := range tt.fields {
					if i >= len(e.Fields) || e.Fields[i].Path != f {
						r.t.Errorf("fields: got %+v, want %v", e.Fields, tt.fields)
					}
				}
				if brokers[3].cluster != in {
					r.t.Error("the broker went where it was not before")
				}
				if c := r.rows.stored[id]; len(c.Nodes) != 3 {
					r.t.Errorf("stored: %+v", c)
				}
				for _, p := range brokers[:3] {
					if slices.Contains(p.cluster.listed, 4) {
						r.t.Error("the node is counted")
					}
				}
			})
		})
	}
}

// TestNewNodesHaveAVote checks that new nodes have a vote when the command returns, unless that
// takes too long.
func TestNewNodesHaveAVote(t *testing.T) {
	run(t, func(r *rig) {
		brokers := r.brokers(4)
		brokers[1].standby, brokers[3].standby = 10, 10
		made, err := r.CreateCluster(r.t.Context(), project, spec(3))
		if err != nil || brokers[1].standby > 0 {
			r.t.Fatalf("%d questions are left, %v", brokers[1].standby, err)
		}
		if err := r.join(made.ID, ref(4)); err != nil || brokers[3].standby > 0 {
			r.t.Errorf("%d questions are left, %v", brokers[3].standby, err)
		}
		brokers[2].leave()
		brokers[2].standby = math.MaxInt
		begin := time.Now()
		if err := r.join(made.ID, ref(3)); err != nil || time.Since(begin) > defaultTiming.votes {
			r.t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}

// TestJoinCluster_again continues an incomplete joining, or joins a member.
func TestJoinCluster_again(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.four()
		if err := r.join(id, ref(4)); err != nil {
			r.t.Fatal(err)
		}
		for range 2 {
			if err := r.rows.RemoveNode(r.t.Context(), id, 4); err != nil { // as if the service had ended before
				r.t.Fatal(err)
			}
			if err := r.join(id, ref(4)); err != nil {
				r.t.Fatal(err)
			}
			brokers[0].cluster.listed = brokers[0].cluster.listed[:3] // as if the leader had not added it
		}
		for _, n := range []int{1, 2} {
			if err := r.join(id, ref(n)); err != nil {
				r.t.Errorf("node %d, which is one: %v", n, err)
			}
		}
		if len(r.rows.stored[id].Nodes) != 4 {
			r.t.Errorf("got %+v", r.rows.stored[id])
		}
	})
}

func TestJoinCluster_of_a_node_that_lost_its_data(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.cluster(3)
		brokers[2].leave()
		r.wantState(id, "degraded", 1, 3)
		if err := r.join(id, ref(3)); err != nil {
			r.t.Fatal(err)
		}
		r.wantState(id, "active", 1)
	})
}

func TestLeaveCluster(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(p []*fakeBroker)
		give   broker.ClusterNodeRef
		leader int
	}{
		"by its number":            {func([]*fakeBroker) {}, broker.ClusterNodeRef{NodeID: 3}, 1},
		"by its broker":            {func([]*fakeBroker) {}, broker.ClusterNodeRef{BrokerID: "b3"}, 1},
		"the leader":               {func([]*fakeBroker) {}, broker.ClusterNodeRef{NodeID: 1}, 2},
		"one that is down":         {func(p []*fakeBroker) { p[2].stopped = true }, broker.ClusterNodeRef{NodeID: 3}, 1},
		"one that is out already":  {func(p []*fakeBroker) { p[2].LeaveCluster(context.Background(), "ha", control.HANode{}) }, broker.ClusterNodeRef{NodeID: 3}, 1}, //nolint:errcheck // it is in one
		"without the leader":       {func(p []*fakeBroker) { p[0].unreachable, p[1].unreachable = true, true }, broker.ClusterNodeRef{NodeID: 3}, 1},
		"the leader's answer lost": {func(p []*fakeBroker) { p[0].lostResponses["removeNode"] = true }, broker.ClusterNodeRef{NodeID: 3}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				id, brokers := r.cluster(3)
				tt.before(brokers)
				if err := r.leave(id, tt.give); err != nil {
					r.t.Fatal(err)
				}
				brokers[0].unreachable, brokers[1].unreachable = false, false
				if c := r.wantState(id, "active", tt.leader); len(c.Nodes) != 2 {
					r.t.Errorf("got %+v", c)
				}
			})
		})
	}
}

// TestJoinCluster_unlocks retries after a failure, and closes unused connections.
func TestJoinCluster_unlocks(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.four()
		n := ref(4)
		n.BrokerID, n.Target.URL = "far", "mqtt://b4"
		brokers[3].stopped = true
		r.wantError(r.join(id, n), broker.Unavailable, "node 4")
		if !slices.Equal(r.rows.released, []string{"far"}) {
			r.t.Errorf("released: %v", r.rows.released)
		}
		brokers[3].stopped = false
		if err := r.join(id, n); err != nil {
			r.t.Fatal(err)
		}
		if err := r.leave(id, n); err != nil || len(r.rows.released) != 2 {
			r.t.Errorf("released %v, %v", r.rows.released, err)
		}
	})
}

// TestLeaveCluster_unheard has a node leave that missed its removal.
func TestLeaveCluster_unheard(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.cluster(3)
		brokers[0].after["removeNode"] = func() { brokers[2].unreachable = false }
		brokers[2].unreachable = true
		if err := r.leave(id, broker.ClusterNodeRef{NodeID: 3}); err != nil {
			r.t.Fatal(err)
		}
		r.wantFree(brokers[2])
		r.wantState(id, "active", 1)
	})
}

func TestLeaveCluster_refused(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.cluster(3)
		for _, none := range []broker.ClusterNodeRef{{NodeID: 4}, {BrokerID: "b4"}, {NodeID: 1, BrokerID: "b2"}} {
			r.wantError(r.leave(id, none), broker.NotFound)
		}
		r.wantError(r.leave("none", broker.ClusterNodeRef{NodeID: 1}), broker.NotFound)
		brokers[0].fails["removeNode"] = &broker.Error{Kind: broker.Conflict, Msg: "not now"}
		r.wantError(r.leave(id, broker.ClusterNodeRef{NodeID: 3}), broker.Conflict, "not now")
		brokers[0].stopped, brokers[1].stopped, brokers[2].stopped = true, true, true
		r.wantError(r.leave(id, broker.ClusterNodeRef{NodeID: 3}), broker.Unavailable, "b1 refuses")
		if len(r.rows.stored[id].Nodes) != 3 {
			r.t.Error("a node is forgotten")
		}
		one, _ := r.rows.Create(r.t.Context(), Cluster{Name: "one", Nodes: []Node{{ClusterNodeRef: ref(1)}}})
		r.wantError(r.leave(one, broker.ClusterNodeRef{NodeID: 1}), broker.Conflict, "last node")
	})
}

func TestDeleteCluster(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(p []*fakeBroker)
		purge  bool
		kind   broker.Kind // of the error; 0 with words "" for none
		words  string
		left   []int // brokers that are in a cluster afterwards
	}{
		"of all that are well":  {before: func([]*fakeBroker) {}},
		"with one that is down": {before: func(p []*fakeBroker) { p[2].stopped = true }, left: []int{2}},
		"with the leader down":  {before: func(p []*fakeBroker) { p[0].stopped = true }, left: []int{0}},
		"dissolved already":     {before: func(p []*fakeBroker) { p[0].cluster, p[1].cluster, p[2].cluster = nil, nil, nil }},
		"without a majority":    {before: func(p []*fakeBroker) { p[0].stopped, p[1].stopped = true, true }, kind: broker.Unavailable, words: "no leader", left: []int{0, 1, 2}},
		"no node is reached":    {before: func(p []*fakeBroker) { p[0].unreachable, p[1].unreachable, p[2].unreachable = true, true, true }, kind: broker.Unavailable, words: "refuses", left: []int{0, 1, 2}},
		"that is refused":       {before: func(p []*fakeBroker) { p[0].fails["deleteCluster"] = &broker.Error{Kind: broker.Conflict, Msg: "no"} }, kind: broker.Conflict, words: "no", left: []int{0, 1, 2}},
		"whose answer is lost":  {before: func(p []*fakeBroker) { p[0].lostResponses["deleteCluster"] = true }},
		"whose request is lost": {before: func(p []*fakeBroker) {
			p[0].fails["deleteCluster"] = &broker.Error{Kind: broker.Unconfirmed, Msg: "lost"}
		}, kind: broker.Unconfirmed, words: "lost", left: []int{0, 1, 2}},
		"purged without majority":  {before: func(p []*fakeBroker) { p[0].stopped, p[1].stopped = true, true }, purge: true, left: []int{0, 1, 2}},
		"purged and well":          {before: func([]*fakeBroker) {}, purge: true},
		"purged that is not there": {before: func(p []*fakeBroker) { p[0].unreachable, p[1].unreachable, p[2].unreachable = true, true, true }, purge: true, left: []int{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				id, brokers := r.cluster(3)
				tt.before(brokers)
				err := r.DeleteCluster(r.t.Context(), project, id, "ha", tt.purge)
				if tt.words == "" && err != nil {
					r.t.Fatal(err)
				} else if tt.words != "" {
					r.wantError(err, tt.kind, tt.words)
				}
				if _, stored := r.rows.stored[id]; stored != (err != nil) {
					r.t.Errorf("stored %v after %v", stored, err)
				}
				for i, p := range brokers {
					if (p.cluster != nil) != slices.Contains(tt.left, i) {
						r.t.Errorf("%s is in a cluster: %v", p.name, p.cluster != nil)
					}
				}
			})
		})
	}
}

// TestDeleteCluster_without_support checks the error if no broker supports
// clusters.
func TestDeleteCluster_without_support(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.cluster(2)
		brokers[0].noClusters, brokers[1].noClusters = true, true
		r.wantError(r.DeleteCluster(r.t.Context(), project, id, "", false), broker.Unsupported, "node 1", "node 2")
	})
}

func TestDeleteCluster_of_another_name(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.cluster(1)
		r.wantError(r.DeleteCluster(r.t.Context(), project, id, "hb", true), broker.Conflict, "another name")
		r.wantError(r.DeleteCluster(r.t.Context(), project, "none", "", true), broker.NotFound)
		if brokers[0].cluster == nil {
			r.t.Error("it was dissolved")
		}
	})
}

func TestDeleteClusters(t *testing.T) {
	run(t, func(r *rig) {
		_, brokers := r.four()
		other := broker.ClusterSpec{ClusterName: "other", SyncMode: "full", Nodes: []broker.ClusterNodeRef{ref(4)}}
		if _, err := r.CreateCluster(r.t.Context(), project, other); err != nil {
			r.t.Fatal(err)
		}
		brokers[3].stopped = true
		got, err := r.DeleteClusters(r.t.Context(), project, false)
		if err != nil || len(got) != 2 || got[0].ClusterName != "ha" || got[0].Err != nil {
			r.t.Fatalf("got %+v, %v", got, err)
		}
		r.wantError(got[1].Err, broker.Unavailable, "node 4")
		if got, err = r.DeleteClusters(r.t.Context(), project, true); err != nil || len(got) != 1 || got[0].Err != nil || len(r.rows.stored) != 0 {
			r.t.Errorf("purged: got %+v, %v", got, err)
		}
	})
}
