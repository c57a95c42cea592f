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

// four makes a cluster of three and a fourth broker.
func (r *rig) four() (id string, papers []*paper) {
	papers = r.brokers(4)
	made, err := r.CreateCluster(r.t.Context(), project, spec(3))
	if err != nil {
		r.t.Fatal(err)
	}
	return made.ID, papers
}

func (r *rig) join(id string, n broker.ClusterNodeRef) error {
	return r.JoinCluster(r.t.Context(), project, id, n)
}

func (r *rig) leave(id string, n broker.ClusterNodeRef) error {
	return r.LeaveCluster(r.t.Context(), project, id, n)
}

func TestJoinCluster_in_every_manner(t *testing.T) {
	for name, m := range map[string]manner{"ours": ours, "others": others, "slow": slow} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				r.hall.manner = m
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
		before func(r *rig, p []*paper, n *broker.ClusterNodeRef)
		kind   broker.Kind
		words  string
		fields []string
	}{
		"a number that is taken": {func(_ *rig, _ []*paper, n *broker.ClusterNodeRef) { n.NodeID, n.Name = 2, "n3" }, broker.Invalid, "", []string{"nodeid", "name"}},
		"a broker that is taken": {func(_ *rig, _ []*paper, n *broker.ClusterNodeRef) { *n = ref(2); n.Port = 7001 }, broker.Invalid, "", []string{"nodeid", "name", "broker_id"}},
		"an unknown broker":      {func(_ *rig, _ []*paper, n *broker.ClusterNodeRef) { n.BrokerID = "x" }, broker.Invalid, "", []string{"broker_id"}},
		"an unreachable broker":  {func(_ *rig, p []*paper, _ *broker.ClusterNodeRef) { p[3].dead = true }, broker.Unavailable, "node 4", nil},
		"one without clusters":   {func(_ *rig, p []*paper, _ *broker.ClusterNodeRef) { p[3].plain = true }, broker.Unsupported, "node 4", nil},
		"one in another cluster": {func(_ *rig, p []*paper, _ *broker.ClusterNodeRef) {
			p[3].sit(&ring{name: "old", seated: map[int]*paper{}}, 4)
		}, broker.Conflict, "old", nil},
		"one in a namesake": {func(_ *rig, p []*paper, _ *broker.ClusterNodeRef) {
			p[3].sit(&ring{name: "ha", uuid: "z", counted: []int{4}, seated: map[int]*paper{}}, 4)
		}, broker.Conflict, "already", nil},
		"one of another cluster": {func(r *rig, _ []*paper, _ *broker.ClusterNodeRef) {
			r.rows.stored["o"] = Cluster{Name: "old", Nodes: []Node{{ClusterNodeRef: ref(4)}}}
		}, broker.Conflict, "old", nil},
		"no leader": {func(_ *rig, p []*paper, _ *broker.ClusterNodeRef) { p[0].dead, p[1].dead = true, true }, broker.Unavailable, "no leader", nil},
		"nobody":    {func(_ *rig, p []*paper, _ *broker.ClusterNodeRef) { p[0].cut, p[1].cut, p[2].cut = true, true, true }, broker.Unavailable, "b3 refuses", nil},
		"a leader that refuses": {func(_ *rig, p []*paper, _ *broker.ClusterNodeRef) {
			p[0].fails["addNode"] = &broker.Error{Kind: broker.Conflict, Msg: "no"}
		}, broker.Conflict, "node 1 (n1): no", nil},
		"a node that refuses": {func(_ *rig, p []*paper, _ *broker.ClusterNodeRef) {
			p[3].fails["joinCluster"] = &broker.Error{Kind: broker.Conflict, Msg: "no"}
		}, broker.Conflict, "node 4 (n4): no", nil},
		"a node that cannot tell": {func(_ *rig, p []*paper, _ *broker.ClusterNodeRef) { p[3].lost["joinCluster"] = true }, broker.Unconfirmed, "node 4", nil},
		"a row that is not taken": {func(r *rig, _ []*paper, _ *broker.ClusterNodeRef) { r.rows.failAdd = errors.New("disk full") }, broker.Internal, "disk full", nil},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				id, papers := r.four()
				n := ref(4)
				tt.before(r, papers, &n)
				in := papers[3].in
				err := r.join(id, n)
				r.wantError(err, tt.kind, tt.words)
				e, _ := errors.AsType[*broker.Error](err)
				for i, f := range tt.fields {
					if i >= len(e.Fields) || e.Fields[i].Path != f {
						r.t.Errorf("fields: got %+v, want %v", e.Fields, tt.fields)
					}
				}
				if papers[3].in != in {
					r.t.Error("the broker went where it was not before")
				}
				if c := r.rows.stored[id]; len(c.Nodes) != 3 {
					r.t.Errorf("stored: %+v", c)
				}
				for _, p := range papers[:3] {
					if slices.Contains(p.in.counted, 4) {
						r.t.Error("the node is counted")
					}
				}
			})
		})
	}
}

// TestNewNodesHaveAVote when the command is answered, unless that takes long.
func TestNewNodesHaveAVote(t *testing.T) {
	run(t, func(r *rig) {
		papers := r.brokers(4)
		papers[1].standby, papers[3].standby = 10, 10
		made, err := r.CreateCluster(r.t.Context(), project, spec(3))
		if err != nil || papers[1].standby > 0 {
			r.t.Fatalf("%d questions are left, %v", papers[1].standby, err)
		}
		if err := r.join(made.ID, ref(4)); err != nil || papers[3].standby > 0 {
			r.t.Errorf("%d questions are left, %v", papers[3].standby, err)
		}
		papers[2].stand()
		papers[2].standby = math.MaxInt
		begin := time.Now()
		if err := r.join(made.ID, ref(3)); err != nil || time.Since(begin) > defaultTiming.rally {
			r.t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}

// TestJoinCluster_again goes on where a joining broke off, or is no news.
func TestJoinCluster_again(t *testing.T) {
	run(t, func(r *rig) {
		id, papers := r.four()
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
			papers[0].in.counted = papers[0].in.counted[:3] // as if the leader had not come to it
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
		id, papers := r.cluster(3)
		papers[2].stand()
		r.wantState(id, "degraded", 1, 3)
		if err := r.join(id, ref(3)); err != nil {
			r.t.Fatal(err)
		}
		r.wantState(id, "active", 1)
	})
}

func TestLeaveCluster(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(p []*paper)
		give   broker.ClusterNodeRef
		leader int
	}{
		"by its number":            {func([]*paper) {}, broker.ClusterNodeRef{NodeID: 3}, 1},
		"by its broker":            {func([]*paper) {}, broker.ClusterNodeRef{BrokerID: "b3"}, 1},
		"the leader":               {func([]*paper) {}, broker.ClusterNodeRef{NodeID: 1}, 2},
		"one that is down":         {func(p []*paper) { p[2].dead = true }, broker.ClusterNodeRef{NodeID: 3}, 1},
		"one that is out already":  {func(p []*paper) { p[2].LeaveCluster(context.Background(), "ha", control.HANode{}) }, broker.ClusterNodeRef{NodeID: 3}, 1}, //nolint:errcheck // it is in one
		"without the leader":       {func(p []*paper) { p[0].cut, p[1].cut = true, true }, broker.ClusterNodeRef{NodeID: 3}, 1},
		"the leader's answer lost": {func(p []*paper) { p[0].lost["removeNode"] = true }, broker.ClusterNodeRef{NodeID: 3}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				id, papers := r.cluster(3)
				tt.before(papers)
				if err := r.leave(id, tt.give); err != nil {
					r.t.Fatal(err)
				}
				papers[0].cut, papers[1].cut = false, false
				if c := r.wantState(id, "active", tt.leader); len(c.Nodes) != 2 {
					r.t.Errorf("got %+v", c)
				}
			})
		})
	}
}

// TestJoinCluster_frees_what_it_claimed tries again after a failure, and lets go
// of what was connected for nothing.
func TestJoinCluster_frees_what_it_claimed(t *testing.T) {
	run(t, func(r *rig) {
		id, papers := r.four()
		n := ref(4)
		n.BrokerID, n.Target.URL = "far", "mqtt://b4"
		papers[3].dead = true
		r.wantError(r.join(id, n), broker.Unavailable, "node 4")
		if !slices.Equal(r.rows.released, []string{"far"}) {
			r.t.Errorf("released: %v", r.rows.released)
		}
		papers[3].dead = false
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
		id, papers := r.cluster(3)
		papers[0].after["removeNode"] = func() { papers[2].cut = false }
		papers[2].cut = true
		if err := r.leave(id, broker.ClusterNodeRef{NodeID: 3}); err != nil {
			r.t.Fatal(err)
		}
		r.wantFree(papers[2])
		r.wantState(id, "active", 1)
	})
}

func TestLeaveCluster_refused(t *testing.T) {
	run(t, func(r *rig) {
		id, papers := r.cluster(3)
		for _, none := range []broker.ClusterNodeRef{{NodeID: 4}, {BrokerID: "b4"}, {NodeID: 1, BrokerID: "b2"}} {
			r.wantError(r.leave(id, none), broker.NotFound)
		}
		r.wantError(r.leave("none", broker.ClusterNodeRef{NodeID: 1}), broker.NotFound)
		papers[0].fails["removeNode"] = &broker.Error{Kind: broker.Conflict, Msg: "not now"}
		r.wantError(r.leave(id, broker.ClusterNodeRef{NodeID: 3}), broker.Conflict, "not now")
		papers[0].dead, papers[1].dead, papers[2].dead = true, true, true
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
		before func(p []*paper)
		purge  bool
		kind   broker.Kind // of the error; 0 with words "" for none
		words  string
		left   []int // which brokers are in a cluster after that
	}{
		"of all that are well":     {before: func([]*paper) {}},
		"with one that is down":    {before: func(p []*paper) { p[2].dead = true }, left: []int{2}},
		"with the leader down":     {before: func(p []*paper) { p[0].dead = true }, left: []int{0}},
		"dissolved already":        {before: func(p []*paper) { p[0].in, p[1].in, p[2].in = nil, nil, nil }},
		"without a majority":       {before: func(p []*paper) { p[0].dead, p[1].dead = true, true }, kind: broker.Unavailable, words: "no leader", left: []int{0, 1, 2}},
		"that nobody knows of":     {before: func(p []*paper) { p[0].cut, p[1].cut, p[2].cut = true, true, true }, kind: broker.Unavailable, words: "refuses", left: []int{0, 1, 2}},
		"that is refused":          {before: func(p []*paper) { p[0].fails["deleteCluster"] = &broker.Error{Kind: broker.Conflict, Msg: "no"} }, kind: broker.Conflict, words: "no", left: []int{0, 1, 2}},
		"whose answer is lost":     {before: func(p []*paper) { p[0].lost["deleteCluster"] = true }, kind: broker.Unconfirmed, words: "lost"},
		"purged without majority":  {before: func(p []*paper) { p[0].dead, p[1].dead = true, true }, purge: true, left: []int{0, 1, 2}},
		"purged and well":          {before: func([]*paper) {}, purge: true},
		"purged that is not there": {before: func(p []*paper) { p[0].cut, p[1].cut, p[2].cut = true, true, true }, purge: true, left: []int{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				id, papers := r.cluster(3)
				tt.before(papers)
				err := r.DeleteCluster(r.t.Context(), project, id, "ha", tt.purge)
				if tt.words == "" && err != nil {
					r.t.Fatal(err)
				} else if tt.words != "" {
					r.wantError(err, tt.kind, tt.words)
				}
				if _, stored := r.rows.stored[id]; stored != (err != nil) {
					r.t.Errorf("stored %v after %v", stored, err)
				}
				for i, p := range papers {
					if (p.in != nil) != slices.Contains(tt.left, i) {
						r.t.Errorf("%s is in a cluster: %v", p.name, p.in != nil)
					}
				}
				if tt.words == "lost" { // asked again, it is seen that it was done
					if err := r.DeleteCluster(r.t.Context(), project, id, "", false); err != nil {
						r.t.Error(err)
					}
				}
			})
		})
	}
}

// TestDeleteCluster_where_nobody_knows_clusters_any_more says so.
func TestDeleteCluster_where_nobody_knows_clusters_any_more(t *testing.T) {
	run(t, func(r *rig) {
		id, papers := r.cluster(2)
		papers[0].plain, papers[1].plain = true, true
		r.wantError(r.DeleteCluster(r.t.Context(), project, id, "", false), broker.Unsupported, "node 1", "node 2")
	})
}

func TestDeleteCluster_of_another_name(t *testing.T) {
	run(t, func(r *rig) {
		id, papers := r.cluster(1)
		r.wantError(r.DeleteCluster(r.t.Context(), project, id, "hb", true), broker.Conflict, "another name")
		r.wantError(r.DeleteCluster(r.t.Context(), project, "none", "", true), broker.NotFound)
		if papers[0].in == nil {
			r.t.Error("it was dissolved")
		}
	})
}

func TestDeleteClusters(t *testing.T) {
	run(t, func(r *rig) {
		_, papers := r.four()
		other := broker.ClusterSpec{ClusterName: "other", SyncMode: "full", Nodes: []broker.ClusterNodeRef{ref(4)}}
		if _, err := r.CreateCluster(r.t.Context(), project, other); err != nil {
			r.t.Fatal(err)
		}
		papers[3].dead = true
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
