package clusters

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"signalbox/broker"
	"signalbox/broker/control"
)

func TestCreateCluster_in_every_manner(t *testing.T) {
	for name, m := range map[string]manner{"ours": ours, "others": others, "slow": slow} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				r.hall.manner = m
				id, papers := r.cluster(3)
				c := r.wantState(id, "active", 1)
				if c.ClusterName != "ha" || c.SyncMode != "dynsec" || c.Nodes[2].URL != "mqtt://b3" || c.Nodes[2].LogIndex != 10 {
					r.t.Errorf("got %+v", c)
				}
				want := "createCluster"
				if m == slow {
					want += " addNode addNode"
				}
				if got := strings.Join(papers[0].log, " "); got != want {
					r.t.Errorf("the first was asked %s, want %s", got, want)
				}
			})
		})
	}
}

func TestCreateCluster_of_targets_and_of_one(t *testing.T) {
	run(t, func(r *rig) {
		r.brokers(1)
		s := spec(1)
		s.Nodes[0].BrokerID = "any"
		s.Nodes[0].Target = broker.Target{URL: "mqtt://b1", Username: "u", Password: "p", TLS: broker.TLS{Verify: true, CACert: "ca"}}
		made, err := r.CreateCluster(r.t.Context(), project, s)
		if err != nil || made.URL != "mqtt://b1" || made.Username != "u" || made.Password != "p" || made.VerifyCACert != 1 || made.CACert != "ca" {
			r.t.Fatalf("got %+v, %v", made, err)
		}
		r.wantState(made.ID, "active", 1)
	})
}

// TestCreateCluster_refused looks before it begins: nothing is done.
func TestCreateCluster_refused(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(r *rig, p []*paper, s *broker.ClusterSpec)
		kind   broker.Kind
		words  []string
	}{
		"unreachable node": {func(_ *rig, p []*paper, _ *broker.ClusterSpec) { p[1].dead = true }, broker.Unavailable, []string{"node 2 (n2)", "refuses connections"}},
		"mute node":        {func(_ *rig, p []*paper, _ *broker.ClusterSpec) { p[2].mute = true }, broker.Unconfirmed, []string{"node 3"}},
		"without clusters": {func(_ *rig, p []*paper, _ *broker.ClusterSpec) { p[2].plain = true }, broker.Unsupported, []string{"node 3", "cluster"}},
		"two of a kind": {func(_ *rig, p []*paper, _ *broker.ClusterSpec) { p[0].plain, p[1].dead = true, true }, broker.Unavailable,
			[]string{"node 1", "node 2"}},
		"in a cluster": {func(_ *rig, p []*paper, _ *broker.ClusterSpec) {
			p[1].sit(&ring{name: "old", uuid: "u", seated: map[int]*paper{}}, 9)
		}, broker.Conflict, []string{"node 2", "already part of a cluster", `"old"`}},
		"unknown brokers": {func(_ *rig, _ []*paper, s *broker.ClusterSpec) { s.Nodes[0].BrokerID, s.Nodes[2].BrokerID = "x", "y" }, broker.Invalid, nil},
		"name taken":      {func(r *rig, _ []*paper, _ *broker.ClusterSpec) { r.rows.stored["c"] = Cluster{Name: "ha"} }, broker.Exists, nil},
		"broker taken": {func(r *rig, _ []*paper, _ *broker.ClusterSpec) {
			r.rows.stored["c"] = Cluster{Name: "old", Nodes: []Node{{ClusterNodeRef: ref(3)}}}
		}, broker.Conflict, []string{"node 3", "old"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				papers, s := r.brokers(3), spec(3)
				tt.before(r, papers, &s)
				before := len(r.rows.stored)
				_, err := r.CreateCluster(r.t.Context(), project, s)
				r.wantError(err, tt.kind, tt.words...)
				for _, p := range papers {
					if len(p.log) > 0 {
						r.t.Errorf("%s was asked %v", p.name, p.log)
					}
				}
				if len(r.rows.stored) != before {
					r.t.Error("a cluster is stored")
				}
				if e := err.(*broker.Error); tt.kind == broker.Invalid && (len(e.Fields) != 2 || e.Fields[1].Path != "nodes[2].broker_id") {
					r.t.Errorf("fields: %+v", e.Fields)
				}
			})
		})
	}
}

// TestCreateCluster_broken_off is undone, whatever failed.
func TestCreateCluster_broken_off(t *testing.T) {
	refusal := &broker.Error{Kind: broker.Conflict, Msg: "The mode is not offered"}
	for name, tt := range map[string]struct {
		manner manner
		before func(p []*paper)
		kind   broker.Kind
		words  string
	}{
		"the first refuses":        {ours, func(p []*paper) { p[0].fails["createCluster"] = refusal }, broker.Conflict, "node 1 (n1): The mode is not offered"},
		"the first's answer lost":  {ours, func(p []*paper) { p[0].lost["createCluster"] = true }, broker.Unconfirmed, "node 1"},
		"a join is refused":        {ours, func(p []*paper) { p[2].fails["joinCluster"] = refusal }, broker.Conflict, "node 3"},
		"a join's answer is lost":  {ours, func(p []*paper) { p[1].lost["joinCluster"] = true }, broker.Unconfirmed, "node 2"},
		"a join without a leader":  {others, func(p []*paper) { p[2].fails["joinCluster"] = refusal }, broker.Conflict, "node 3"},
		"an addition is refused":   {slow, func(p []*paper) { p[0].fails["addNode"] = refusal }, broker.Conflict, "node 2 (n2): "},
		"the leader never can add": {slow, func(p []*paper) { p[0].fails["addNode"] = control.Refusal(control.ErrNotLeader).ClassifyHA("addNode") }, broker.Conflict, "node 2"},
		"the leader does not listen": {ours, func(p []*paper) {
			p[2].fails["joinCluster"], p[0].fails["deleteCluster"] = refusal, refusal
		}, broker.Conflict, "node 3"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				r.hall.manner = tt.manner
				papers := r.brokers(3)
				tt.before(papers)
				_, err := r.CreateCluster(r.t.Context(), project, spec(3))
				r.wantError(err, tt.kind, tt.words)
				r.wantFree(papers...)
				if len(r.rows.stored) != 0 {
					r.t.Error("the cluster is still stored")
				}
			})
		})
	}
}

// TestCreateCluster_asks_again after the leader changed in between.
func TestCreateCluster_asks_again(t *testing.T) {
	run(t, func(r *rig) {
		r.hall.manner = slow
		papers := r.brokers(3)
		papers[0].fails["addNode"] = control.Refusal(control.ErrNotLeader).ClassifyHA("addNode")
		papers[0].onFail = func() { delete(papers[0].fails, "addNode") }
		made, err := r.CreateCluster(r.t.Context(), project, spec(3))
		if err != nil {
			r.t.Fatal(err)
		}
		r.wantState(made.ID, "active", 1)
	})
}

// TestCreateCluster_that_cannot_be_undone stays, to be deleted, with what its
// nodes are reached by.
func TestCreateCluster_that_cannot_be_undone(t *testing.T) {
	refusal := &broker.Error{Kind: broker.Conflict, Msg: "no"}
	for name, tt := range map[string]struct {
		before func(p []*paper)
		words  string
		kept   bool
	}{
		"a node that is gone":     {func(p []*paper) { p[1].after["joinCluster"] = func() { p[1].dead = true } }, "b2 refuses connections", true},
		"nodes that do not leave": {func(p []*paper) { p[0].fails["deleteCluster"], p[1].fails["leaveCluster"] = refusal, refusal }, "(no)", true},
		"nodes that do":           {func([]*paper) {}, "node 3 (n3): no", false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				papers, s := r.brokers(3), spec(3)
				s.Nodes[1].BrokerID, s.Nodes[1].Target.URL = "far", "mqtt://b2"
				papers[2].fails["joinCluster"] = refusal
				tt.before(papers)
				_, err := r.CreateCluster(r.t.Context(), project, s)
				r.wantError(err, broker.Conflict, "node 3 (n3): no", tt.words)
				if _, kept := r.rows.stored["c1"]; kept != tt.kept || strings.Contains(fmt.Sprint(err), "delete the cluster") != kept || kept == (len(r.rows.released) > 0) {
					r.t.Errorf("kept %v, released %v, after %v", kept, r.rows.released, err)
				}
			})
		})
	}
}

// TestCreateCluster_whose_caller_leaves is undone all the same.
func TestCreateCluster_whose_caller_leaves(t *testing.T) {
	run(t, func(r *rig) {
		papers := r.brokers(3)
		ctx, leave := context.WithCancel(r.t.Context())
		papers[0].after["createCluster"] = leave
		_, err := r.CreateCluster(ctx, project, spec(3))
		r.wantError(err, broker.Unavailable, "node 2")
		r.wantFree(papers...)
		if len(r.rows.stored) != 0 {
			r.t.Error("the cluster is still stored")
		}
	})
}

func TestOneChangeAtATime(t *testing.T) {
	run(t, func(r *rig) {
		papers := r.brokers(3)
		papers[2].mute = true
		done := make(chan error, 1)
		go func() {
			_, err := r.CreateCluster(r.t.Context(), project, spec(3))
			done <- err
		}()
		synctest.Wait()
		other := spec(2)
		other.ClusterName = "other"
		_, err := r.CreateCluster(r.t.Context(), project, other)
		r.wantError(err, broker.Conflict, "under way")
		r.wantError(<-done, broker.Unconfirmed)
		if _, err := r.CreateCluster(r.t.Context(), project, other); err != nil {
			r.t.Errorf("after that: %v", err)
		}
	})
}

// TestCreateCluster_that_is_there takes it over, just as it is: whoever made it may be
// lost. What is not just that is refused.
func TestCreateCluster_that_is_there(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(p []*paper, s *broker.ClusterSpec)
		taken  bool
	}{
		"the same":         {func([]*paper, *broker.ClusterSpec) {}, true},
		"another leader":   {func(p []*paper, _ *broker.ClusterSpec) { p[0].in.leader = 2 }, true},
		"another name":     {func(_ []*paper, s *broker.ClusterSpec) { s.ClusterName = "hb" }, false},
		"another mode":     {func(_ []*paper, s *broker.ClusterSpec) { s.SyncMode = "hp" }, false},
		"a node less":      {func(_ []*paper, s *broker.ClusterSpec) { s.Nodes = s.Nodes[:2] }, false},
		"other numbers":    {func(_ []*paper, s *broker.ClusterSpec) { s.Nodes[0].NodeID, s.Nodes[1].NodeID = 2, 1 }, false},
		"another address":  {func(_ []*paper, s *broker.ClusterSpec) { s.Nodes[2].Port = 7001 }, false},
		"a node elsewhere": {func(p []*paper, _ *broker.ClusterSpec) { p[2].stand() }, false},
		"a namesake": {func(p []*paper, _ *broker.ClusterSpec) {
			p[2].stand()
			p[2].sit(&ring{name: "ha", uuid: "z", seated: map[int]*paper{}}, 3)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				id, papers := r.cluster(3)
				delete(r.rows.stored, id)
				for _, p := range papers {
					p.log = nil
				}
				s := spec(3)
				tt.before(papers, &s)
				made, err := r.CreateCluster(r.t.Context(), project, s)
				if tt.taken {
					if err != nil || !strings.Contains(made.Warning, "already") {
						r.t.Fatalf("got %+v, %v", made, err)
					}
					if c, err := r.GetCluster(r.t.Context(), project, made.ID); err != nil || c.State != "active" {
						r.t.Errorf("got %+v, %v", c, err)
					}
				} else if r.wantError(err, broker.Conflict, "already part of a cluster"); len(r.rows.stored) != 0 {
					r.t.Error("a cluster is stored")
				}
				for _, p := range papers {
					if len(p.log) > 0 {
						r.t.Errorf("%s was asked %v", p.name, p.log)
					}
				}
			})
		})
	}
}
