package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
)

// withList is a program with a sharedList, of its own until a cluster shares it.
func withList(n *node) { n.config.Shared = openSharedList(n.t, n.dir) }

func (n *node) list() *sharedList { return n.config.Shared.(*sharedList) }

// change appends an entry at a node, as soon as the cluster has a leader.
func (n *node) change(body string) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("%s is appended at node %d", body, n.at.NodeID), func() bool {
		err := n.list().change(n.t.Context(), body)
		if err != nil && broker.KindOf(err) != broker.Unavailable {
			n.t.Fatalf("change at node %d: %v", n.at.NodeID, err)
		}
		return err == nil
	})
}

// restart opens the node again, and its list from its file.
func (n *node) restart() {
	n.t.Helper()
	n.stop()
	withList(n)
	n.start()
}

// haveLists waits until the running nodes have the same list.
func (all nodes) haveLists(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprint("all nodes have ", want), func() bool {
		return !slices.ContainsFunc(all, func(n *node) bool { return n.Broker != nil && !slices.Equal(n.list().bodies(), want) })
	})
}

// TestShared shares a list in each syncmode: the content of the first node becomes that of all, any
// node changes it, and it stays shared after a restart, also that of all nodes.
func TestShared(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"dynsec", "full", "hp"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			all := newCluster(t, 3, mode, func(n *node) { n.change("of the first") }, withList, func(n *node) {
				if n.at.NodeID > 1 {
					n.change(fmt.Sprint("own of ", n.at.NodeID))
				}
			})
			want := []string{"of the first"}
			for i := range 6 {
				n := all[i%3]
				n.change(fmt.Sprint("e", i))
				want = append(want, fmt.Sprint("e", i))
				role := fmt.Sprint(`{"commands":[{"command":"createRole","rolename":"r`, i, `"}]}`)
				eventually(t, "a role is created", func() bool {
					answer, _ := n.control.Handle(t.Context(), []byte(role))
					return !strings.Contains(string(answer), "try again")
				})
			}
			all.haveLists(t, want...)
			others := all.others(all.leading(t))
			others[0].restart()
			others[0].change("after a restart")
			for _, n := range all {
				n.stop()
			}
			for _, n := range all {
				withList(n)
				n.start()
			}
			all[1].change("after a restart of all")
			all.haveLists(t, append(want, "after a restart", "after a restart of all")...)
			for _, n := range all {
				if log, begun, ended := n.list().shared(); log == nil || begun != 1 || ended != 0 {
					t.Errorf("node %d: shared %t, Begin was called %d times, End %d times", n.at.NodeID, log != nil, begun, ended)
				}
			}
		})
	}
}

// TestSharedSyncAfterRead reads at one node what another one has shown before it was acknowledged, and before the leader
// has applied it.
func TestSharedSyncAfterRead(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 3, "dynsec", func(*node) {}, withList)
	all[0].change("before")
	all.haveLists(t, "before")
	leader, hold := all.leading(t), make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release)
	proposes, reads := all.others(leader)[0], all.others(leader)[1]
	for _, n := range []*node{leader, reads} {
		n.list().hold.Store(&hold)
	}
	proposed := make(chan error, 1)
	log, _, _ := proposes.list().shared()
	go func() {
		_, err := log.Propose(t.Context(), []byte("new"))
		proposed <- err
	}()
	eventually(t, "a node shows the entry", func() bool { return slices.Contains(proposes.list().bodies(), "new") })
	log, _, _ = reads.list().shared()
	ctx, cancel := context.WithTimeout(t.Context(), electionTimeout)
	defer cancel()
	if err := log.Sync(ctx); err == nil {
		t.Errorf("a node has everything, and its list is %q", reads.list().bodies())
	}
	release()
	if err := log.Sync(t.Context()); err != nil || !slices.Contains(reads.list().bodies(), "new") {
		t.Errorf("the list is %q, %v", reads.list().bodies(), err)
	}
	if err := <-proposed; err != nil {
		t.Error(err)
	}
}

// TestSharedSync reads at one node what another one was acknowledged just before.
func TestSharedSync(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 3, "dynsec", func(*node) {}, withList)
	for i := range 30 {
		body := fmt.Sprint("e", i)
		all[i%3].change(body)
		for _, n := range all {
			log, _, _ := n.list().shared()
			if err := log.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(n.list().bodies(), body) {
				t.Fatalf("node %d does not have %s, which was acknowledged at another one", n.at.NodeID, body)
			}
		}
	}
	old := all.leading(t)
	others := all.others(old)
	for _, n := range others {
		n.stop()
	}
	log, _, _ := old.list().shared()
	eventually(t, "a node without the others does not know whether it has the latest data", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), electionTimeout)
		defer cancel()
		return broker.KindOf(log.Sync(ctx)) == broker.Unavailable
	})
	if err := old.list().change(t.Context(), "alone"); broker.KindOf(err) != broker.Unavailable && broker.KindOf(err) != broker.Unconfirmed {
		t.Errorf("a change without a majority: %v", err)
	}
	if _, err := log.Propose(t.Context(), make([]byte, 9<<20)); broker.KindOf(err) != broker.Invalid {
		t.Errorf("an entry that is too large: %v", err)
	}
	for _, n := range others {
		n.start()
	}
}

// TestSharedLeave has a node leave, be removed and the cluster dissolved: each keeps a copy that is its
// own, also if it could not be stored at first.
func TestSharedLeave(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 3, "dynsec", func(*node) {}, withList)
	all[2].change("shared")
	all.haveLists(t, "shared")
	own := func(n *node) func() bool {
		return func() bool { log, _, _ := n.list().shared(); return log == nil && n.list().Applied() == 0 }
	}
	third := all[2]
	third.list().mu.Lock()
	third.list().failEnd = errors.New("disk full")
	third.list().mu.Unlock()
	if err := third.AskHA(t.Context(), control.LeaveCluster("plant", third.at), nil); err != nil && !strings.Contains(err.Error(), "disk full") {
		t.Errorf("leaving is answered with %v", err) // what has failed may have been repeated already
	}
	eventually(t, "the copy is the node's own", own(third))
	third.change("of the third")
	all[1].change("without the third")
	all.others(third).haveLists(t, "shared", "without the third")
	all.others(third).leading(t).ask(control.DeleteCluster("plant"), nil)
	for _, n := range all[:2] {
		eventually(t, "the copy is the node's own", own(n))
		n.change("own")
		if got := n.list().bodies(); !slices.Equal(got, []string{"shared", "without the third", "own"}) {
			t.Errorf("node %d keeps %v", n.at.NodeID, got)
		}
	}
	third.restart()
	if got := third.list().bodies(); !slices.Equal(got, []string{"shared", "of the third"}) {
		t.Errorf("the node that left keeps %v", got)
	}
}

// TestSharedUndone undoes joining: the content of before is back.
func TestSharedUndone(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 2, "dynsec", func(n *node) { n.change("of the cluster") }, withList)
	third := startNode(t, 3, withList)
	third.change("own")
	all = append(all, third)
	var added control.HAAdded
	all.leading(t).ask(control.AddNode("plant", third.at), &added)
	third.ask(control.JoinCluster(all.spec("dynsec", 3, added.Invitation)), nil)
	all.haveLists(t, "of the cluster")
	third.ask(control.LeaveCluster("plant", third.at), nil)
	third.ask(control.UndoJoin("plant"), nil)
	if got := third.list().bodies(); !slices.Equal(got, []string{"own"}) || third.list().Applied() != 0 {
		t.Errorf("undone, the node has %v", got)
	}
	third.change("later")
	if err := third.AskHA(t.Context(), control.UndoJoin("plant"), nil); !errors.Is(err, control.ErrNothingKept) {
		t.Errorf("undone twice: %v", err)
	}
	third.restart()
	if got := third.list().bodies(); !slices.Equal(got, []string{"own", "later"}) {
		t.Errorf("after a restart, the node has %v", got)
	}
}

// TestSharedJoinFails has creating and joining fail: the content stays the node's own.
func TestSharedJoinFails(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 1, "dynsec", func(*node) {}, withList)
	second := startNode(t, 2, withList)
	second.change("own")
	all = append(all, second)
	var added control.HAAdded
	all[0].ask(control.AddNode("plant", second.at), &added)
	wrong := all.spec("dynsec", 1, added.Invitation) // it is for node 2
	if err := second.AskHA(t.Context(), control.JoinCluster(wrong), nil); err == nil {
		t.Fatal("the node joined with an invitation of another one")
	}
	if err := second.AskHA(t.Context(), control.CreateCluster(control.HASpec{ClusterName: "c"}), nil); err == nil {
		t.Fatal("a cluster without nodes was created")
	}
	second.change("still own")
	if log, _, _ := second.list().shared(); log != nil {
		t.Error("the content is shared")
	}
	if got := second.list().bodies(); !slices.Equal(got, []string{"own", "still own"}) {
		t.Errorf("the node has %v", got)
	}
}

// TestSharedWaits restarts a node that waits to be admitted: its content is shared all the time, so
// nothing is changed alone that the cluster's content will replace. When it is admitted, it has that.
func TestSharedWaits(t *testing.T) {
	t.Parallel()
	all := nodes{startNode(t, 1, withList), startNode(t, 2, withList)}
	first, second := all[0], all[1]
	second.change("own")
	var created control.HACreated
	first.ask(control.CreateCluster(all.spec("dynsec", 1, nil)), &created)
	first.change("of the cluster")
	first.stop()
	second.ask(control.JoinCluster(all.spec("dynsec", 2, &created.Invitations[0])), nil)
	second.restart()
	ctx, cancel := context.WithTimeout(t.Context(), electionTimeout/10)
	defer cancel()
	if err := second.list().change(ctx, "lost"); broker.KindOf(err) != broker.Unavailable {
		t.Errorf("a change while the node waits: %v", err)
	}
	if got := second.list().bodies(); !slices.Equal(got, []string{"own"}) {
		t.Errorf("while it waits, the node has %v", got)
	}
	first.start()
	all.haveLists(t, "of the cluster")
	eventually(t, "both have a vote", func() bool { return all.voters() == 2 })
	second.change("by the second")
	all.haveLists(t, "of the cluster", "by the second")
}

// TestSharedWithoutPort: a broker whose cluster port was removed from the configuration does not start
// with what is shared.
func TestSharedWithoutPort(t *testing.T) {
	t.Parallel()
	n := newCluster(t, 1, "dynsec", func(n *node) { n.change("e") }, withList)[0]
	n.stop()
	withList(n)
	c := n.config
	c.Cluster.Listen = ""
	if b, err := New(t.Context(), c, n.dir, nil); err == nil {
		closeNow(t, b)
		t.Error("the broker starts")
	} else if !strings.Contains(err.Error(), "cluster.listen") {
		t.Error(err)
	}
	n.start()
	n.change("f")
	n.ask(control.DeleteCluster("plant"), nil)
	n.stop()
	withList(n)
	b, err := New(t.Context(), c, n.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	closeNow(t, b)
}

// TestSharedStaysApart: a cluster of nodes without a Shared goes on without one when they have it.
func TestSharedStaysApart(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 2, "dynsec", func(*node) {})
	for _, n := range all {
		n.stop()
		withList(n)
		n.start()
	}
	all.leading(t)
	for i, n := range all {
		n.change(fmt.Sprint("own ", i))
		if got := n.list().bodies(); !slices.Equal(got, []string{fmt.Sprint("own ", i)}) {
			t.Errorf("the node has %v", got)
		}
	}
}

// TestSharedUnderFaults changes the list at all nodes while leaders stop and start again.
func TestSharedUnderFaults(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 3, "full", func(*node) {}, withList, func(n *node) { n.config.Cluster.ElectionTimeout = 0 })
	var mu sync.Mutex
	var acknowledged, refused []string
	lists := make([]*sharedList, len(all))
	for i, n := range all {
		lists[i] = n.list()
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for w := range all {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				body := fmt.Sprint(w, "/", i)
				mu.Lock()
				l := lists[w]
				mu.Unlock()
				err := l.change(context.WithoutCancel(ctx), body)
				mu.Lock()
				switch {
				case err == nil:
					acknowledged = append(acknowledged, body)
				case broker.KindOf(err) == broker.Unavailable:
					refused = append(refused, body)
				}
				mu.Unlock()
				if err != nil {
					select { // a node that is stopped refuses at once
					case <-ctx.Done():
					case <-time.After(5 * time.Millisecond):
					}
				}
			}
		})
	}
	more := func(n int) {
		t.Helper()
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(acknowledged) }
		from := count()
		eventually(t, "changes are acknowledged", func() bool { return count() >= from+n })
	}
	more(20)
	for range 3 {
		n := all.leading(t)
		n.stop()
		more(20)
		withList(n)
		n.start()
		mu.Lock()
		lists[n.at.NodeID-1] = n.list()
		mu.Unlock()
		eventually(t, "all nodes have a vote", func() bool { return all.voters() == 3 })
	}
	stop()
	wg.Wait()
	all[0].change("last")
	eventually(t, "all nodes have the same list", func() bool {
		return slices.Equal(all[0].list().bodies(), all[1].list().bodies()) && slices.Equal(all[0].list().bodies(), all[2].list().bodies())
	})
	times := map[string]int{}
	for _, b := range all[0].list().bodies() {
		times[b]++
	}
	for _, a := range acknowledged {
		if times[a] != 1 {
			t.Errorf("%s was acknowledged, and is there %d times", a, times[a])
		}
	}
	for _, r := range refused {
		if times[r] != 0 {
			t.Errorf("%s was refused, and is there %d times", r, times[r])
		}
	}
	t.Logf("%d changes acknowledged, %d refused, %d applied", len(acknowledged), len(refused), len(times))
}
