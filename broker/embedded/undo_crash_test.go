package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/storage/storagetest"
)

const (
	undoCrash = "EMBEDDED_UNDO_CRASH" // the undoScenario, set for the process that is killed
	undoKills = "EMBEDDED_UNDO_KILLS" // how many processes of each mode and step are killed; default 1
)

// undoScenario is what the process does that is killed: its second node joins the cluster of the first one, both leave it, and the
// second node undoes the join.
type undoScenario struct {
	Mode  string
	Dir   string      // the nodes' directories are 1 and 2
	Nodes [2]undoNode // in order
}

type undoNode struct {
	Listen, Admins, Cluster string
	At                      control.HANode
}

// undoSteps are what the process prints before each step: the second node joins, both leave, it undoes the join, and nothing more.
var undoSteps = []string{"join", "leave", "undo", "end"}

// TestCampaignKilledUndo kills a process at some moment after each step of a join that is undone. However far it came, the
// node has what it had before the join once it has left and the undo was asked for again.
func TestCampaignKilledUndo(t *testing.T) {
	t.Parallel()
	kills := 1
	if s := os.Getenv(undoKills); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range allModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			all := nodes{startNode(t, 1), startNode(t, 2)}
			all[0].shared()
			all[1].own()
			for _, n := range all {
				n.stop()
			}
			before := all[1].dir
			for range kills {
				for _, step := range undoSteps {
					s := undoScenario{Mode: mode, Dir: t.TempDir()}
					for i, n := range all {
						s.Nodes[i] = undoNode{n.config.Listen, n.config.Listeners[0].Address, n.config.Cluster.Listen, n.at}
						copyDir(t, filepath.Join(s.Dir, strconv.Itoa(i+1)), []string{all[0].dir, before}[i])
					}
					all[1].dir = filepath.Join(s.Dir, "2")
					killUndo(t, s, step)
					all[1].wantUndone()
					all[1].dir = before
				}
			}
		})
	}
}

func copyDir(t *testing.T, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// killUndo runs the process and kills it within a moment of a step.
func killUndo(t *testing.T, s undoScenario, step string) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	delay := time.Duration(rand.Int64N(int64(100 * time.Millisecond)))
	t.Logf("%s: killed %v after the step %q", s.Mode, delay, step)
	storagetest.Kill(t, undoCrash+"="+string(text), func(line string) (kill bool) {
		if line != step {
			return false
		}
		<-time.After(delay) // the campaign's random moment
		return true
	})
}

// wantUndone starts the second node without the first one, has it leave and undo the join, and expects what it had before.
func (n *node) wantUndone() {
	n.t.Helper()
	n.start()
	defer n.stop()
	var c control.HACluster
	eventually(n.t, "the node has left", func() bool {
		if errors.Is(n.AskHA(n.t.Context(), control.GetCluster(), &c), control.ErrNoCluster) {
			return true
		}
		_ = n.AskHA(n.t.Context(), control.LeaveCluster("plant", n.at), nil) // it may have left meanwhile
		return false
	})
	if err := n.AskHA(n.t.Context(), control.UndoJoin("plant"), nil); err != nil && !errors.Is(err, control.ErrNothingKept) {
		n.t.Errorf("the undo: %v", err)
	}
	eventually(n.t, "the node serves", func() bool { return n.open(0) })
	n.wantOwn()
}

// undoProcess is the process that TestCampaignKilledUndo kills.
func undoProcess(text string) {
	var s undoScenario
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = s.run()
	}
	fmt.Fprintln(os.Stderr, "the process that was to be killed ends:", err)
	os.Exit(1)
}

func (s *undoScenario) run() error {
	ctx := context.Background()
	var brokers [2]*Broker
	for i, n := range s.Nodes {
		c := n.config()
		b, err := New(ctx, c, filepath.Join(s.Dir, strconv.Itoa(i+1)), nil)
		if err == nil {
			err = b.Start(ctx)
		}
		if err != nil {
			return err
		}
		brokers[i] = b
	}
	var created control.HACreated
	steps := []func() error{
		func() error { return brokers[0].AskHA(ctx, control.CreateCluster(s.spec(1, nil)), &created) },
		func() error {
			err := brokers[1].AskHA(ctx, control.JoinCluster(s.spec(2, &created.Invitations[0])), nil)
			for err == nil && brokers[1].cluster.node.Status().LastApplied == 0 { // it was not let in yet
				<-time.After(time.Millisecond)
			}
			return err
		},
		func() error {
			err := brokers[0].AskHA(ctx, control.DeleteCluster("plant"), nil)
			for err == nil && !errors.Is(brokers[1].AskHA(ctx, control.GetCluster(), &control.HACluster{}), control.ErrNoCluster) {
				<-time.After(time.Millisecond)
			}
			return err
		},
		func() error { return brokers[1].AskHA(ctx, control.UndoJoin("plant"), nil) },
	}
	for i, do := range steps {
		if err := do(); err != nil {
			return err
		}
		fmt.Println(undoSteps[i])
	}
	select {}
}

func (n undoNode) config() Config {
	c := testConfig()
	c.Listen, c.Cluster.Listen, c.Cluster.ElectionTimeout = n.Listen, n.Cluster, electionTimeout
	c.Listeners = append(c.Listeners, adminListener(n.Admins))
	return c
}

func (s *undoScenario) spec(mine int, invitation *control.Invitation) control.HASpec {
	spec := control.HASpec{ClusterName: "plant", SyncMode: s.Mode, Invitation: invitation}
	for _, n := range s.Nodes {
		n.At.Mine = n.At.NodeID == mine
		spec.Nodes = append(spec.Nodes, n.At)
	}
	return spec
}
