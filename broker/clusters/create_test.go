package clusters

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"signalbox/broker"
	"signalbox/broker/control"
)

func TestCreateCluster_in_every_variant(t *testing.T) {
	for name, m := range map[string]variant{"ours": variantOurs, "others": variantOthers, "slow": variantSlow} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				r.network.variant = m
				id, brokers := r.cluster(3)
				c := r.wantState(id, "active", 1)
				if c.ClusterName != "ha" || c.SyncMode != "dynsec" || c.Nodes[2].URL != "mqtt://b3" || c.Nodes[2].LogIndex != 10 {
					r.t.Errorf("got %+v", c)
				}
				want := "createCluster"
				if m == variantSlow {
					want += " addNode addNode"
				}
				if got := strings.Join(brokers[0].log, " "); got != want {
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

// TestCreateCluster_refused checks that nothing is changed if a check fails.
func TestCreateCluster_refused(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(r *rig, p []*fakeBroker, s *broker.ClusterSpec)
		kind   broker.Kind
		words  []string
	}{
		"unreachable node": {func(_ *rig, p []*fakeBroker, _ *broker.ClusterSpec) { p[1].stopped = true }, broker.Unavailable, []string{"node 2 (n2)", "refuses connections"}},
		"mute node":        {func(_ *rig, p []*fakeBroker, _ *broker.ClusterSpec) { p[2].silent = true }, broker.Unconfirmed, []string{"node 3"}},
		"without clusters": {func(_ *rig, p []*fakeBroker, _ *broker.ClusterSpec) { p[2].noClusters = true }, broker.Unsupported, []string{"node 3", "cluster"}},
		"two of a kind": {func(_ *rig, p []*fakeBroker, _ *broker.ClusterSpec) { p[0].noClusters, p[1].stopped = true, true }, broker.Unavailable,
			[]string{"node 1", "node 2"}},
		"in a cluster": {func(_ *rig, p []*fakeBroker, _ *broker.ClusterSpec) {
			p[1].join(&fakeCluster{name: "old", uuid: "u", members: map[int]*fakeBroker{}}, 9)
		}, broker.Conflict, []string{"node 2", "already part of a cluster", `"old"`}},
		"unknown brokers": {func(_ *rig, _ []*fakeBroker, s *broker.ClusterSpec) {
			s.Nodes[0].BrokerID, s.Nodes[2].BrokerID = "x", "y"
		}, broker.Invalid, nil},
		"name taken": {func(r *rig, _ []*fakeBroker, _ *broker.ClusterSpec) { r.rows.stored["c"] = Cluster{Name: "ha"} }, broker.Exists, nil},
		"broker taken": {func(r *rig, _ []*fakeBroker, _ *broker.ClusterSpec) {
			r.rows.stored["c"] = Cluster{Name: "old", Nodes: []Node{{ClusterNodeRef: ref(3)}}}
		}, broker.Conflict, []string{"node 3", "old"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				brokers, s := r.brokers(3), spec(3)
				tt.before(r, brokers, &s)
				before := len(r.rows.stored)
				_, err := r.CreateCluster(r.t.Context(), project, s)
				r.wantError(err, tt.kind, tt.words...)
				for _, p := range brokers {
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

// TestCreateCluster_broken_off checks that a failed creation is undone, whatever failed.
func TestCreateCluster_broken_off(t *testing.T) {
	refusal := &broker.Error{Kind: broker.Conflict, Msg: "The mode is not offered"}
	for name, tt := range map[string]struct {
		variant variant
		before  func(p []*fakeBroker)
		kind    broker.Kind
		words   string
	}{
		"the first refuses":       {variantOurs, func(p []*fakeBroker) { p[0].fails["createCluster"] = refusal }, broker.Conflict, "node 1 (n1): The mode is not offered"},
		"the first's answer lost": {variantOurs, func(p []*fakeBroker) { p[0].lostResponses["createCluster"] = true }, broker.Unconfirmed, "node 1"},
		"a join is refused":       {variantOurs, func(p []*fakeBroker) { p[2].fails["joinCluster"] = refusal }, broker.Conflict, "node 3"},
		"a join's answer is lost": {variantOurs, func(p []*fakeBroker) { p[1].lostResponses["joinCluster"] = true }, broker.Unconfirmed, "node 2"},
		"a join without a leader": {variantOthers, func(p []*fakeBroker) { p[2].fails["joinCluster"] = refusal }, broker.Conflict, "node 3"},
		"an addition is refused":  {variantSlow, func(p []*fakeBroker) { p[0].fails["addNode"] = refusal }, broker.Conflict, "node 2 (n2): "},
		"the leader never can add": {variantSlow, func(p []*fakeBroker) {
			p[0].fails["addNode"] = control.Refusal(control.ErrNotLeader).ClassifyHA("addNode")
		}, broker.Conflict, "node 2"},
		"the leader does not listen": {variantOurs, func(p []*fakeBroker) {
			p[2].fails["joinCluster"], p[0].fails["deleteCluster"] = refusal, refusal
		}, broker.Conflict, "node 3"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				r.network.variant = tt.variant
				brokers := r.brokers(3)
				tt.before(brokers)
				_, err := r.CreateCluster(r.t.Context(), project, spec(3))
				r.wantError(err, tt.kind, tt.words)
				r.wantUndone(brokers...)
				if len(r.rows.stored) != 0 {
					r.t.Error("the cluster is still stored")
				}
			})
		})
	}
}

// TestCreateCluster_asks_again checks that a command is sent again after a change of the leader.
func TestCreateCluster_asks_again(t *testing.T) {
	run(t, func(r *rig) {
		r.network.variant = variantSlow
		brokers := r.brokers(3)
		brokers[0].fails["addNode"] = control.Refusal(control.ErrNotLeader).ClassifyHA("addNode")
		brokers[0].onFail = func() { delete(brokers[0].fails, "addNode") }
		made, err := r.CreateCluster(r.t.Context(), project, spec(3))
		if err != nil {
			r.t.Fatal(err)
		}
		r.wantState(made.ID, "active", 1)
	})
}

// TestCreateCluster_that_cannot_be_undone checks that the cluster stays in the list, with the
// connections of its nodes.
func TestCreateCluster_that_cannot_be_undone(t *testing.T) {
	refusal := &broker.Error{Kind: broker.Conflict, Msg: "no"}
	for name, tt := range map[string]struct {
		before func(p []*fakeBroker)
		words  string
		kept   bool
	}{
		"a node that is gone":     {func(p []*fakeBroker) { p[1].after["joinCluster"] = func() { p[1].stopped = true } }, "b2 refuses connections", true},
		"nodes that do not leave": {func(p []*fakeBroker) { p[0].fails["deleteCluster"], p[1].fails["leaveCluster"] = refusal, refusal }, "(no)", true},
		"nodes that do":           {func([]*fakeBroker) {}, "node 3 (n3): no", false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				brokers, s := r.brokers(3), spec(3)
				s.Nodes[1].BrokerID, s.Nodes[1].Target.URL = "far", "mqtt://b2"
				brokers[2].fails["joinCluster"] = refusal
				tt.before(brokers)
				_, err := r.CreateCluster(r.t.Context(), project, s)
				r.wantError(err, broker.Conflict, "node 3 (n3): no", tt.words)
				if _, kept := r.rows.stored["c1"]; kept != tt.kept || strings.Contains(fmt.Sprint(err), "delete the cluster") != kept || kept == (len(r.rows.released) > 0) {
					r.t.Errorf("kept %v, released %v, after %v", kept, r.rows.released, err)
				}
			})
		})
	}
}

// TestCreateCluster_whose_caller_leaves checks that the creation is undone if the caller's
// context ends.
func TestCreateCluster_whose_caller_leaves(t *testing.T) {
	run(t, func(r *rig) {
		brokers := r.brokers(3)
		ctx, leave := context.WithCancel(r.t.Context())
		brokers[0].after["createCluster"] = leave
		_, err := r.CreateCluster(ctx, project, spec(3))
		r.wantError(err, broker.Unavailable, "node 2")
		r.wantUndone(brokers...)
		if len(r.rows.stored) != 0 {
			r.t.Error("the cluster is still stored")
		}
	})
}

func TestOneChangeAtATime(t *testing.T) {
	run(t, func(r *rig) {
		brokers := r.brokers(3)
		brokers[2].silent = true
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

// TestCreateCluster_that_is_there adopts a cluster that matches exactly, because the service that
// created it may be lost. Any other is refused.
func TestCreateCluster_that_is_there(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(p []*fakeBroker, s *broker.ClusterSpec)
		taken  bool
	}{
		"the same":         {func([]*fakeBroker, *broker.ClusterSpec) {}, true},
		"another leader":   {func(p []*fakeBroker, _ *broker.ClusterSpec) { p[0].cluster.leader = 2 }, true},
		"another name":     {func(_ []*fakeBroker, s *broker.ClusterSpec) { s.ClusterName = "hb" }, false},
		"another mode":     {func(_ []*fakeBroker, s *broker.ClusterSpec) { s.SyncMode = "hp" }, false},
		"a node less":      {func(_ []*fakeBroker, s *broker.ClusterSpec) { s.Nodes = s.Nodes[:2] }, false},
		"other numbers":    {func(_ []*fakeBroker, s *broker.ClusterSpec) { s.Nodes[0].NodeID, s.Nodes[1].NodeID = 2, 1 }, false},
		"another address":  {func(_ []*fakeBroker, s *broker.ClusterSpec) { s.Nodes[2].Port = 7001 }, false},
		"a node elsewhere": {func(p []*fakeBroker, _ *broker.ClusterSpec) { p[2].leave() }, false},
		"a namesake": {func(p []*fakeBroker, _ *broker.ClusterSpec) {
			p[2].leave()
			p[2].join(&fakeCluster{name: "ha", uuid: "z", members: map[int]*fakeBroker{}}, 3)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				id, brokers := r.cluster(3)
				delete(r.rows.stored, id)
				for _, p := range brokers {
					p.log = nil
				}
				s := spec(3)
				tt.before(brokers, &s)
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
				for _, p := range brokers {
					if len(p.log) > 0 {
						r.t.Errorf("%s was asked %v", p.name, p.log)
					}
				}
			})
		})
	}
}

// TestCreateCluster_that_is_there_in_part adopts a cluster one of whose nodes is away, because it may be
// the machine of the service that created it; then the leader must list the node.
func TestCreateCluster_that_is_there_in_part(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(p []*fakeBroker, s *broker.ClusterSpec)
		taken  bool
	}{
		"the first node":     {func(p []*fakeBroker, _ *broker.ClusterSpec) { p[0].stopped = true }, true},
		"one without answer": {func(p []*fakeBroker, _ *broker.ClusterSpec) { p[2].silent = true }, true},
		"the majority":       {func(p []*fakeBroker, _ *broker.ClusterSpec) { p[0].stopped, p[1].stopped = true, true }, false},
		"another address": {func(p []*fakeBroker, s *broker.ClusterSpec) {
			p[0].stopped = true
			s.Nodes[0].Port = 7001
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig) {
				id, brokers := r.cluster(3)
				delete(r.rows.stored, id)
				s := spec(3)
				tt.before(brokers, &s)
				brokers[2].cluster.elect(false)
				made, err := r.CreateCluster(r.t.Context(), project, s)
				if !tt.taken {
					if r.wantError(err, broker.Unavailable, "refuses connections"); len(r.rows.stored) != 0 {
						r.t.Error("a cluster is stored")
					}
					return
				}
				if err != nil || !strings.Contains(made.Warning, "already") || !strings.Contains(made.Warning, "node ") {
					r.t.Fatalf("got %+v, %v", made, err)
				}
				away := slices.IndexFunc(brokers, func(p *fakeBroker) bool { return p.stopped || p.silent })
				if err := r.LeaveCluster(r.t.Context(), project, made.ID, ref(away+1)); err != nil {
					r.t.Errorf("the node that is away cannot be removed: %v", err)
				}
			})
		})
	}
}

// TestCreateCluster_access_not_restored names the node that has the access control of the first one.
func TestCreateCluster_access_not_restored(t *testing.T) {
	run(t, func(r *rig) {
		brokers := r.brokers(3)
		brokers[2].cutOff = refused
		brokers[1].fails["undoJoin"] = &broker.Error{Kind: broker.Unavailable, Msg: "its disk is full"}
		_, err := r.CreateCluster(r.t.Context(), project, spec(3))
		r.wantError(err, broker.Unavailable, "node 3 (n3)", "import or restore from a backup: node 2 (n2): its disk is full")
		r.wantUndone(brokers[2])
		r.wantFree(brokers...)
	})
}
