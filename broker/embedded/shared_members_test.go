package embedded

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"signalbox/broker/control"
)

// maintained returns what the list was told at the last call of Maintain.
func (l *sharedList) maintained() (removal uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.removal
}

// warn has the next calls of Maintain fail, or not.
func (l *sharedList) warn(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.warning = err
}

// TestSharedMembers removes a node: the program of each other one learns of that. These ask each other,
// the removed one gets no response, and the leader shows what the programs warn of.
func TestSharedMembers(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 3, "dynsec", func(*node) {}, withList)
	leader := all.leading(t)
	others := all.others(leader)
	second, third := others[0], others[1]
	ask := func(from, to *node) (string, error) {
		answer, err := sharedMembers{from.cluster}.Ask(t.Context(), to.at.NodeID, []byte("x"))
		return string(answer), err
	}
	if got, err := ask(second, third); err != nil || got != "x at 0" {
		t.Errorf("got %q, %v", got, err)
	}
	eventually(t, "a node knows the others, and that they have a vote", func() bool { // it may hear of the last one late
		voters, known, err := (sharedMembers{second.cluster}).Others()
		return err == nil && len(voters) == 2 && len(known) == 2 && !(sharedMembers{second.cluster}).Leads()
	})
	second.list().warn(errors.New("a key is missing"))
	warned := func() bool {
		status, err := leader.cluster.GetRaftStatus(t.Context())
		return err == nil && strings.Contains(status.Warning, "a key is missing")
	}
	eventually(t, "the leader shows the warning of a node", warned)
	second.list().warn(nil)
	eventually(t, "it shows it no more", func() bool { return !warned() })

	gone := sharedMembers{third.cluster}
	leader.ask(control.RemoveNode("plant", third.at), nil)
	eventually(t, "the others know of the removal", func() bool {
		removal := leader.list().maintained()
		return removal > 0 && second.list().maintained() == removal
	})
	if got, err := gone.Ask(t.Context(), second.at.NodeID, []byte("x")); err == nil {
		t.Errorf("a node that was removed got %q", got)
	}
	eventually(t, "the removed node shares nothing", func() bool { log, _, _ := third.list().shared(); return log == nil })
	if answer, err := third.cluster.answerShared(t.Context(), []byte("x")); err == nil {
		t.Errorf("got %q from a node that shares nothing", answer)
	}
	removal := second.list().maintained()
	second.restart()
	eventually(t, "it knows of the removal after a restart", func() bool { return second.list().maintained() == removal })
}

// incomplete returns a cluster of two nodes, of which the second has joined and lacks something.
func incomplete(t *testing.T) (all nodes) {
	t.Helper()
	all = nodes{startNode(t, 1, withList), startNode(t, 2, withList)}
	second := all[1].list()
	second.warn(errors.New("a key is missing"))
	var created control.HACreated
	all[0].ask(control.CreateCluster(all.spec("dynsec", 1, nil)), &created)
	all[1].ask(control.JoinCluster(all.spec("dynsec", 2, &created.Invitations[0])), nil)
	eventually(t, "the second node has tried to get what it lacks", func() bool {
		second.mu.Lock()
		defer second.mu.Unlock()
		return second.calls >= 3
	})
	return all
}

// TestSharedVote lets a node vote only when it has what the data need.
func TestSharedVote(t *testing.T) {
	t.Parallel()
	all := incomplete(t)
	if n := all.voters(); n != 1 {
		t.Errorf("%d nodes have a vote", n)
	}
	all[1].list().warn(nil)
	eventually(t, "both have a vote", func() bool { return all.voters() == 2 })
}

// TestSharedLeavesComplete has a node that lacks something get it before it leaves, however it does.
func TestSharedLeavesComplete(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(all nodes){
		"dissolved": func(all nodes) { all[0].ask(control.DeleteCluster("plant"), nil) },
		"removed":   func(all nodes) { all[0].ask(control.RemoveNode("plant", all[1].at), nil) },
		"leaves":    func(all nodes) { all[1].ask(control.LeaveCluster("plant", all[1].at), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := incomplete(t)
			second := all[1].list()
			second.warn(nil)
			leave(all)
			eventually(t, "the second node has left", func() bool { log, _, _ := second.shared(); return log == nil })
			second.mu.Lock()
			defer second.mu.Unlock()
			if !second.done {
				t.Error("it lacks something for good")
			}
		})
	}
}

// TestSharedSchemaOfAnotherRelease refuses to join a cluster whose content has another schema than this program's:
// the node stays as it is, and is invited again once both have the same release.
func TestSharedSchemaOfAnotherRelease(t *testing.T) {
	t.Parallel()
	all := nodes{startNode(t, 1, withList), startNode(t, 2, withList)}
	second := all[1]
	second.change("own")
	second.list().schema.Store(7)
	var created control.HACreated
	all[0].list().schema.Store(6)
	all[0].ask(control.CreateCluster(all.spec("dynsec", 1, nil)), &created)
	err := second.AskHA(t.Context(), control.JoinCluster(all.spec("dynsec", 2, &created.Invitations[0])), nil)
	if err == nil || !strings.Contains(err.Error(), "schema 6") || !strings.Contains(err.Error(), "schema 7") {
		t.Fatalf("got %v", err)
	}
	if got := second.list().bodies(); !slices.Equal(got, []string{"own"}) {
		t.Errorf("the node has %q", got)
	}
	second.list().schema.Store(6)
	var added control.HAAdded
	all[0].ask(control.AddNode("plant", second.at), &added)
	second.ask(control.JoinCluster(all.spec("dynsec", 2, added.Invitation)), nil)
	eventually(t, "both have a vote", func() bool { return all.voters() == 2 })
}
