package clusters

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"signalbox/broker"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

const project = "p"

// rig is Clusters with rows in memory and fake brokers that implement the control topic.
type rig struct {
	*Clusters
	t       *testing.T
	network *fakeNetwork
	rows    *memoryRows
}

// run runs a test in a synctest bubble, so that waiting takes no time.
func run(t *testing.T, test func(r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &fakeNetwork{brokers: map[string]*fakeBroker{}}
		rows := &memoryRows{network: h, stored: map[string]Cluster{}}
		test(&rig{New(rows, slog.New(slog.DiscardHandler)), t, h, rows})
	})
}

// brokers adds brokers to the network, with the names b1 and so on.
func (r *rig) brokers(n int) []*fakeBroker {
	all := make([]*fakeBroker, n)
	for i := range all {
		all[i] = &fakeBroker{network: r.network, name: fmt.Sprint("b", i+1), fails: map[string]error{}, lostResponses: map[string]bool{}, after: map[string]func(){}}
		r.network.brokers[all[i].name] = all[i]
	}
	return all
}

func ref(id int) broker.ClusterNodeRef {
	return broker.ClusterNodeRef{BrokerID: fmt.Sprint("b", id), NodeID: id, Name: fmt.Sprint("n", id), Address: fmt.Sprint("10.0.0.", id), Port: 7000}
}

func spec(n int) broker.ClusterSpec {
	s := broker.ClusterSpec{ClusterName: "ha", SyncMode: "dynsec"}
	for i := range n {
		s.Nodes = append(s.Nodes, ref(i+1))
	}
	return s
}

// cluster creates a cluster of n brokers.
func (r *rig) cluster(n int) (id string, brokers []*fakeBroker) {
	r.t.Helper()
	brokers = r.brokers(n)
	made, err := r.CreateCluster(r.t.Context(), project, spec(n))
	if err != nil {
		r.t.Fatal(err)
	}
	return made.ID, brokers
}

// wantError checks the kind of an error and that it contains all words.
func (r *rig) wantError(err error, kind broker.Kind, words ...string) {
	r.t.Helper()
	if err == nil || broker.KindOf(err) != kind {
		r.t.Fatalf("got %v of kind %d, want kind %d", err, broker.KindOf(err), kind)
	}
	for _, w := range words {
		if !strings.Contains(fmt.Sprint(err), w) {
			r.t.Errorf("got %q, want %q in it", err, w)
		}
	}
}

// wantState compares state, leader and the numbers of the nodes with an error.
func (r *rig) wantState(id, state string, leader int, ill ...int) broker.Cluster {
	r.t.Helper()
	c, err := r.GetCluster(r.t.Context(), project, id)
	if err != nil {
		r.t.Fatal(err)
	}
	var leads int
	var bad []int
	for _, n := range c.Nodes {
		if n.Leader {
			leads = n.NodeID
		}
		if n.Error != "" {
			bad = append(bad, n.NodeID)
		}
	}
	if c.State != state || leads != leader || !slices.Equal(bad, ill) {
		r.t.Errorf("got %s, leader %d, errors at %v; want %s, %d, %v: %+v", c.State, leads, bad, state, leader, ill, c.Nodes)
	}
	return c
}

// wantUndone checks that brokers are in no cluster, and have the access control that they had before.
func (r *rig) wantUndone(brokers ...*fakeBroker) {
	r.t.Helper()
	r.wantFree(brokers...)
	for _, p := range brokers {
		if p.hasJoined {
			r.t.Errorf("%s has the access control of a cluster; it was asked %v", p.name, p.log)
		}
	}
}

// wantFree checks that brokers are in no cluster.
func (r *rig) wantFree(brokers ...*fakeBroker) {
	r.t.Helper()
	for _, p := range brokers {
		if p.cluster != nil {
			r.t.Errorf("%s is in a cluster still; it was asked %v", p.name, p.log)
		}
	}
}

// memoryRows stores rows in memory. A broker in the network is a connection of the project;
// others are reached by the last part of their URL.
type memoryRows struct {
	network  *fakeNetwork
	mu       sync.Mutex
	stored   map[string]Cluster
	released []string
	failAdd  error
}

func (s *memoryRows) Clusters(context.Context, string) (all []Cluster, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.stored)) {
		all = append(all, s.stored[id])
	}
	return all, nil
}

func (s *memoryRows) Cluster(_ context.Context, _, id string) (Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.stored[id]
	if !ok {
		return c, &broker.Error{Kind: broker.NotFound, Msg: "no cluster"}
	}
	return c, nil
}

func (s *memoryRows) Create(_ context.Context, c Cluster) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ID = fmt.Sprint("c", len(s.stored)+1)
	s.stored[c.ID] = c
	return c.ID, nil
}

func (s *memoryRows) AddNode(_ context.Context, id string, n Node) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failAdd == nil {
		s.stored[id] = s.stored[id].with(n)
	}
	return s.failAdd
}

func (s *memoryRows) RemoveNode(_ context.Context, id string, nodeID int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.stored[id]
	c.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n Node) bool { return n.NodeID == nodeID })
	s.stored[id] = c
	return nil
}

func (s *memoryRows) Delete(_ context.Context, _, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, id)
	return nil
}

func (s *memoryRows) Resolve(_ context.Context, _ string, ref broker.ClusterNodeRef) (Node, error) {
	if _, ok := s.network.brokers[ref.BrokerID]; ok {
		return Node{ClusterNodeRef: ref, URL: "mqtt://" + ref.BrokerID}, nil
	}
	if ref.Target.URL == "" {
		return Node{}, &broker.Error{Kind: broker.Invalid, Fields: []broker.Field{{Path: "broker_id", Msg: "unknown"}}}
	}
	return Node{ClusterNodeRef: ref, Own: true, URL: ref.Target.URL}, nil
}

func (s *memoryRows) Reach(_ context.Context, _ string, n Node) (Asker, error) {
	p := s.network.brokers[strings.TrimPrefix(n.URL, "mqtt://")]
	if p == nil {
		return nil, &broker.Error{Kind: broker.Unavailable, Msg: "connection refused"}
	}
	return p, nil
}

func (s *memoryRows) Release(_ context.Context, n Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Own {
		s.released = append(s.released, n.BrokerID)
	}
}
