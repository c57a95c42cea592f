package remote

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/pages"
	"signalbox/broker/topictree"
)

// keeper is a broker with the topic tree plugin.
func keeper(t *testing.T, tree *topictree.Tracker) (b *Broker, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	server := &scripted{answers: rich, respond: func(topic string, payload []byte) []byte {
		if topic != control.TopicTreeTopic {
			return nil
		}
		asked.Add(1)
		return control.TopicTree(context.Background(), tree, nil, payload)
	}}
	return connected(t, server.serve(t)), asked
}

// TestKeptTreeInPages reads trees in responses of bounded size.
func TestKeptTreeInPages(t *testing.T) {
	t.Parallel()
	const many = 5000
	tree := topictree.New(topictree.Options{TTL: time.Hour, IdleBudget: many, Subscriptions: func() iter.Seq2[string, int] {
		return func(yield func(string, int) bool) {
			for i := range 2*pages.Records + 1 {
				if !yield(fmt.Sprintf("filter/%05d", i), i) {
					return
				}
			}
		}
	}})
	for i := range many {
		tree.Observe(fmt.Sprintf("plant/%05d", i), []byte{0xff}, 0, false)
	}
	b, asked := keeper(t, tree)
	for _, w := range []struct{ offset, count, commands int }{{0, -1, many/pages.Records + 1}, {0, 10, 1}, {many - 10, -1, 1}, {5, 2500, 3}, {0, 0, 1}, {2 * many, -1, 1}} {
		before := asked.Load()
		trees, err := b.ListTopics(t.Context(), 0, w.offset, w.count)
		if err != nil || len(trees) != 1 {
			t.Fatalf("%+v: %d trees, %v", w, len(trees), err)
		}
		if want := tree.Page(w.offset, w.count); !cmp.Equal(want, trees[0]) {
			t.Errorf("%+v (-there +here):\n%s", w, cmp.Diff(want, trees[0]))
		}
		if got := int(asked.Load() - before); got != w.commands {
			t.Errorf("%+v: %d commands, want %d", w, got, w.commands)
		}
	}
}

// TestKeptTreeIsReadOnceForManyTopics selects topics by their names from one response. Their
// numbers are not recorded, and the broker is not asked for them.
func TestKeptTreeIsReadOnceForManyTopics(t *testing.T) {
	t.Parallel()
	tree := topictree.New(topictree.Options{TTL: time.Hour})
	for _, topic := range []string{"a", "b", "b/c", "d"} {
		tree.Observe(topic, []byte("1"), 0, false)
	}
	b, asked := keeper(t, tree)
	before := asked.Load()
	nodes, err := b.SelectTopics(t.Context(), 0, broker.TopicSelection{Names: []string{"b", "c", "d"}})
	if err != nil || len(nodes) != 1 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	var got []string
	for topic := range nodes[0] {
		got = append(got, topic.Name)
	}
	values, err := b.TopicValues(t.Context(), 0, []string{"b", "a"})
	want := broker.NotRecorded(broker.ValuesUnobserved, "b", "a")
	if !slices.Equal(got, []string{"b", "d"}) || err != nil || !cmp.Equal(values, want) {
		t.Errorf("topics %q, numbers %+v, %v", got, values, err)
	}
	if n := asked.Load() - before; n != 1 {
		t.Errorf("%d commands, want 1", n)
	}
}

// group is an HP cluster of the nodes 1, 2 and 4 as reported by node 2: node 4 cannot
// be reached while it is down.
type group struct {
	broker.Topics // of which only what the protocol has is asked

	mode   string
	mu     sync.Mutex // guards the fields below
	ttl    map[int]int64
	down   bool
	broken bool // node 4 goes down when something is set there
}

func (g *group) respond(topic string, payload []byte) []byte {
	switch topic {
	case control.TopicTreeTopic:
		tree := topictree.New(topictree.Options{TTL: time.Hour})
		return control.TopicTree(context.Background(), tree, g, payload)
	case control.HATopic:
		return control.HA(context.Background(), clusterOf{group: g}, payload)
	}
	return nil
}

// clusterOf is the response about clusters.
type clusterOf struct {
	control.ClusterNode
	*group
}

func (c clusterOf) GetCluster(context.Context) (control.HACluster, error) {
	if c.mode == "" {
		return control.HACluster{}, control.ErrNoCluster
	}
	return control.HACluster{ClusterName: "plant", SyncMode: c.mode, Nodes: []control.HANode{{NodeID: 4}, {NodeID: 1}, {NodeID: 2}}}, nil
}

func (clusterOf) IsLeader(context.Context) (bool, error) { return false, nil }

// at reports whether a node can be reached.
func (g *group) at(id int) error {
	if g.down && id == 4 {
		return &broker.Error{Kind: broker.Unavailable, Msg: "dial tcp: refused"}
	}
	return nil
}

func (g *group) HPNodes(context.Context) ([]int, error) { return []int{1, 2, 4}, nil }

func (g *group) ListTopics(_ context.Context, id, _, _ int) ([]broker.TopicTree, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	tree := topictree.New(topictree.Options{TTL: time.Hour})
	tree.Observe(fmt.Sprint("node/", id), nil, 0, false)
	return []broker.TopicTree{tree.Page(0, -1)}, g.at(id)
}

func (g *group) GetTTL(_ context.Context, id int) ([]int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return []int64{g.ttl[id]}, g.at(id)
}

func (g *group) SetTTL(_ context.Context, id int, seconds int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = g.down || g.broken && id == 4
	if err := g.at(id); err != nil {
		return err
	}
	g.ttl[id] = seconds
	return nil
}

func (g *group) ttls() map[int]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.ttl)
}

func (g *group) wantTTLs(t *testing.T, one, two, four int64) {
	t.Helper()
	if diff := cmp.Diff(map[int]int64{1: one, 2: two, 4: four}, g.ttls()); diff != "" {
		t.Errorf("TTLs (-want +got):\n%s", diff)
	}
}

// TestTopicsOfNodes requests those of other nodes from one node of an HP cluster.
func TestTopicsOfNodes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	g := &group{mode: "hp", ttl: map[int]int64{1: 10, 2: 20, 4: 40}}
	b := connected(t, (&scripted{answers: rich, respond: g.respond}).serve(t))
	if nodes, err := b.HPNodes(ctx); err != nil || !slices.Equal(nodes, []int{1, 2, 4}) {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	all, err := b.ListTopics(ctx, 0, 0, -1)
	if err != nil || len(all) != 3 || all[0].PublishTopics.Topics[0] != "node/1" || all[2].PublishTopics.Topics[0] != "node/4" {
		t.Errorf("all trees: %+v, %v", all, err)
	}
	if one, err := b.ListTopics(ctx, 4, 0, 5); err != nil || len(one) != 1 || one[0].PublishTopics.Topics[0] != "node/4" {
		t.Errorf("tree of node 4: %+v, %v", one, err)
	}
	if ttls, err := b.GetTTL(ctx, 0); err != nil || !slices.Equal(ttls, []int64{10, 20, 40}) {
		t.Errorf("TTLs %v, %v", ttls, err)
	}
	if ttl, err := b.GetTTL(ctx, 2); err != nil || !slices.Equal(ttl, []int64{20}) {
		t.Errorf("TTL of node 2: %v, %v", ttl, err)
	}
	_, err = b.GetTTL(ctx, 3)
	wantKind(t, err, broker.NotFound)
	wantKind(t, b.SetTTL(ctx, 3, 5), broker.NotFound)
	if err := b.SetTTL(ctx, 4, 44); err != nil {
		t.Error(err)
	}
	g.wantTTLs(t, 10, 20, 44)
	if err := b.SetTTL(ctx, 0, 50); err != nil {
		t.Error(err)
	}
	g.wantTTLs(t, 50, 50, 50)
}

// TestTopicsOfNodeThatIsAway names the node, and reports what was changed.
func TestTopicsOfNodeThatIsAway(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	g := &group{mode: "hp", ttl: map[int]int64{1: 10, 2: 20, 4: 40}, broken: true}
	b := connected(t, (&scripted{answers: rich, respond: g.respond}).serve(t))
	wantError := func(err error, kind broker.Kind, words ...string) {
		t.Helper()
		for _, w := range words {
			if e := wantKind(t, err, kind); !strings.Contains(e.Msg, w) {
				t.Errorf("got %q, want %q in it", e.Msg, w)
			}
		}
	}
	wantError(b.SetTTL(ctx, 0, 60), broker.Unconfirmed, "node 4: ", "node 1, node 2 only")
	g.wantTTLs(t, 60, 60, 40)
	wantError(b.SetTTL(ctx, 0, 70), broker.Unavailable, "node 4: ", "nothing was changed")
	g.wantTTLs(t, 60, 60, 40)
	_, err := b.ListTopics(ctx, 0, 0, -1)
	wantError(err, broker.Unavailable, "node 4: ", "by nodeid")
	_, err = b.GetTTL(ctx, 4)
	wantError(err, broker.Unavailable, "node 4: ")
	if ttl, err := b.GetTTL(ctx, 1); err != nil || !slices.Equal(ttl, []int64{60}) {
		t.Errorf("TTL of node 1: %v, %v", ttl, err)
	}
}

// TestTopicsOfNodesElsewhere are refused: in other clusters, and without one.
func TestTopicsOfNodesElsewhere(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "dynsec"} {
		g := &group{mode: mode}
		b := connected(t, (&scripted{answers: rich, respond: g.respond}).serve(t))
		if nodes, err := b.HPNodes(t.Context()); err != nil || nodes != nil {
			t.Errorf("%q: nodes %v, %v", mode, nodes, err)
		}
		_, err := b.ListTopics(t.Context(), 1, 0, -1)
		wantKind(t, err, broker.NotFound)
		if ttls, err := b.GetTTL(t.Context(), 0); err != nil || !slices.Equal(ttls, []int64{int64(time.Hour / time.Second)}) {
			t.Errorf("%q: TTL %v, %v", mode, ttls, err)
		}
	}
}
